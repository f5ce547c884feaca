/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/front/backend.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A double of a backend on the other end of the wire, in the process of the
 * test and driven by it step by step, and a client that takes what a call
 * would take. Everything has a deadline; a missed one fails the test.
 */
struct fake {
    struct sbx_backend *backend;
    int wire_fd;    /* the backend's end of the wire */
    int control_fd; /* the supervisor's end of the lifeline */
};

/* A run as the backend sees it. */
struct fake_run {
    uint64_t number;
    struct sbx_msg_run request;
    int fds[SBX_RUN_FDS]; /* payload, stdin, stdout, stderr, collect */
};

/* What a caller has got so far. */
struct fake_client {
    struct sbx_execution *execution;
    int bell_fd;
    struct cr_buf outputs[2];
    uint64_t dropped[2];
    size_t chunks;
    bool has_started;
    bool has_ended;
    bool is_text; /* every chunk must be whole characters */
};

/* Before the first test; then the teardown of each, which fails when it left descriptors. */
void fake_begin(void);
int fake_check_fds(void **state);

void fake_open(struct fake *fake, uint32_t slots, size_t queue_length);
void fake_close(struct fake *fake);

/* HELLO as a good backend says it. */
void fake_hello(union sbx_msg *msg, uint32_t slots);
/* Waits until the front has taken HELLO, or lost the backend. */
void fake_wait_up(struct fake *fake, bool is_up);
/* Gives the front a new wire, as the supervisor does, and says HELLO on it. */
void fake_reconnect(struct fake *fake, uint32_t slots);

/* The next message from the front, which must be of this type. */
void fake_receive(const struct fake *fake, enum sbx_msg_type type, union sbx_msg *ret_msg);
/* True when the front says nothing for a little while. */
bool fake_is_silent(const struct fake *fake);
void fake_send(const struct fake *fake, const union sbx_msg *msg);

/* Takes the next RUN. */
void fake_take(const struct fake *fake, struct fake_run *run);
void fake_say_started(const struct fake *fake, const struct fake_run *run);
/* Both. */
void fake_start(const struct fake *fake, struct fake_run *run);
/* Writes to a stream (1, 2) or to collect (3), letting the client take meanwhile. */
void fake_write(struct fake_run *run, uint32_t stream, const void *data, size_t size,
                struct fake_client *client);
/* Closes the pipes, says EXITED, waits for DRAINED (in *ret_drained when not NULL). */
void fake_exit(const struct fake *fake, struct fake_run *run, struct sbx_msg_drained *ret_drained);
/* One that holds only when DRAINED tells of nothing. */
void fake_early_result(const struct fake *fake, const struct fake_run *run,
                       enum sbx_verdict verdict);
void fake_result(const struct fake *fake, const struct fake_run *run, enum sbx_verdict verdict);
/* EXITED and an early RESULT, which DRAINED makes the last. */
void fake_finish(const struct fake *fake, struct fake_run *run, enum sbx_verdict verdict);
void fake_close_fds(struct fake_run *run);

void client_submit(struct fake_client *client, struct fake *fake,
                   Crisol__Sandbox__V1__ExecuteRequest *message, const char *caller);
/* The smallest request that there is. */
void client_submit_plain(struct fake_client *client, struct fake *fake, const char *caller);
/* As client_submit(), but for the submit. */
void client_prepare(struct fake_client *client, Crisol__Sandbox__V1__ExecuteRequest *message,
                    const char *caller);
/* The smallest request there is. */
void client_request(Crisol__Sandbox__V1__ExecuteRequest *message);
/* Takes what there is without waiting. */
void client_take(struct fake_client *client);
/* Takes until the end. */
const struct sbx_outcome *client_wait_end(struct fake_client *client);
void client_wait_started(struct fake_client *client);
void client_done(struct fake_client *client);
