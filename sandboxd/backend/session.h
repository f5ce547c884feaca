/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct sbx_backend;
struct sbx_job;

#define SBX_SESSIONS_MAX 64U

/*
 * What lives over several runs of one caller (a Sandbox in the contract), one
 * run at a time. Whose it is and its clocks are here, the same for every
 * backend; what it keeps between two runs is the backend's own, who has this as
 * the first member of its struct.
 */
struct sbx_session {
    uint64_t id; /* the front's number; 0: this place in the list is free */
    uint64_t caller;
    struct sbx_limits limits;
    struct sbx_job *job; /* borrowed: in it now; NULL: none */
    int64_t idle_ns;     /* how long it may be without a run */
    int64_t idle_at_ns;  /* when that is over; INT64_MAX: while a run is in it */
    int64_t end_ns;
    int64_t still_by_ns; /* when all that waits in it has to stand still; INT64_MAX: see below */
    int64_t look_ns;     /* when it is looked at next; INT64_MAX likewise */
    uint32_t closing;    /* enum sbx_closed: it ends when its run has; 0: it lives */
};

struct sbx_sessions {
    struct sbx_session *list[SBX_SESSIONS_MAX]; /* borrowed: parts of the backend's own */
    uint32_t most;                              /* at one time; 0: this backend has none */
    uint32_t life_ms;                           /* the longest that one may live */
};

/* Another place for one, zeroed but for what is the backend's own. */
void sbx_sessions_add(struct sbx_backend *backend, struct sbx_session *session);

/* ---- messages of the front ---- */

/* 0, or the errno for which there is none. */
int sbx_sessions_open(struct sbx_backend *backend, const struct sbx_msg_open *msg);
void sbx_sessions_close(struct sbx_backend *backend, uint64_t id);

/* 0 for a run in no session; ESRCH, EPERM (another caller's), EBUSY, or EINVAL (its limits). */
int sbx_sessions_admit(const struct sbx_backend *backend, const struct sbx_msg_run *msg);

/* ---- for the backend ---- */

/* Of a run that was admitted to one; NULL: it is in none. */
struct sbx_session *sbx_session_of(const struct sbx_backend *backend, const struct sbx_job *job);

/* Its run begins: the clock of idle sessions stops. */
void sbx_session_begin(struct sbx_session *session, struct sbx_job *job);

/* Its run is over, and what it keeps of that is the session's again. It may end in here. */
void sbx_session_end_run(struct sbx_backend *backend, struct sbx_session *session);

/* What it keeps was frozen: the backend is asked in ten seconds whether it stands still, and on
 * control groups v1 each second whether somebody killed it, until a run begins. */
void sbx_session_rest(const struct sbx_backend *backend, struct sbx_session *session);

/* What it kept is gone, and nobody wanted that: it ends, or will when its run has. */
void sbx_session_lose(struct sbx_backend *backend, struct sbx_session *session);

/* ---- for the loop ---- */

/* While the backend stops, all of them end. */
int64_t sbx_sessions_next_ns(const struct sbx_backend *backend);
void sbx_sessions_on_time(struct sbx_backend *backend, int64_t now_ns);

/*
 * Marks what is less than it is said to be where groups cannot be frozen (SBX_CONTROL_WALL_TIME):
 * an interpreter that was stopped between two runs can have itself woken, by a timer whose signal
 * is SIGCONT. When the groups are found.
 */
void sbx_sessions_judge(struct sbx_backend *backend);

/* That live. */
uint32_t sbx_sessions_count(const struct sbx_backend *backend);
