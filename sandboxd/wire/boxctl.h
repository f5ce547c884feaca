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

enum sbx_init_event {
    SBX_INIT_READY = 1,  /* init ▶ backend: files are in place */
    SBX_INIT_GO = 2,     /* backend ▶ init: start the program */
    SBX_INIT_FAILED = 3, /* init ▶ backend: stage, error */
    SBX_INIT_EXITED = 4, /* init ▶ backend: status of the leader, then init exits */
};

struct sbx_init_msg {
    uint32_t event;      /* enum sbx_init_event */
    uint32_t stage;      /* enum sbx_stage, with FAILED */
    int32_t error;       /* errno, with FAILED */
    int32_t wait_status; /* as from wait4(2), with EXITED */
    uint32_t leftovers;  /* processes that were still alive, with EXITED */
    uint32_t reserved;
};
