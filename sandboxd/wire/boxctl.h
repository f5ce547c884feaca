/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Between a backend and the sandbox-init of one box, over a SOCK_SEQPACKET
 * pair that only init holds (CLOEXEC, and init is not dumpable). The backend
 * believes nothing in here but the leader's wait status, and checks that
 * against its own counters.
 *
 * File descriptors of sandbox-init at exec:
 *   0 stdin, 1 stdout, 2 stderr of the program, 3 control socket,
 *   4 payload memfd, 5 seccomp program (memfd: array of struct sock_filter).
 */
#define SBX_INIT_FD_CONTROL 3
#define SBX_INIT_FD_PAYLOAD 4
#define SBX_INIT_FD_SECCOMP 5

/*
 * A box that is made ahead of its run: with this argument sandbox-init has
 * /dev/null at 0 to 2 and 4, says WAITING, and takes what belongs there from
 * LOAD. Then all goes on as without: READY, GO, EXITED; after LOAD_GO with
 * EXITED. Its resource limits at LOAD are those of the program.
 *
 * The spawner, which makes the boxes of a backend, executes sandbox-init once, and each box is a
 * fork of it. This argument, and none at all, begin where those forks begin: so the test of pid 1
 * (init_box.h) has a box of its own making, and one can be started by hand.
 */
#define SBX_INIT_WAIT_ARGUMENT "--wait"

/*
 * Of a box whose mode is SBX_BOX_CELLS (boxspawn.h), also made ahead, for a session: the program is
 * an interpreter that runs one cell after the other. Its standard input is a SOCK_SEQPACKET socket:
 * for each run, init sends a struct sbx_cell_word with the run's streams, and gets one back when
 * the cell has ended. Then everybody is stopped until the next LOAD. What comes over that socket is
 * the program's own claim, as an exit code is.
 *
 * SBX_BOX_FILES puts the files in place and ends: READY, GO, EXITED without a program.
 *
 * SBX_BOX_TERMINAL is as without an argument, and the program gets a terminal: 6 is its master, 7
 * its slave. Init passes bytes on between 0 and 1, which are pipes, and the master.
 */
#define SBX_INIT_FD_MASTER 6
#define SBX_INIT_FD_SLAVE 7

/* Names of the process: on the host, ps tells a box that waits from one that has a run. */
#define SBX_INIT_IDLE_NAME "sandbox-idle"
#define SBX_INIT_NAME "sandbox-init"

/*
 * Waiting, and the program exists already: a child with this pid, forked from
 * a template before init was executed. 6 is a SOCK_SEQPACKET pair between the
 * two: the program sends struct sbx_adopt_hello when it is ready, with the
 * listener of its filter where the kernel has one; init sends
 * struct sbx_adopt_go with the fds of LOAD; the program closes its end, or
 * sends a struct sbx_adopt_failure before that.
 */
#define SBX_INIT_ADOPT_ARGUMENT "--adopt"
#define SBX_INIT_FD_ADOPTED 6
#define SBX_INIT_ADOPTED_PID 3

enum sbx_init_event {
    SBX_INIT_READY = 1,   /* init ▶ backend: files are in place */
    SBX_INIT_GO = 2,      /* backend ▶ init: start the program */
    SBX_INIT_FAILED = 3,  /* init ▶ backend: stage, error */
    SBX_INIT_EXITED = 4,  /* init ▶ backend: status of the leader, then init exits */
    SBX_INIT_WAITING = 5, /* init ▶ backend: the box is made, waiting for LOAD */
    SBX_INIT_LOAD = 6,    /* backend ▶ init, with SBX_INIT_LOAD_FDS fds */
    /* init ▶ backend: the filter holds a process back that made a forbidden call; with `detail`. At
     * most once: what follows is the kill. */
    SBX_INIT_VIOLATION = 7,
    /* backend ▶ init: LOAD and GO in one, without a READY. No file is read-only, unless the program
     * exists already (ADOPT). In a container READY is told when the files are in place, and nobody
     * waits for an answer to it. */
    SBX_INIT_LOAD_GO = 12,
    SBX_INIT_SIGNAL = 13, /* backend ▶ init: the number in `detail`, for the running program */
    SBX_INIT_RESIZE = 14, /* backend ▶ init: columns and rows, the halves of `detail` */
    SBX_INIT_TAKEN = 15,  /* init ▶ relay: `detail` bytes of input left; see boxstream.h */
    /* The rest is for a container that is read from inside, see init/inside.h. */
    SBX_INIT_COUNTER = 8,    /* init ▶ backend: one of enum sbx_counter has a new value */
    SBX_INIT_KILL = 9,       /* backend ▶ init: end everything but yourself; `detail` as of END */
    SBX_INIT_EMPTY = 10,     /* init ▶ backend: it is ended, and all that it wrote was sent */
    SBX_INIT_COLLECTED = 11, /* init ▶ backend: so were its files; with `detail` */
};

