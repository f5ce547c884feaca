/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/session.h"
#include "sandboxd/native/cell.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_backend;
struct sbx_native;
struct sbx_run;

/*
 * What a session keeps: host ids, a workspace, and the box of an interpreter
 * between two of its runs, in which everybody is stopped and frozen then. Every other run
 * in it gets a box of its own, as any run does, on the same ids and the same
 * workspace.
 */
struct sbx_native_session {
    struct sbx_session base; /* first, so that one is found from the other */
    uint32_t place;
    int workspace_fd;     /* its mount, which hangs in a namespace of its own */
    int space_fd;         /* that namespace */
    struct sbx_cell cell; /* with the box of the interpreter that waits, if one does */
    int64_t box_bytes;    /* of it: charged and not the program's */
};

/* The steps of struct sbx_backend_ops. */
int sbx_native_session_make(struct sbx_backend *backend, struct sbx_session *base);
void sbx_native_session_drop(struct sbx_backend *backend, struct sbx_session *base);
bool sbx_native_session_check(struct sbx_backend *backend, struct sbx_session *base, bool is_late);

/*
 * A run begins in its session. True when the interpreter that waits was given what it is to do: the
 * run has its cell then. False: it needs a cell, see below.
 */
bool sbx_native_session_enter(struct sbx_native *native, struct sbx_run *run);

/* As sbx_cell_open(), for a run in a session: the same ids, the same workspace. */
int sbx_native_session_open_cell(struct sbx_native *native, struct sbx_run *run);

/*
 * The limits are the sandbox's: what the interpreter that waits has of memory and processes, it
 * being stopped, comes off those of a run beside it, and onto what that one is said to have had.
 */
void sbx_native_session_take_off(struct sbx_native *native, struct sbx_run *run,
                                 struct sbx_limits *limits);

/* The run is over. Takes its cell when the interpreter in it goes on; ends when it was to. */
void sbx_native_session_leave(struct sbx_native *native, struct sbx_run *run);

/* An interpreter may have died while it waited. */
void sbx_native_session_on_event(struct sbx_native *native);
