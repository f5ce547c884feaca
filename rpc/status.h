/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Status codes of gRPC, numbered as in the protocol
 * (grpc/doc/statuscodes.md), so that includers need no grpc header.
 */
enum rpc_code {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16,
};

#define RPC_MESSAGE_MAX 1024
#define RPC_VIOLATIONS_MAX 16

/* One bad field of a request, for google.rpc.BadRequest. */
struct rpc_violation {
    char field[128];       /* path as the caller wrote it: "limits.wall_time_ms", "files[2].path" */
    char description[256]; /* what was wrong and what to do */
};

/*
 * A status with the google.rpc details that we send. Fixed size, no
 * allocation, no ownership. `message` and descriptions must be UTF-8 and fit
 * to be shown to any client: no host path, no key, no data of another caller.
 */
struct rpc_status {
    enum rpc_code code;
    char message[RPC_MESSAGE_MAX];
    struct rpc_violation violations[RPC_VIOLATIONS_MAX]; /* BadRequest */
    size_t violation_count;
    size_t violations_left_out; /* beyond the array; counted in the message only */
    int32_t retry_after_ms;     /* RetryInfo when > 0 */
    char reason[64];            /* ErrorInfo.reason, e.g. "QUEUE_FULL"; empty: none */
};

#define RPC_STATUS_INIT                                                                            \
    {                                                                                              \
        .code = RPC_OK                                                                             \
    }

/* "INVALID_ARGUMENT" for a code; "UNKNOWN" for a number outside the table. */
const char *rpc_code_name(enum rpc_code code);

/* HTTP status for a code (grpc/doc/http-grpc-status-mapping.md, and 422 for INVALID_ARGUMENT as
 * FastAPI). */
int rpc_code_to_http(enum rpc_code code);

/* Starts the status anew: code and message as given, no details. A text that is too long is cut at
 * a character. */
void rpc_status_set(struct rpc_status *status, enum rpc_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ErrorInfo.reason of all that a service which ends refuses or breaks off. */
#define RPC_REASON_DRAINING "DRAINING"

/*
 * The end of a service as callers see it: UNAVAILABLE, RPC_REASON_DRAINING and RetryInfo, which
 * tell it from one that is dead: whoever balances goes to the next one, now.
 */
void rpc_status_set_draining(struct rpc_status *status);

/*
 * Adds a bad field: makes the status INVALID_ARGUMENT and its message
 * "field: description" (the first), or "… (and N more)" when there are several.
 */
void rpc_status_add_violation(struct rpc_status *status, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
