/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/http/connection.h"

#include <stdbool.h>

#include <sys/socket.h>

struct agt_http;
struct cr_err;

/*
 * Connections that come through TLS: the relay (tls/relay.h) has them first,
 * and hands their plain end to the loop together with who it is.
 */

/* Starts the relay when the options ask for TLS. */
int agt_secure_start(struct agt_http *http, struct cr_err *err);

/* Ends it, and whatever was on its way. Safe to repeat. */
void agt_secure_stop(struct agt_http *http);

/* Loop thread: gives what came through to libmicrohttpd. */
void agt_secure_take(struct agt_http *http);

/* Loop thread: who is behind the plain end `fd`; false for any other socket. Once per connection.
 */
bool agt_secure_claim(struct agt_http *http, int fd, char caller[AGT_CALLER_SIZE],
                      bool *ret_is_certified);
