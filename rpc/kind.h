/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kinds of methods, to server and client alike. */
enum rpc_kind {
    RPC_UNARY,         /* one message in, one out */
    RPC_SERVER_STREAM, /* one message in, many out */
    RPC_BIDI,          /* many in, many out; client streaming is this with one answer */
};
