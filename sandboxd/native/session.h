/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/native/cell.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_backend;
struct sbx_job;
struct sbx_native;
struct sbx_run;

#define SBX_SESSIONS_MAX 64U

/*
 * What lives over several runs of one caller (a Sandbox in the contract): host
 * ids, a workspace, and the box of an interpreter between two of its runs, in
 * which everybody is stopped then. Every other run in it gets a box of its
 * own, as any run does, on the same ids and the same workspace. One at a time.
 */
struct sbx_session {
    uint64_t id; /* the front's number; 0: this place in the list is free */
    uint64_t caller;
    struct sbx_limits limits;
    uint32_t place;
    int workspace_fd;     /* its mount, which hangs in a namespace of its own */
    int space_fd;         /* that namespace */
    struct sbx_job *job;  /* borrowed: in it now; NULL: none */
    struct sbx_cell cell; /* with the box of the interpreter that waits, if one does */
    int64_t box_bytes;    /* of it: charged and not the program's */
    int64_t idle_ns;      /* how long it may be without a run */
    int64_t idle_at_ns;   /* when that is over; INT64_MAX: while a run is in it */
    int64_t end_ns;
    uint32_t closing; /* enum sbx_closed: it ends when its run has; 0: it lives */
};

struct sbx_sessions {
    struct sbx_session list[SBX_SESSIONS_MAX];
    uint32_t most; /* at one time */
};

/* The steps of struct sbx_backend_ops. */
int sbx_session_open(struct sbx_backend *backend, const struct sbx_msg_open *msg);
void sbx_session_close(struct sbx_backend *backend, uint64_t id);

/* 0 for a run in no session; ESRCH, EPERM (another caller's), EBUSY, or EINVAL (its limits). */
int sbx_session_admit(struct sbx_backend *backend, const struct sbx_msg_run *msg);

/*
 * A run begins in its session. True when the interpreter that waits was given what it is to do: the
 * run has its cell then. False: it needs a cell, see below.
 */
bool sbx_session_enter(struct sbx_native *native, struct sbx_run *run);

/* As sbx_cell_open(), for a run in a session: the same ids, the same workspace. */
int sbx_session_open_cell(struct sbx_native *native, struct sbx_run *run);

/*
 * The limits are the sandbox's: what the interpreter that waits has of memory and processes, it
 * being stopped, comes off those of a run beside it, and onto what that one is said to have had.
 */
void sbx_session_take_off(struct sbx_native *native, struct sbx_run *run,
                          struct sbx_limits *limits);

/* The run is over. Takes its cell when the interpreter in it goes on; ends when it was to. */
void sbx_session_leave(struct sbx_native *native, struct sbx_run *run);

/* An interpreter may have died while it waited. */
void sbx_session_on_event(struct sbx_native *native);

/* Clocks. While the backend stops, all of them end. */
int64_t sbx_session_next_ns(const struct sbx_native *native);
void sbx_session_on_time(struct sbx_native *native, int64_t now_ns);

/* That live. */
uint32_t sbx_session_count(const struct sbx_native *native);
