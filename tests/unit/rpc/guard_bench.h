/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/clock.h"
#include "common/edge.h"
#include "rpc/guard.h"
#include "rpc/h2_frames.h"
#include "tests/harness/test.h"

#include <stdbool.h>
#include <stdint.h>

/* Preface and SETTINGS; the frame that opens stream 1, of 10 bytes. */
#define GUARD_OPENING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define GUARD_OPENING_SIZE (sizeof(GUARD_OPENING) - 1)
#define GUARD_HEADERS "\0\0\1\1\4\0\0\0\1x"

/* A guard between two sockets of the test, and a clock of its own. */
struct guard_bench {
    struct cr_edge edge;
    struct rpc_guard_host host;
    struct rpc_h2_budget budget;
    struct rpc_guard *guard;
    int client; /* the test plays the client here */
    int server; /* and the server here; -1 until attached */
    bool is_refusing;
    int64_t now_ns;
    int deaths;
    const char *reason;
    uint32_t uid_seen;
    int fds_before;
};

/* The second fails the test when a descriptor is left. */
void guard_set_up(struct guard_bench *bench);
void guard_tear_down(struct guard_bench *bench);

/* One thing that is ready; false when nothing is. */
bool guard_step(struct guard_bench *bench);
/* Lets the guard do all that it can do now. A guard that spins would fail here. */
void guard_turn(struct guard_bench *bench);
/* So much time goes by, in ns, and the guard looks at the clock. */
void guard_pass(struct guard_bench *bench, int64_t ns);

/* From the client, and a turn. */
void guard_send(struct guard_bench *bench, const void *bytes, size_t size);
/* The client opens the connection, and the server has read that. */
void guard_open(struct guard_bench *bench);

/* Frames of data from one end, until no more is taken. Returns how many bytes were. */
size_t guard_fill(struct guard_bench *bench, int fd);
/* Reads at one end, as long as something comes. Returns how many bytes did. */
size_t guard_drain(struct guard_bench *bench, int fd);
