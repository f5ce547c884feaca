/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/* User ids of the boxes of one backend. */
#define NATIVE_UID_RANGE (16U * 65536U)

/*
 * Plays supervisor and front for a real sandboxd-native. Everything asserts:
 * a step that fails or does not come in time fails the test.
 */
struct native_client {
    pid_t pid;
    int pidfd;
    int wire_fd;
    int lifeline_fd;
    uint32_t uid_base; /* own range, so that neighbours on the machine do not count */
    struct sbx_msg_hello hello;
};

/* One run from the front's side. */
struct native_run {
    uint64_t id;
    struct cr_buf out[3];
    int out_fds[3]; /* read ends: stdout, stderr, collect; -1 at their end */
    bool has_started;
    bool has_exited;
    bool is_drained;
    bool has_early; /* a RESULT that holds from DRAINED on */
    bool has_result;
    int64_t started_ns;
    int64_t exited_ns;
    struct sbx_msg_result result;
};

/* What to run; zero fields mean a default. */
struct native_spec {
    const char *const *argv; /* NULL-terminated; the first is absolute */
    const char *shell;       /* instead of argv: a script for /bin/sh -c */
    const char *python;      /* instead of argv: a program for python3 -c */
    const char *file_name;   /* one input file */
    const char *file_text;
    const char *collect;              /* a file to collect */
    const struct cr_buf *payload;     /* instead of all of the above: one that is finished */
    uint32_t flags;                   /* of RUN */
    bool has_collect;                 /* `payload` has COLLECT records */
    uint64_t limits[SBX_LIMIT_COUNT]; /* 0: the default (times test_slowness() for time) */
};

/* Starts it, takes its HELLO and waits until its pool is full. `flags` are added to the command
 * line; NULL-terminated, NULL: none.
 */
void native_client_start(struct native_client *client, const char *const *flags);

/* Closes the lifeline and waits for exit code 0. */
void native_client_stop(struct native_client *client);

void native_client_send(const struct native_client *client, struct native_run *run,
                        const struct native_spec *spec);

/* Reads output and messages until all runs have their result; answers EXITED as a front does. */
void native_client_wait(const struct native_client *client, struct native_run *runs, size_t count);

/* Until STARTED of a run. */
void native_client_wait_started(const struct native_client *client, struct native_run *run);

/* Messages of the front about a running run. */
void native_client_cancel(const struct native_client *client, const struct native_run *run);
void native_client_output_limit(const struct native_client *client, const struct native_run *run,
                                uint64_t observed);

/* Sends, waits, returns the result. */
void native_client_run(const struct native_client *client, const struct native_spec *spec,
                       struct native_run *ret_run);

void native_run_done(struct native_run *run);
