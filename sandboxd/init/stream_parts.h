/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/inside.h"
#include "sandboxd/init/kept.h"
#include "sandboxd/init/parked.h"
#include "sandboxd/init/stream_input.h"
#include "sandboxd/init/stream_terminal.h"
#include "sandboxd/wire/boxstream.h"

#include <stdbool.h>
#include <stddef.h>

#include <sys/types.h>

/*
 * What the files of stream.h share: stream.c waits for events and reaps,
 * stream_order.c takes what the host says, stream_run.c begins and ends runs.
 * Nothing else includes this.
 */

/* What is waited for: one descriptor each. */
enum sbx_stream_fd {
    SBX_STREAM_FD_HOST,
    SBX_STREAM_FD_SIGNAL,
    SBX_STREAM_FD_STDOUT,
    SBX_STREAM_FD_STDERR,
    SBX_STREAM_FD_STDIN,    /* of `input` */
    SBX_STREAM_FD_LISTENER, /* of the program's filter */
    SBX_STREAM_FD_PARKED,   /* an interpreter that does not wait yet */
    SBX_STREAM_FD_CELLS,    /* the interpreter of a session, while it has a run */
    SBX_STREAM_FD_COUNT,
};

/* The one process; one thread. */
struct sbx_stream {
    struct sbx_stream_parser parser;
    int filter_fd;
    int payload_fd;
    size_t filter_size;
    size_t payload_size;
    bool is_preloaded; /* `parked` is there, or on its way */
    bool is_prepared;
    bool is_started;
    bool is_over;
    bool is_session; /* see boxstream.h */
    bool is_new;     /* the interpreter of a session has to be started for this run */
    struct sbx_parked parked;
    struct sbx_kept kept;
    struct sbx_stream_prepare prepare; /* what sort of run it is */
    pid_t leader;
    struct sbx_stream_terminal terminal;
    int fds[SBX_STREAM_FD_COUNT]; /* -1: closed */
    struct sbx_inside inside;     /* off: the box is read from outside */
    struct sbx_stream_input input;
};

/* The box cannot do what it is there for: tells which step failed and with what (-errno). The end
 * of the relay or the backend is what ends this process then. */
void sbx_stream_fail(struct sbx_stream *stream, enum sbx_stage stage, int error);

/* ---- stream_order.c ---- */

/* Takes what has come on standard input, as often as it is readable. Its end, and what is not
 * legal in the state that the box is in, ends everything. */
void sbx_stream_read_host(struct sbx_stream *stream);

/* As much input as the program takes now. Room for more is told when all of it has left; while
 * there is none to tell, nothing is. */
void sbx_stream_pass_input(struct sbx_stream *stream);

/* The interpreter that is to wait says READY, or its hello, or ends; that may also come while it
 * waits. */
void sbx_stream_hear_parked(struct sbx_stream *stream);

/* ---- stream_run.c ---- */

/* Starts the program, or lets the one go that is there. What fails is told. */
void sbx_stream_go(struct sbx_stream *stream);

/* The end of a run that starts nothing: its files are in place. */
void sbx_stream_go_without_program(struct sbx_stream *stream);

/* One piece of output, of SBX_STREAM_FD_STDOUT or SBX_STREAM_FD_STDERR. Returns false at
 * its end, which closes it, and while there is nothing to read. */
bool sbx_stream_pass_on(struct sbx_stream *stream, enum sbx_stream_fd at);

/* Ends everything in the box: what was written before is passed on before the last word. Adds to
 * EXITED how many processes were left. */
void sbx_stream_finish(struct sbx_stream *stream, struct sbx_init_msg last);

/* The backend wants the end, and does not ask how the program would have ended. Returns 0, or
 * -EPROTO where that is not for this process to do. */
int sbx_stream_kill_box(struct sbx_stream *stream);

/* The interpreter of a session says that its run is over: with all that it began, it waits for the
 * next. */
void sbx_stream_hear_kept(struct sbx_stream *stream);

/* The run of a session is over, whatever it came to: as if the box had just been made, but for
 * what stays. */
void sbx_stream_rest(struct sbx_stream *stream, const struct sbx_stream_item *item);
