/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * The protocol between sandboxd-front and a backend: fixed-width messages on
 * a SOCK_SEQPACKET socket, file descriptors by SCM_RIGHTS. This is the
 * reviewed attack surface of the root process: no strings, no paths, no
 * lengths that the reader has to trust. A backend that sees an illegal
 * message logs it and closes the front's socket.
 *
 * A run, seen from the front:
 *   RUN + fds ─▶            admitted: STARTED … EXITED, or at once RESULT (refused, set-up failed)
 *   ◀─ STARTED              GO was written: the wall clock runs
 *   CANCEL, OUTPUT_LIMIT,
 *   SIGNAL, RESIZE ─▶       while it runs
 *   ◀─ EXITED               everything in the box is dead, the write ends of the pipes are closed
 *   DRAINED ─▶              the front has read the pipes to their end
 *   ◀─ RESULT               last message of this run; the slot is free
 *
 * When nothing is collected, RESULT follows EXITED at once with is_early: what
 * holds when the front finds no overflow. Then DRAINED, which frees the slot,
 * is the last message; else another RESULT is.
 *
 * A session (Sandbox in the contract), which lives over several runs:
 *   OPEN ─▶                 runs may name it at once
 *   RUN … ─▶                with its number: one at a time, each with a RESULT as above
 *   CLOSE ─▶                its run is killed, and what is left of it
 *   ◀─ CLOSED               it is gone; also unasked: its time is over, or it could not be made
 */
#define SBX_WIRE_VERSION UINT32_C(1)

/*
 * The fds of RUN: payload, stdin read end, stdout write end, stderr write end,
 * collect write end. A collect fd that is neither pipe nor socket (/dev/null)
 * says that nothing is to be collected, which saves a process. The payload is
 * sealed; the others are pipes, sockets or /dev/null: anything else is illegal.
 */
#define SBX_RUN_FDS 5

/*
 * What a program has, in the flags of RUN: the backend does not read the
 * payload, and these tell which boxes that were made ahead fit, and how they
 * are told to go.
 */
#define SBX_RUN_HAS_ARGS 1U       /* arguments behind the runtime's own */
#define SBX_RUN_HAS_OWN 2U        /* its own command, or environment variables */
#define SBX_RUN_HAS_CELL 4U       /* of a session: for its interpreter, which keeps its state */
#define SBX_RUN_NO_PROGRAM 8U     /* of a session: files in and out, nothing is started */
#define SBX_RUN_HAS_TERMINAL 16U  /* its streams are a terminal: what it writes comes by stdout */
#define SBX_RUN_HAS_READ_ONLY 32U /* files that the program may not change */
#define SBX_RUN_STOPS_EARLY 64U   /* with HAS_ARGS: they are SBX_RUN_STOP_ARG and nothing else */
#define SBX_RUN_FLAGS                                                                              \
    (SBX_RUN_HAS_ARGS | SBX_RUN_HAS_OWN | SBX_RUN_HAS_CELL | SBX_RUN_NO_PROGRAM |                  \
     SBX_RUN_HAS_TERMINAL | SBX_RUN_HAS_READ_ONLY | SBX_RUN_STOPS_EARLY)

/* Of pytest: the first test that fails is the last one that is run. A pytest that has read its
 * arguments already can still be told so. */
#define SBX_RUN_STOP_ARG "-x"

enum sbx_msg_type {
    SBX_MSG_HELLO = 1,        /* backend ▶ front, once, first */
    SBX_MSG_RUN = 2,          /* front ▶ backend, with SBX_RUN_FDS fds */
    SBX_MSG_CANCEL = 3,       /* front ▶ backend */
    SBX_MSG_OUTPUT_LIMIT = 4, /* front ▶ backend */
    SBX_MSG_DRAINED = 5,      /* front ▶ backend */
    SBX_MSG_STARTED = 6,      /* backend ▶ front */
    SBX_MSG_EXITED = 7,       /* backend ▶ front */
    SBX_MSG_RESULT = 8,       /* backend ▶ front */
    SBX_MSG_POOL = 9,         /* backend ▶ front, how many boxes wait now */
    SBX_MSG_COUNTS = 10,      /* backend ▶ front, after HELLO and when they have changed */
    SBX_MSG_OPEN = 11,        /* front ▶ backend: a session */
    SBX_MSG_CLOSE = 12,       /* front ▶ backend */
    SBX_MSG_CLOSED = 13,      /* backend ▶ front: last about it */
    SBX_MSG_SIGNAL = 14,      /* front ▶ backend */
    SBX_MSG_RESIZE = 15,      /* front ▶ backend */
    SBX_MSG_TYPE_END,
};

