/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/client.h"

#include <protobuf-c/protobuf-c.h>

/*
 * Follows the events of a call that streams them to the end of the run, and
 * shows them as 'crisol watch' does. Returns the exit code.
 */
int cli_follow(const char *address, const struct rpc_client_method *method,
               const ProtobufCMessage *request, int cancel_fd);
