/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/metrics.h"
#include "rpc/kind.h"
#include "rpc/status.h"

#include <stddef.h>
#include <stdint.h>

#define RPC_CODE_COUNT (RPC_UNAUTHENTICATED + 1)

/*
 * What is counted of one method, on either side, under the names of
 * go-grpc-prometheus, which dashboards know. Any thread notes, any thread
 * reads. Zeroed memory is an empty one.
 */
struct rpc_counts {
    atomic_uint_fast64_t started;
    atomic_uint_fast64_t handled[RPC_CODE_COUNT];
    atomic_uint_fast64_t received; /* messages of streams and the one of unary calls */
    atomic_uint_fast64_t sent;
    struct cr_histogram seconds; /* from start to end */
};

void rpc_counts_start(struct rpc_counts *counts);
void rpc_counts_receive(struct rpc_counts *counts);
void rpc_counts_send(struct rpc_counts *counts);
/* `code` outside of the table counts as UNKNOWN. */
void rpc_counts_end(struct rpc_counts *counts, int code, int64_t started_ns);

/* A method and its counts. */
struct rpc_metered {
    const char *path; /* "/package.Service/Method"; NULL: of those that are not known */
    enum rpc_kind kind;
    const struct rpc_counts *counts;
};

/*
 * Writes grpc_SIDE_started_total and its like for every method of the list, whether or not it was
 * called: a series that comes into being with its first error has no rate. `side` is "server" or
 * "client". Label values are those of the list, never a caller's.
 */
void rpc_meter_write(struct cr_metrics *metrics, const char *side, const struct rpc_metered *list,
                     size_t count);