/* Numbers as in crisol.sandbox.v1.VerdictCode; docs/verdicts.md has the conditions. */
enum sbx_verdict {
    SBX_VERDICT_NONE = 0,
    SBX_VERDICT_OK = 1,
    SBX_VERDICT_NONZERO_EXIT = 2,
    SBX_VERDICT_SIGNALED = 3,
    SBX_VERDICT_WALL_TIME_LIMIT = 10,
    SBX_VERDICT_CPU_TIME_LIMIT = 11,
    SBX_VERDICT_MEMORY_LIMIT = 12,
    SBX_VERDICT_PROCESS_LIMIT = 13,
    SBX_VERDICT_OUTPUT_LIMIT = 14,
    SBX_VERDICT_FILE_SIZE_LIMIT = 15,
    SBX_VERDICT_DISK_LIMIT = 16,
    SBX_VERDICT_SECURITY_VIOLATION = 20,
    SBX_VERDICT_EXEC_FAILED = 31,
    SBX_VERDICT_COLLECT_FAILED = 32,
    SBX_VERDICT_CANCELLED = 40,
    SBX_VERDICT_SANDBOX_ERROR = 50,
    SBX_VERDICT_SANDBOX_LOST = 51,
};

/* The fields of crisol.sandbox.v1.Limits that a backend enforces, in the order of struct
 * sbx_limits. */
enum sbx_limit {
    SBX_LIMIT_WALL_TIME,
    SBX_LIMIT_CPU_TIME,
    SBX_LIMIT_MEMORY,
    SBX_LIMIT_PROCESSES,
    SBX_LIMIT_CPU_MILLICORES,
    SBX_LIMIT_OPEN_FILES,
    SBX_LIMIT_FILE_SIZE,
    SBX_LIMIT_WORKSPACE_BYTES,
    SBX_LIMIT_WORKSPACE_INODES,
    SBX_LIMIT_STACK,
    SBX_LIMIT_OUTPUT,
    SBX_LIMIT_COUNT,
};

struct sbx_limits {
    uint64_t value[SBX_LIMIT_COUNT]; /* in the unit of the proto field; never 0 */
};

/* The controls of the policy table (docs/threat-model.md). */
enum sbx_control {
    SBX_CONTROL_NETWORK,
    SBX_CONTROL_MEMORY,
    SBX_CONTROL_SWAP,
    SBX_CONTROL_CPU,
    SBX_CONTROL_PIDS,
    SBX_CONTROL_NO_NEW_PRIVS,
    SBX_CONTROL_CAPABILITIES,
    SBX_CONTROL_USER,
    SBX_CONTROL_WALL_TIME,
    SBX_CONTROL_CPU_TIME,
    SBX_CONTROL_ROOTFS,
    SBX_CONTROL_TMPFS,
    SBX_CONTROL_SECCOMP,
    SBX_CONTROL_PROC,
    SBX_CONTROL_DEV,
    SBX_CONTROL_IPC,
    SBX_CONTROL_OUTPUT,
    SBX_CONTROL_RLIMITS,
    SBX_CONTROL_COUNT,
};

/* Numbers as in crisol.sandbox.v1.Enforcement. */
enum sbx_enforcement {
    SBX_ENFORCED = 1,
    SBX_PARTIAL = 2,
    SBX_GAP = 3,
};

enum sbx_killed_by {
    SBX_KILLED_BY_NOBODY = 0,
    SBX_KILLED_BY_SANDBOXD = 1,
    SBX_KILLED_BY_OOM_KILLER = 2,
    SBX_KILLED_BY_SECCOMP = 3,
};

