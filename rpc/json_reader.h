/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/json.h"
#include "rpc/json_lex.h"
#include "rpc/status.h"

#include <protobuf-c/protobuf-c.h>

#define RPC_JSON_SHOWN_MAX 60U

/*
 * The state of reading one JSON text: where it is, what has been allocated,
 * and the path of the field, for errors. Internal to rpc/. All functions that
 * can fail return a negative errno with the status filled in.
 */
struct rpc_json_reader {
    struct rpc_json_lex lex;
    struct rpc_json_leniency leniency;
    struct rpc_status *status; /* borrowed */
    size_t allocated;
    unsigned depth;
    size_t path_size;
    char path[sizeof(((struct rpc_violation *)0)->field)];
};

/* Blames the field at the path, or the text as a whole when there is none. Returns -EINVAL. */
int rpc_json_fail(struct rpc_json_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The text is not JSON at the current token. Returns -EINVAL. */
int rpc_json_fail_syntax(struct rpc_json_reader *reader, const char *expected);

/* The current token is JSON, but not the kind of value that `allowed` describes. Returns -EINVAL.
 */
int rpc_json_fail_kind(struct rpc_json_reader *reader, const char *allowed);

/* malloc under the cap of one text; NULL with the status filled in. */
void *rpc_json_allocate(struct rpc_json_reader *reader, size_t size);

/* Appends to the path and returns the size before, for rpc_json_path_cut(). A path that is too long
 * ends where it fits. */
size_t rpc_json_path_add(struct rpc_json_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rpc_json_path_cut(struct rpc_json_reader *reader, size_t size);

/* The current string token as it may be shown to the sender: cut, still with its escapes. */
void rpc_json_show_name(const struct rpc_json_lex *lex, char shown[RPC_JSON_SHOWN_MAX + 1]);

/* Reads the current token into `slot`, which is zeroed or holds the default of the field, and stays
 * in a state that can be freed. For every type but messages. */
int rpc_json_read_scalar(struct rpc_json_reader *reader, const ProtobufCFieldDescriptor *field,
                         void *slot);
