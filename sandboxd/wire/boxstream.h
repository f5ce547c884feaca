/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxctl.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What boxctl.h says over a socket, for a box that has nothing but the two
 * byte streams of a container: frames of a header and `size` bytes, little
 * endian as the machine. Output of the program travels inside frames that
 * sandbox-init makes, so that it cannot forge an event.
 *
 *   relay ▶ init: FILTER …, PAYLOAD …, LIMITS for a box that was made ahead, PREPARE, then GO,
 *                 STDIN …, and at any time behind GO: SIGNAL, RESIZE
 *   init ▶ relay: EVENT READY, then STDOUT and STDERR …, EVENT TAKEN, EVENT EXITED; or EVENT FAILED
 *
 * There is one stream, and what the program does not read shall not keep a
 * signal from it: no more than SBX_STREAM_CREDIT bytes of input are on their
 * way that sandbox-init did not say to be TAKEN.
 *
 * Before that, in a box that is made ahead with an interpreter in it; the
 * filter is then not sent again:
 *
 *   backend ▶ init: FILTER …, PAYLOAD … (its argv and environment), PRELOAD
 *   init ▶ backend: EVENT WAITING; or STDERR with a line for people, EVENT FAILED
 *
 * And where the box is read from inside (init/inside.h):
 *
 *   relay ▶ init: KILL, once and behind GO
 *   init ▶ relay: EVENT COUNTER at any time; behind EXITED or KILL: EVENT EMPTY, COLLECT …,
 *                 EVENT COLLECTED
 *
 * And where the container is a session's (mode CALL, CELL or FILES): it has one run after the
 * other, each with a relay of its own, and each ends so, whatever became of it. Nothing of that run
 * is on its way then, in neither direction:
 *
 *   relay ▶ init: END, at any time behind the first PREPARE
 *   init ▶ relay: EVENT EMPTY: nothing is left of the run but the interpreter that stays
 */
#define SBX_STREAM_VERSION UINT32_C(4)
#define SBX_STREAM_DATA_MAX (64U << 10)
#define SBX_STREAM_CREDIT SBX_STREAM_DATA_MAX

enum sbx_stream_kind {
    SBX_STREAM_NONE = 0,
    SBX_STREAM_FILTER = 1,  /* a piece of the system call filter */
    SBX_STREAM_PAYLOAD = 2, /* a piece of the payload */
    SBX_STREAM_PREPARE = 3, /* struct sbx_stream_prepare: both are complete */
    SBX_STREAM_GO = 4,      /* no data */
    SBX_STREAM_STDIN = 5,   /* no data: its end */
    SBX_STREAM_EVENT = 6,   /* struct sbx_init_msg */
    SBX_STREAM_STDOUT = 7,
    SBX_STREAM_STDERR = 8,
    SBX_STREAM_KILL = 9,     /* no data */
    SBX_STREAM_COLLECT = 10, /* what a collector writes: struct sbx_collect_header … */
    SBX_STREAM_LIMITS = 11,  /* struct sbx_stream_limits */
    SBX_STREAM_PRELOAD = 12, /* struct sbx_stream_preload: filter and payload are complete */
    SBX_STREAM_SIGNAL = 13,  /* uint32_t: its number */
    SBX_STREAM_RESIZE = 14,  /* uint32_t: columns and rows, its halves; with TERMINAL */
    SBX_STREAM_END = 15,     /* uint32_t: 0 or SBX_STREAM_FRESH */
    SBX_STREAM_KIND_END,
};

#define SBX_STREAM_BIT(kind) (UINT32_C(1) << (kind))
#define SBX_STREAM_TO_INIT                                                                         \
    (SBX_STREAM_BIT(SBX_STREAM_FILTER) | SBX_STREAM_BIT(SBX_STREAM_PAYLOAD) |                      \
     SBX_STREAM_BIT(SBX_STREAM_PREPARE) | SBX_STREAM_BIT(SBX_STREAM_GO) |                          \
     SBX_STREAM_BIT(SBX_STREAM_STDIN) | SBX_STREAM_BIT(SBX_STREAM_KILL) |                          \
     SBX_STREAM_BIT(SBX_STREAM_LIMITS) | SBX_STREAM_BIT(SBX_STREAM_PRELOAD) |                      \
     SBX_STREAM_BIT(SBX_STREAM_SIGNAL) | SBX_STREAM_BIT(SBX_STREAM_RESIZE) |                       \
     SBX_STREAM_BIT(SBX_STREAM_END))
#define SBX_STREAM_TO_RELAY                                                                        \
    (SBX_STREAM_BIT(SBX_STREAM_EVENT) | SBX_STREAM_BIT(SBX_STREAM_STDOUT) |                        \
     SBX_STREAM_BIT(SBX_STREAM_STDERR) | SBX_STREAM_BIT(SBX_STREAM_COLLECT))

enum sbx_stream_mode {
    SBX_STREAM_MODE_RUN,
    SBX_STREAM_MODE_TERMINAL, /* the program's streams are a terminal; its output comes as STDOUT */
    /* Of a session: a program that ends with its run, its interpreter, and no program at all. */
    SBX_STREAM_MODE_CALL,
    SBX_STREAM_MODE_CELL,
    SBX_STREAM_MODE_FILES,
    SBX_STREAM_MODE_END,
};

/* The interpreter that stayed, or was about to, shall not be there any more. */
#define SBX_STREAM_FRESH UINT32_C(1)

struct sbx_stream_prepare {
    uint32_t version; /* SBX_STREAM_VERSION */
    uint32_t mode;    /* enum sbx_stream_mode */
    uint32_t size;    /* of the terminal, as of RESIZE */
    uint32_t flags;   /* SBX_STREAM_FRESH */
};

/* Resource limits of the run, soft and hard: at most those that the box was made with. */
struct sbx_stream_limits {
    uint64_t stack_bytes;
    uint64_t file_size_bytes;
    uint64_t open_files;
};

/* An interpreter to start and to keep for the run. */
struct sbx_stream_preload {
    uint32_t version; /* SBX_STREAM_VERSION */
    uint32_t kind;    /* enum sbx_template_kind */
};

struct sbx_stream_header {
    uint32_t kind; /* enum sbx_stream_kind */
    uint32_t size;
};

/* Takes a stream apart at any chunking. Pure, holds no more than one event. */
struct sbx_stream_parser {
    uint32_t legal; /* bit set of kinds */
    struct sbx_stream_header header;
    uint32_t header_have;
    uint32_t left; /* bytes of the frame that did not come yet */
    uint8_t fixed[sizeof(struct sbx_init_msg)];
    uint32_t fixed_have;
};

/* A whole fixed-size frame (EVENT, PREPARE, PRELOAD, GO …), or a piece of a longer one. */
struct sbx_stream_item {
    enum sbx_stream_kind kind; /* NONE: more bytes are needed */
    const uint8_t *data;       /* in the fed bytes or in the parser: valid until the next call */
    size_t size;
};

void sbx_stream_init(struct sbx_stream_parser *parser, uint32_t legal);

/*
 * Takes bytes up to the end of the next item; call again with the rest.
 * Returns the number of bytes taken, or -EPROTO for a kind that is not legal
 * or a size that is not the kind's.
 */
int sbx_stream_feed(struct sbx_stream_parser *parser, const uint8_t *data, size_t size,
                    struct sbx_stream_item *ret_item);
