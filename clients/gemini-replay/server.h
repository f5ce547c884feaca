/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;
struct replay_scripts;

/* Serves scripted answers on Gemini's HTTP paths. One thread. */
struct replay_server;

struct replay_server_options {
    int listen_fd;                        /* borrowed: listening, non-blocking */
    const struct replay_scripts *scripts; /* borrowed */
    const char *key;                      /* borrowed; NULL: any key will do, but one must come */
    uint32_t delay_ms;                    /* between two chunks of a stream */
    uint32_t think_min_ms;                /* before an answer begins: a time from this … */
    uint32_t think_max_ms;                /* … to this, by a hash of the request; 0: none */
};

int replay_server_new(const struct replay_server_options *options,
                      struct replay_server **ret_server, struct cr_err *err);

/* Serves until `stop_fd` is readable. Returns 0 or -errno. */
int replay_server_run(struct replay_server *server, int stop_fd, struct cr_err *err);

/* Breaks off what is being sent. NULL is allowed; returns NULL. */
struct replay_server *replay_server_free(struct replay_server *server);
