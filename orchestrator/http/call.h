/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct agt_exchange;
struct rpc_client_method;
struct rpc_status;

/* Without arguments: its request is the empty message. Asked with AGT_RUNTIMES_ASKED_MS. */
extern const struct rpc_client_method agt_list_runtimes;
extern const ProtobufCMessage *const agt_list_runtimes_request;

#define AGT_RUNTIMES_ASKED_MS 5000

/*
 * The end of a call. Loop thread; answers the exchange. `response` is valid
 * until the return, and NULL unless the status is OK.
 */
typedef void (*agt_call_finish)(struct agt_exchange *exchange, const struct rpc_status *status,
                                const ProtobufCMessage *response);

/*
 * Calls a unary method of sandboxd for an exchange and becomes its operation.
 * `method` and what it names are static; `request` is borrowed for the call.
 * `finish` runs at once when no call can be made.
 */
void agt_call_sandboxd(struct agt_exchange *exchange, const struct rpc_client_method *method,
                       const ProtobufCMessage *request, int deadline_ms, agt_call_finish finish);
