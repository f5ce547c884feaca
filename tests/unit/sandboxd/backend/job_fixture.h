/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"
#include "tests/harness/test.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A backend with one slot whose box is the test, which is its front and its sandbox-init, too.
 * There is one, made anew for each test: what a backend calls has no state of the test's.
 */
struct job_fixture {
    struct sbx_backend backend;
    struct sbx_job job;
    int front_fd;
    int init_fd;        /* sandbox-init's end of the control socket */
    uint64_t oom_kills; /* what the counters of the box say */
    uint64_t cpu_us;
    int kills; /* so often it was called */
    int releases;
    int olds;
    int parks;
    int park_error;
    bool is_measure_broken;
    bool is_alone;
};

extern struct job_fixture fake;

#define JOB_TEST(name) cmocka_unit_test_setup_teardown(name, job_set_up, job_tear_down)

int job_set_up(void **state);
int job_tear_down(void **state);

/* Steps of run 7: it is asked for; its box is there, and watched; what sandbox-init says. */
void job_begin(void);
void job_prepare(void);
void job_init_says(const struct sbx_init_msg *msg);
/* All of them, until it is running. */
void job_run(void);

/* The next message to the front must be of that type. */
union sbx_msg job_receive(enum sbx_msg_type type);

/* The box is dead, and the front has read what it left. Returns the result. */
union sbx_msg job_end(void);

/* The front has read everything, and nothing of it was too much. */
extern const struct sbx_msg_drained job_drained;
