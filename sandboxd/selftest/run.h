/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/selftest/attacks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbx_tester;

#define SBX_SPEC_COLLECT_MAX 12

/* What to run; zero fields mean none. */
struct sbx_spec {
    const char *behaviour; /* argv[1] of sbprobe */
    const char *argument;  /* argv[2] */
    const char *shell;     /* instead: a script for /bin/sh -c */
    const uint64_t *limits;
    const char *collect[SBX_SPEC_COLLECT_MAX + 1]; /* NULL-terminated */
    const char *read_only_path;                    /* one read-only input file */
    const char *read_only_text;
    int deadline_ms; /* 0: 30 s */
};

/* An answer. */
struct sbx_reply {
    ProtobufCMessage *base; /* owned */
    const Crisol__Sandbox__V1__ExecuteResult *result;
    struct sbx_observed observed;
};

/*
 * Runs to the end, by gRPC. Returns 0, or a negative errno with what happened
 * in ret_problem; -ETIMEDOUT when the deadline passed.
 */
int sbx_run(struct sbx_tester *tester, const struct sbx_spec *spec, struct sbx_reply *ret_reply,
            char *ret_problem, size_t size);
void sbx_reply_done(struct sbx_reply *reply);

/* A run that goes on until it is cancelled, on a thread of its own. */
struct sbx_background {
    struct sbx_tester *tester;
    const struct sbx_spec *spec; /* borrowed */
    pthread_t thread;
    int heard_fd;  /* readable: it wrote something, or it is over */
    int cancel_fd; /* written to: cancel */
    atomic_bool is_over;
};

/* Starts it and waits for its first output. On failure nothing is left. */
int sbx_background_start(struct sbx_tester *tester, const struct sbx_spec *spec,
                         struct sbx_background *background);
void sbx_background_stop(struct sbx_background *background);

/* Controls that the backend says are gaps; without root those that are weaker, too, which an
 * operator accepts likewise. Returns 0 or a negative errno. */
int sbx_ask_gaps(struct sbx_tester *tester, bool ret_gaps[SBX_CONTROL_COUNT]);