/* Which step of the start failed, for EXEC_FAILED and SANDBOX_ERROR. */
enum sbx_stage {
    SBX_STAGE_NONE,
    SBX_STAGE_REFUSED, /* no free slot, or draining */
    SBX_STAGE_CLONE,
    SBX_STAGE_CGROUP,
    SBX_STAGE_NAMESPACE,
    SBX_STAGE_MOUNT,
    SBX_STAGE_LIMITS,
    SBX_STAGE_IDENTITY,
    SBX_STAGE_INIT,    /* exec of sandbox-init */
    SBX_STAGE_PAYLOAD, /* unpacking argv, environment, files */
    SBX_STAGE_SECCOMP,
    SBX_STAGE_EXEC,    /* execve of the program: EXEC_FAILED */
    SBX_STAGE_MEASURE, /* reading counters back */
    SBX_STAGE_COUNT,
};

struct sbx_msg_header {
    uint32_t version; /* SBX_WIRE_VERSION */
    uint16_t type;    /* enum sbx_msg_type */
    uint16_t size;    /* of the whole message */
    uint64_t run; /* the front's number of the run or session, never reused on a connection; 0 in
                     HELLO, POOL, COUNTS */
};

/* What a backend can do beside running programs. */
#define SBX_FEATURE_SIGNALS 1U  /* SIGNAL reaches the program */
#define SBX_FEATURE_TERMINAL 2U /* SBX_RUN_HAS_TERMINAL, RESIZE */
#define SBX_FEATURES (SBX_FEATURE_SIGNALS | SBX_FEATURE_TERMINAL)

struct sbx_msg_hello {
    struct sbx_msg_header header;
    uint32_t backend;          /* number of crisol.sandbox.v1.Backend */
    uint32_t slots;            /* runs at one time */
    uint32_t runtime_count;    /* must equal the front's table */
    uint32_t cgroup_version;   /* 1 or 2; 0 unknown */
    uint64_t runtime_digest;   /* sbx_runtimes_digest(): both sides were built from one table */
    struct sbx_limits maximum; /* operator maxima, enforced by the backend too */
    uint8_t controls[SBX_CONTROL_COUNT]; /* enum sbx_enforcement */
    uint8_t is_image_root; /* 1: boxes have the root file system of --rootfs, not the host's /usr */
    uint8_t sessions;      /* that may live at one time; 0: this backend has none */
    uint32_t pool_slots;   /* boxes that wait for runs when the pool is full */
    uint64_t memory_bytes; /* that memory limits of all runs together may reach; 0: any sum */
    uint32_t runtimes;     /* bits of the runtime table: those whose interpreter is there */
    uint32_t session_life_ms; /* the longest that one may live; 0: there are none */
    uint32_t features;        /* SBX_FEATURE_… */
    uint32_t reserved;
};

struct sbx_msg_run {
    struct sbx_msg_header header;
    uint32_t runtime; /* index into the runtime table */
    uint32_t flags;   /* SBX_RUN_HAS_… */
    uint64_t caller;  /* the same for the runs of one caller and for nobody else's */
    uint64_t session; /* number of the session that it runs in; 0: in none */
    uint16_t columns; /* of its terminal; 0: it has none */
    uint16_t rows;
    uint32_t reserved;
    struct sbx_limits limits;
};

/* To its process group, or to its first process alone where that has left it. */
struct sbx_msg_signal {
    struct sbx_msg_header header;
    uint32_t number; /* 1 to SBX_SIGNAL_MAX */
    uint32_t reserved;
};

#define SBX_SIGNAL_MAX 64U

struct sbx_msg_resize {
    struct sbx_msg_header header;
    uint16_t columns; /* neither is 0 */
    uint16_t rows;
    uint32_t reserved;
};

