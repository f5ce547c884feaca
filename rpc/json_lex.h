/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Cuts JSON text into tokens, strictly by RFC 8259, and refuses in strings
 * what a C string cannot hold or UTF-8 does not have: \u0000 and lone
 * surrogates. Internal to rpc/. Pure: allocates nothing, borrows the text.
 */
enum rpc_json_token {
    RPC_JSON_END, /* of the text */
    RPC_JSON_OBJECT_OPEN,
    RPC_JSON_OBJECT_CLOSE,
    RPC_JSON_ARRAY_OPEN,
    RPC_JSON_ARRAY_CLOSE,
    RPC_JSON_COLON,
    RPC_JSON_COMMA,
    RPC_JSON_STRING,
    RPC_JSON_NUMBER,
    RPC_JSON_TRUE,
    RPC_JSON_FALSE,
    RPC_JSON_NULL,
    RPC_JSON_BAD, /* `fault` says why; stays bad */
};

struct rpc_json_lex {
    const char *text; /* borrowed */
    size_t size;
    size_t at;                 /* next byte */
    enum rpc_json_token token; /* the current one */
    size_t token_at;           /* where it begins */
    const char *value;         /* STRING: between the quotes, still escaped; NUMBER: its text */
    size_t value_size;
    const char *fault; /* static */
    size_t fault_at;
};

/* Stands before the first token. */
void rpc_json_lex_init(struct rpc_json_lex *lex, const char *text, size_t size);

/* Moves to the next token and returns it. */
enum rpc_json_token rpc_json_lex_next(struct rpc_json_lex *lex);

/*
 * The current STRING without its escapes, into `out`, which has room for
 * value_size bytes and a NUL. Returns the length without the NUL.
 */
size_t rpc_json_lex_unescape(const struct rpc_json_lex *lex, char *out);

/* Line and column (in bytes), both from 1, of a place in the text. */
void rpc_json_lex_place(const struct rpc_json_lex *lex, size_t at, size_t *ret_line,
                        size_t *ret_column);
