/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxstream.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_limits;

/*
 * Between one container and the front: a child process without privilege that
 * holds the hijacked connection. It sends filter, payload and input, takes the
 * output apart and writes it to the front's pipes, and tells events of
 * sandbox-init over a SOCK_SEQPACKET pair in the messages of boxctl.h, so that
 * the backend, which holds the engine's socket, reads no byte of the program.
 * Where sandbox-init collects the files (init/inside.h), it passes them on as
 * well, and ends behind them: its exit code is then that of a collector.
 *
 * That of a container that waits is started with it: it has given up everything
 * when the run comes, and waits as well.
 */
struct sbx_relay_plan {
    int socket_fd; /* to the container */
    int filter_fd; /* -1: sandbox-init has it */
    uid_t uid;
    gid_t gid; /* of the program */
};

/* What it gets of the run that it is for; all borrowed. */
struct sbx_relay_load {
    int stdio_fds[3]; /* the front's: input to read, output to write */
    int payload_fd;
    int folder_fd;                   /* the container's /workspace, for read-only files; -1: none */
    int collect_fd;                  /* the front's, for files; -1: they do not come this way */
    const struct sbx_limits *limits; /* for sandbox-init to take over; NULL: it has them */
    bool is_going;                   /* GO goes along, nobody says it later */
    enum sbx_stream_mode mode;
    uint32_t terminal_size;   /* as of SBX_STREAM_RESIZE */
    bool is_fresh;            /* the interpreter that stayed is to go first */
    uint64_t file_size_bytes; /* the most that one of the read-only files may have */
};

/*
 * A message beside those of boxctl.h. Relay ▶ backend: the payload has
 * read-only files, so the folder shall belong to the relay, be writable for
 * its group and sticky. Backend ▶ relay: it does. The relay then writes these
 * files before sandbox-init writes the others: the program can add to them but
 * neither change, remove nor rename them, as they are another user's.
 */
#define SBX_RELAY_SHARE 16

struct sbx_relay {
    pid_t pid;
    int pidfd;
    int control_fd;
};

#define SBX_RELAY_INIT                                                                             \
    {                                                                                              \
        .pid = -1, .pidfd = -1, .control_fd = -1                                                   \
    }

/* Starts it; the fds of the plan stay the caller's. On failure nothing is left behind. */
int sbx_relay_start(const struct sbx_relay_plan *plan, struct sbx_relay *ret_relay,
                    struct cr_err *err);

/* Hands it its run, once. */
int sbx_relay_load(const struct sbx_relay *relay, const struct sbx_relay_load *load,
                   struct cr_err *err);

/* SIGKILL; safe when it is gone. */
void sbx_relay_kill(const struct sbx_relay *relay);

/* Exit code: the run of a session is over, and the connection is as it was before it. */
#define SBX_RELAY_RESTED 7

/*
 * Reaps an ended (or killed) relay and closes the fds. Safe to repeat. Returns
 * its exit code, or -1 when it was killed or there is none.
 */
int sbx_relay_reap(struct sbx_relay *relay);