/* The limits hold for each run in it; memory and processes for its interpreter as a whole. */
struct sbx_msg_open {
    struct sbx_msg_header header;
    uint32_t idle_ms; /* without a run, it ends after this time */
    uint32_t life_ms; /* and after this time in any case */
    uint64_t caller;  /* as in RUN: nobody else's runs get in */
    struct sbx_limits limits;
};

struct sbx_msg_close {
    struct sbx_msg_header header;
};

/* Why a session is gone. */
enum sbx_closed {
    SBX_CLOSED_ASKED = 1,  /* CLOSE came */
    SBX_CLOSED_IDLE = 2,   /* idle_ms passed */
    SBX_CLOSED_LIFE = 3,   /* life_ms passed */
    SBX_CLOSED_FAILED = 4, /* it could not be made */
    SBX_CLOSED_LOST = 5,   /* what it kept is gone, and neither we nor its caller ended it */
    SBX_CLOSED_END,
};

struct sbx_msg_closed {
    struct sbx_msg_header header;
    uint32_t reason; /* enum sbx_closed */
    uint32_t reserved;
};

struct sbx_msg_cancel {
    struct sbx_msg_header header;
};

struct sbx_msg_output_limit {
    struct sbx_msg_header header;
    uint32_t stream; /* 1 stdout, 2 stderr */
    uint32_t reserved;
    uint64_t observed; /* bytes read from that stream so far */
};

/* `overflow_stream` is for a limit that was passed only by what lay in the pipe at the end. */
struct sbx_msg_drained {
    struct sbx_msg_header header;
    uint32_t overflow_stream; /* 0 none, 1 stdout, 2 stderr; only with policy KILL */
    uint32_t collect_failed;  /* 1: a required file is missing */
    uint64_t observed;        /* bytes of that stream */
};

struct sbx_msg_started {
    struct sbx_msg_header header;
    uint64_t prepare_us; /* from RUN to GO */
};

struct sbx_msg_exited {
    struct sbx_msg_header header;
};

/* One less than the numbers of crisol.sandbox.v1.StartMode. */
enum sbx_start_mode {
    SBX_START_COLD,
    SBX_START_PRELOAD,
    SBX_START_PRELOAD_DEEP,
    SBX_START_PRELOAD_SHALLOW,
    SBX_START_MODE_COUNT,
};

struct sbx_limit_hit {
    uint32_t limit;     /* enum sbx_limit */
    uint32_t killed_by; /* enum sbx_killed_by */
    uint64_t value;
    uint64_t observed;
};

#define SBX_OTHER_HITS_MAX 4

/* What a run in a session left of it; all of them 0 for any other run. */
#define SBX_KEPT_SESSION 1U /* it lives on, with its files */
#define SBX_KEPT_STATE 2U   /* and so does its interpreter, with its state */
#define SBX_KEPT_NEW 4U     /* the interpreter was started for this run: it had no state yet */
#define SBX_KEPT_ALL (SBX_KEPT_SESSION | SBX_KEPT_STATE | SBX_KEPT_NEW)

struct sbx_msg_result {
    struct sbx_msg_header header;
    uint32_t verdict;  /* enum sbx_verdict */
    int32_t exit_code; /* of the leader; 0 when it did not exit */
    int32_t signal;    /* of the leader; 0 when it exited */
    uint32_t stage;    /* enum sbx_stage, for EXEC_FAILED and SANDBOX_ERROR */
    int32_t stage_errno;
    uint32_t has_hit; /* 1: `hit` decided the verdict */
    struct sbx_limit_hit hit;
    uint32_t other_hit_count;
    uint32_t cgroup_version;
    struct sbx_limit_hit other_hits[SBX_OTHER_HITS_MAX];
    uint64_t prepare_us;
    uint64_t wall_us;
    uint64_t kill_us;
    uint64_t collect_us;
    uint64_t cpu_total_us;
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t cpu_throttled_us;
    uint64_t memory_peak_bytes;
    uint64_t workspace_bytes;
    uint32_t workspace_inodes;
    uint32_t oom_kills;
    uint32_t processes_peak;
    uint32_t process_limit_hits;
    uint32_t killed_leftovers;
    uint8_t is_pool_hit;         /* 1: the box was made ahead */
    uint8_t pool_ready;          /* boxes that wait now */
    uint8_t start_mode;          /* enum sbx_start_mode */
    uint8_t is_inferred;         /* 1: the counters were read inside the box */
    uint16_t has_forbidden_call; /* 1: SECURITY_VIOLATION, and the filter named the call */
    uint16_t is_early;           /* 1: holds when DRAINED tells of no overflow and no failure */
    uint32_t forbidden_call;     /* its number, or SBX_CALL_… of boxctl.h */
    uint32_t kept;               /* SBX_KEPT_… */
    uint32_t reserved;
};

