/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

/* Listens on a unix socket and gives every request the same answer. */
struct fake_engine {
    char folder[64];
    char path[96];
    const char *answer; /* NULL: takes the request and says nothing; "": hangs up */
    int listen_fd;
    int stop_fds[2];
    pthread_t thread;
};

void fake_engine_start(struct fake_engine *engine, const char *answer);
void fake_engine_stop(struct fake_engine *engine);

/* "HTTP/1.1 200 OK" with a body. */
#define FAKE_ANSWER(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body
