/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "rpc/h2_frames.h"
#include "tests/harness/h2_names.h"

#include <stddef.h>
#include <stdint.h>

/* Frames of both sides of a connection, for tests of what rpc/h2_frames.h makes of them. */

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
/* The fault of more frames of a kind than are borne. */
#define FLOOD(kind) (RPC_H2_FLOOD + CR_EDGE_##kind)

/* `count` frames in a row; with `step` each on a stream of its own. */
struct frames {
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
    uint32_t size;
    uint32_t count;
    uint32_t step;
};

/* Appends them. */
void frames_add(struct cr_buf *buf, const struct frames *frames);

/* Makes the buffer, with preface and SETTINGS in it. */
void frames_begin(struct cr_buf *buf);

/* What is allowed by default, but for fewer streams. Borrowed. */
const struct cr_edge *h2_edge(void);

/* Nothing was fed yet; with h2_new_open() preface and SETTINGS were. To free(). */
struct rpc_h2 *h2_new(struct rpc_h2_budget *peer);
struct rpc_h2 *h2_new_open(struct rpc_h2_budget *peer);

/* Feeds bytes of the client, in as many turns as it takes, up to the first fault. */
enum rpc_h2_fault h2_feed(struct rpc_h2 *h2, const void *data, size_t size, int64_t now_ns);

/* Feeds frames of one side. */
enum rpc_h2_fault h2_from_client(struct rpc_h2 *h2, const struct frames *frames, int64_t now_ns);
void h2_from_server(struct rpc_h2 *h2, const struct frames *frames);