struct sbx_msg_pool {
    struct sbx_msg_header header;
    uint64_t ready; /* boxes that wait now */
};

/* What a backend knows of itself that no run tells, for the metrics. */
enum sbx_count {
    SBX_COUNT_SWEPT,           /* leftovers of an earlier backend that its start removed */
    SBX_COUNT_QUARANTINED,     /* boxes that cannot be removed, now */
    SBX_COUNT_TEMPLATES,       /* that can fork, now */
    SBX_COUNT_TEMPLATE_STARTS, /* since its start */
    SBX_COUNT_TEMPLATE_FORKS,  /* boxes that templates made since its start */
    SBX_COUNT_TEMPLATE_SINCE,  /* start of the oldest one that can: CLOCK_MONOTONIC ns; 0: none */
    SBX_COUNT_POOL_READY,      /* boxes that wait, now: what is made behind the last result, too */
    SBX_COUNT_COUNT,
};

struct sbx_msg_counts {
    struct sbx_msg_header header;
    uint64_t value[SBX_COUNT_COUNT];
};

union sbx_msg {
    struct sbx_msg_header header;
    struct sbx_msg_hello hello;
    struct sbx_msg_run run;
    struct sbx_msg_cancel cancel;
    struct sbx_msg_output_limit output_limit;
    struct sbx_msg_drained drained;
    struct sbx_msg_started started;
    struct sbx_msg_exited exited;
    struct sbx_msg_result result;
    struct sbx_msg_pool pool;
    struct sbx_msg_counts counts;
    struct sbx_msg_open open;
    struct sbx_msg_close close;
    struct sbx_msg_closed closed;
    struct sbx_msg_signal signal;
    struct sbx_msg_resize resize;
};

/* Exact size of a message type; 0 for an unknown type. */
size_t sbx_msg_size(uint16_t type);

/*
 * Checks bytes that came from the socket: version, type, exact size, fields
 * within their enums, limits non-zero, reserved fields 0. Pure. On success
 * copies into *ret_msg. Returns 0 or -EPROTO.
 */
int sbx_msg_parse(const void *data, size_t size, union sbx_msg *ret_msg, struct cr_err *err);

/* Fills in the header for `type`; everything behind it becomes 0. */
void sbx_msg_init(union sbx_msg *msg, enum sbx_msg_type type, uint64_t run);

/* Sends one message with `fd_count` fds (borrowed); never waits. Returns 0, -EAGAIN, -EPIPE when
 * the other side is gone, or another -errno. */
int sbx_msg_send(int socket_fd, const union sbx_msg *msg, const int *fds, size_t fd_count);

/*
 * Receives one message; never waits. Received fds are CLOEXEC and owned by the caller;
 * *ret_fd_count is 0 or SBX_RUN_FDS (only with RUN). Anything else, a
 * truncated message or truncated fds (MSG_CTRUNC) closes what came and is
 * -EPROTO. Returns 0, -EAGAIN, -EPIPE at the end of the connection.
 */
int sbx_msg_receive(int socket_fd, union sbx_msg *ret_msg, int ret_fds[SBX_RUN_FDS],
                    size_t *ret_fd_count, struct cr_err *err);

/* Names for logs and results, never NULL: "wall_time_ms", "network", "mount", … */
const char *sbx_limit_name(uint32_t limit);
const char *sbx_control_name(uint32_t control);
const char *sbx_stage_name(uint32_t stage);
const char *sbx_verdict_name(uint32_t verdict);
