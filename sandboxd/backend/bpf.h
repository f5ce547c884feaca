/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

/* Pieces of the system call filters that are written down as they are. */

#if defined(__x86_64__)
#define SBX_BPF_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SBX_BPF_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "no system call policy for this architecture"
#endif

/* How each begins: another architecture ends the process, then the number is at hand. */
#define SBX_BPF_HEAD                                                                               \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),                       \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SBX_BPF_ARCHITECTURE, 1, 0),                           \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),                                       \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

#define SBX_BPF_ALLOW(name)                                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1),                                        \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
