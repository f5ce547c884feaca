/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct agt_http;

/*
 * Accepts connections and hands them to libmicrohttpd. Its own accept gives up
 * for lack of fds until one of its connections ends, which for a server with
 * nothing but long streams is for hours; this one tries again. Loop thread.
 */

/* The listening socket is readable. */
void agt_acceptor_ready(struct agt_http *http);

/* Once per tick: goes on after a lack of fds. */
void agt_acceptor_tick(struct agt_http *http, int64_t now_ns);

/* Closes the listening socket: who knocks from now on is refused. Safe to repeat. */
void agt_acceptor_close(struct agt_http *http);