/* The fds of LOAD, in this order: payload, stdin, stdout, stderr. */
#define SBX_INIT_LOAD_FDS 4

/* `detail` of VIOLATION is the number of the call, or one of these. */
#define SBX_CALL_OTHER_DOOR UINT32_C(0xffffffff) /* int 0x80 or x32: a number of another ABI */
#define SBX_CALL_UNKNOWN UINT32_C(0xfffffffe)    /* it was gone when it was asked about */
/* `detail` of COLLECTED: a file has exactly the size limit. */
#define SBX_INIT_SIZE_SEEN UINT32_C(1)
/* `detail` of EXITED: every forbidden call would have been told, so there was none. */
#define SBX_INIT_WATCHED UINT32_C(1)
/* Likewise: every socket would have been told, and there was none. So nothing can be left in the
 * network namespace. */
#define SBX_INIT_NO_SOCKET UINT32_C(2)

/* Likewise: the program has not ended; everybody is stopped, and init waits for LOAD. */
#define SBX_INIT_PARKED UINT32_C(4)

/* `detail` of READY in a container of a session: the interpreter has no state yet. */
#define SBX_INIT_NEW_STATE UINT32_C(1)

/*
 * How the filter allows the calls that make a socket: SECCOMP_RET_ALLOW, with
 * data that the kernel ignores and a watching sandbox-init knows them by.
 */
#define SBX_SECCOMP_SOCKET UINT32_C(0x7fff0001)

/* What COUNTER tells of the box: its control groups, then its three writable folders. */
enum sbx_counter {
    SBX_COUNTER_CPU_TOTAL_US,
    SBX_COUNTER_CPU_USER_US,
    SBX_COUNTER_CPU_SYSTEM_US,
    SBX_COUNTER_CPU_THROTTLED_US,
    SBX_COUNTER_MEMORY_PEAK_BYTES,
    SBX_COUNTER_OOM_KILLS,
    SBX_COUNTER_PROCESSES_PEAK,
    SBX_COUNTER_PROCESS_LIMIT_HITS,
    SBX_COUNTER_WORKSPACE_BYTES,
    SBX_COUNTER_WORKSPACE_INODES,
    SBX_COUNTER_WORKSPACE_STATE, /* SBX_WORKSPACE_… */
    SBX_COUNTER_COUNT,
};

#define SBX_WORKSPACE_FULL UINT32_C(1)
#define SBX_WORKSPACE_NO_INODES UINT32_C(2)

struct sbx_init_msg {
    uint32_t event;      /* enum sbx_init_event */
    uint32_t stage;      /* enum sbx_stage, with FAILED; enum sbx_counter, with COUNTER */
    int32_t error;       /* errno, with FAILED */
    int32_t wait_status; /* as from wait4(2), with EXITED */
    uint32_t leftovers;  /* processes that were still alive, with EXITED; low half of a COUNTER */
    uint32_t detail; /* with READY, VIOLATION, EXITED, KILL, COLLECTED, SIGNAL, RESIZE and TAKEN;
                        high half of a COUNTER; else 0 */
};

struct sbx_cell_word {
    uint32_t number; /* of the cell, counted from 1: what answers another one is not heard */
    int32_t code;    /* back: its exit code, 0 to 255 */
};

struct sbx_adopt_hello {
    uint32_t version; /* SBX_ADOPT_VERSION: both come from one build */
};

/* The resource limits of a box, which the program sets for itself when it has its fds. */
#define SBX_ADOPT_LIMITS 9

struct sbx_adopt_go {
    uint32_t version;

    struct {
        uint32_t resource; /* RLIMIT_… */
        uint32_t reserved;
        uint64_t soft;
        uint64_t hard;
    } limits[SBX_ADOPT_LIMITS];
};

#define SBX_ADOPT_VERSION UINT32_C(1)

struct sbx_adopt_failure {
    uint32_t stage; /* enum sbx_stage */
    int32_t error;  /* errno */
};
