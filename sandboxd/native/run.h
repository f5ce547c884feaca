/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/collector.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/native/cell.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_init_msg;
struct sbx_native;

/*
 * A slot, and the box of the run in it. STARTING is short: it waits for a
 * control group. The job borrows the group of the cell, and has the control
 * socket of its box.
 */
struct sbx_run {
    struct sbx_job job; /* first, so that one is found from the other */
    struct sbx_cell cell;
    int64_t box_bytes;  /* what is charged and not the program's, less what it has uncharged */
    uint32_t elsewhere; /* processes that the sandbox has besides, see session.h */
};

/* Once per slot. */
void sbx_run_init(struct sbx_run *run, uint32_t slot);

/* The steps of struct sbx_backend_ops. */
void sbx_run_start(struct sbx_backend *backend, struct sbx_job *job);
int sbx_run_park(struct sbx_backend *backend, struct sbx_job *job);
bool sbx_run_on_own_message(struct sbx_backend *backend, struct sbx_job *job,
                            const struct sbx_init_msg *msg);
int sbx_run_before_go(struct sbx_backend *backend, struct sbx_job *job, struct cr_err *err);
void sbx_run_on_start_time(struct sbx_backend *backend, struct sbx_job *job);
void sbx_run_on_start_cancelled(struct sbx_backend *backend, struct sbx_job *job);
void sbx_run_on_old(struct sbx_backend *backend, struct sbx_job *job);
bool sbx_run_is_alone(struct sbx_backend *backend, struct sbx_job *job);
void sbx_run_kill(struct sbx_backend *backend, struct sbx_job *job);
void sbx_run_on_kill_time(struct sbx_backend *backend, struct sbx_job *job);
void sbx_run_measure(struct sbx_backend *backend, struct sbx_job *job);
int sbx_run_open_folder(struct sbx_backend *backend, struct sbx_job *job, uid_t *ret_owner);
size_t sbx_run_get_places(struct sbx_backend *backend, struct sbx_job *job,
                          int ret_fds[SBX_COLLECTOR_PLACES]);
void sbx_run_release(struct sbx_backend *backend, struct sbx_job *job);

/* A control group may be ready for a run that waits for one. */
void sbx_run_on_group(struct sbx_native *native, struct sbx_run *run);

/*
 * The answer of the template that was asked for the box of a run: its pid and
 * pidfd (taken), or NULL: it is made from nothing.
 */
void sbx_run_on_template(struct sbx_native *native, struct sbx_run *run, const struct sbx_box *box);

/* sandbox-init is dead, and with it the box. */
void sbx_run_on_dead(struct sbx_native *native, struct sbx_run *run);
