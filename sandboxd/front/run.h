/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/mailbox.h"
#include "common/trace.h"
#include "sandboxd/front/digest.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/queue.h"
#include "sandboxd/front/sandboxes.h"

#include <pthread.h>
#include <stdatomic.h>

/*
 * The stream thread's side of an execution: its pipes, its messages on the
 * wire and its state. run_parts.h has what its two files share.
 */
enum sbx_run_state {
    SBX_RUN_NEW,
    SBX_RUN_QUEUED,   /* waits for a slot */
    SBX_RUN_STARTING, /* RUN was sent, or is owed */
    SBX_RUN_RUNNING,  /* STARTED came */
    SBX_RUN_DRAINING, /* EXITED came: the pipes are read to their end */
    SBX_RUN_DRAINED,  /* DRAINED was sent, or is owed */
    SBX_RUN_ENDED,
    SBX_RUN_STATE_COUNT,
};

/* Returns 0, or -EPROTO for a move that is not in the table. Pure. */
int sbx_run_state_check(enum sbx_run_state from, enum sbx_run_state to);

/* What a call may ask of the stream thread. */
#define SBX_KICK_SUBMIT 1U
#define SBX_KICK_CANCEL 2U
#define SBX_KICK_ABANDON 4U
#define SBX_KICK_ROOM 8U
#define SBX_KICK_INPUT 16U   /* there is input, or its end */
#define SBX_KICK_CONTROL 32U /* there is a signal or a size */

/* Messages that the wire did not take yet. */
#define SBX_OWED_RUN 1U
#define SBX_OWED_CANCEL 2U
#define SBX_OWED_OUTPUT_LIMIT 4U
#define SBX_OWED_DRAINED 8U
#define SBX_OWED_SIGNAL 16U
#define SBX_OWED_RESIZE 32U

enum sbx_source_kind {
    SBX_SOURCE_STDIN,
    SBX_SOURCE_STDOUT,
    SBX_SOURCE_STDERR,
    SBX_SOURCE_COLLECT,
    SBX_SOURCE_COUNT,
    /* Those of the backend itself. */
    SBX_SOURCE_WIRE,
    SBX_SOURCE_CONTROL,
    SBX_SOURCE_MAILBOX,
};

/* What epoll hands back. */
struct sbx_source {
    enum sbx_source_kind kind;
    struct sbx_execution *execution; /* borrowed; NULL: the backend's */
    int fd;                          /* -1: closed */
    bool is_watched;                 /* by epoll */
};

/* What a run needs from the thread that drives it. */
struct sbx_run_host {
    void *user;
    int epoll_fd;
    int null_fd;      /* /dev/null */
    uint8_t *scratch; /* SBX_CHUNK_MAX bytes */
    /* Returns 0, -EAGAIN (sbx_run_flush is called when there is room), or another -errno. */
    int (*send)(void *user, const union sbx_msg *msg, const int *fds, size_t fd_count);
    /* The run has ended; called once, last. */
    void (*ended)(void *user, struct sbx_execution *execution);
};

/* A message to the stream thread. */
struct sbx_mail {
    struct cr_mail mail;             /* first, so that it is the message */
    struct sbx_execution *execution; /* NULL: look at the backend's own flags */
};

struct sbx_execution {
    struct sbx_mail mail;
    atomic_uint refs;
    struct sbx_waker waker;

    /* Constant. */
    char id[SBX_EXECUTION_ID_SIZE];
    char request_id[SBX_REQUEST_ID_MAX + 1];
    char caller[64];
    struct cr_trace trace;                /* of the call that it was made in; not set: none */
    char program_digest[SBX_DIGEST_SIZE]; /* of the payload: argv, environment and files */
    char policy_digest[SBX_DIGEST_SIZE];
    struct sbx_request request;
    bool wants_report;
    bool gives_way;        /* see sbx_execution_give_way() */
    struct cr_buf payload; /* until sbx_execution_complete(), where there is a compile stage */
    struct sbx_sandbox *sandbox; /* that it is in, until it ends; NULL: none */

    /* Shared by both threads. */
    pthread_mutex_t lock; /* guards everything down to the next comment */
    uint32_t kicks;
    bool is_posted;
    bool is_started;
    bool is_started_taken;
    bool is_ended;
    bool is_ended_taken;
    uint64_t queue_us;
    struct cr_buf input;  /* interactive: for standard input */
    bool is_input_closed; /* nothing more will come */
    uint64_t signals;     /* bit number - 1: to be sent */
    uint16_t columns;     /* to be sent; 0: no new size */
    uint16_t rows;
    struct sbx_output outputs[2];
    uint32_t last_stream; /* taken last, so that streams alternate */

    /* The stream thread's; outcome and collector are everybody's once is_ended. */
    struct sbx_outcome outcome;
    struct sbx_collector collector;
    struct sbx_backend *backend; /* borrowed: outlives every submitted execution */
    const struct sbx_run_host *host;
    enum sbx_run_state state;
    bool has_early;  /* the outcome is that of an early RESULT */
    int64_t tell_ns; /* when its owner hears of STARTED at the latest; INT64_MAX: it has */
    struct sbx_queue_entry queue_entry;
    struct sbx_execution *next; /* in the backend's list of runs */
    uint64_t run;               /* number on the wire */
    int64_t submitted_ns;
    uint32_t owed;
    bool is_cancel_sent;
    uint32_t overflow_stream; /* KILL: which stream passed its cap first */
    uint64_t overflow_observed;
    struct sbx_source sources[SBX_SOURCE_COUNT];
    int child_fds[SBX_RUN_FDS]; /* until RUN has left; the first is the payload */
    uint8_t *stdin_data;
    size_t stdin_size;
    size_t stdin_at;
};

/* Begins the run with this number: pipes, RUN. The caller has a slot for it. */
void sbx_run_start(struct sbx_execution *execution, uint64_t run);

/* A pipe is ready. */
void sbx_run_ready(struct sbx_execution *execution, enum sbx_source_kind kind);

/* A message about it. Returns -EPROTO when it is illegal in the state of the run. */
int sbx_run_message(struct sbx_execution *execution, const union sbx_msg *msg);

/*
 * When sbx_run_on_time() wants to be called; INT64_MAX: never. A short program
 * ends before that, and its owner is woken once.
 */
int64_t sbx_run_next_ns(const struct sbx_execution *execution);
void sbx_run_on_time(struct sbx_execution *execution, int64_t now_ns);

/* The call took something, or wants an end. */
void sbx_run_kicked(struct sbx_execution *execution, uint32_t kicks);

/* The wire has room again: sends what is owed. */
void sbx_run_flush(struct sbx_execution *execution);

/* Ends it without the backend: `verdict` is CANCELLED, SANDBOX_ERROR or SANDBOX_LOST. */
void sbx_run_abort(struct sbx_execution *execution, enum sbx_verdict verdict, enum sbx_stage stage,
                   int error);

/* Ends it as refused: before its program was started. */
void sbx_run_refuse(struct sbx_execution *execution, enum rpc_code code, const char *text,
                    const char *reason, int32_t retry_after_ms);
