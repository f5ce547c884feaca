/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/seccomp_arguments.h"

#include "common/auto.h"
#include "sandboxd/wire/boxctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

/*
 * Arguments are 64 bits wide and looked at by their low halves, because the
 * kernel itself takes these ones as int: a compare of all 64 bits would let
 * TIOCSTI + 2^32 pass (CVE-2019-10063).
 */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the offsets of the low halves are those of little endian"
#endif
#define LOAD_ARGUMENT(index)                                                                       \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[index]))
#define IF_RETURN(value, result)                                                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, 1), BPF_STMT(BPF_RET | BPF_K, result)
#define RETURN(result) BPF_STMT(BPF_RET | BPF_K, result)
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))

#define NAMESPACE_FLAGS                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

static const struct sock_filter clone_code[] = {
    LOAD_ARGUMENT(0),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1),
    RETURN(FAIL(EPERM)),
    RETURN(SECCOMP_RET_ALLOW),
};

/* Terminals are never given to a box; these would reach a terminal that leaked into one. */
static const struct sock_filter ioctl_code[] = {
    LOAD_ARGUMENT(1),
    IF_RETURN(TIOCSTI, FAIL(EPERM)),   /* types into the terminal (CVE-2017-5226) */
    IF_RETURN(TIOCLINUX, FAIL(EPERM)), /* pastes into the console (CVE-2023-28100) */
    IF_RETURN(TIOCSETD, FAIL(EPERM)),  /* line disciplines: old drivers, many bugs */
    IF_RETURN(TIOCCONS, FAIL(EPERM)),  /* takes the console's output */
    RETURN(SECCOMP_RET_ALLOW),
};

/* Everything else is EINVAL: what a kernel says that does not know the option. */
static const struct sock_filter prctl_code[] = {
    LOAD_ARGUMENT(0),
    IF_RETURN(PR_SET_NAME, SECCOMP_RET_ALLOW), /* thread names */
    IF_RETURN(PR_GET_NAME, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_VMA, SECCOMP_RET_ALLOW),       /* names of mappings: allocators, JVM */
    IF_RETURN(PR_SET_PDEATHSIG, SECCOMP_RET_ALLOW), /* helpers that end with their parent */
    IF_RETURN(PR_GET_PDEATHSIG, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_CHILD_SUBREAPER, SECCOMP_RET_ALLOW), /* supervisors in tests */
    IF_RETURN(PR_GET_CHILD_SUBREAPER, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_NO_NEW_PRIVS, SECCOMP_RET_ALLOW), /* on already */
    IF_RETURN(PR_GET_NO_NEW_PRIVS, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_DUMPABLE, SECCOMP_RET_ALLOW), /* hides the program from its siblings only */
    IF_RETURN(PR_GET_DUMPABLE, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_TIMERSLACK, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_GET_TIMERSLACK, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_THP_DISABLE, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_GET_THP_DISABLE, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_GET_SECCOMP, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_GET_KEEPCAPS, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_GET_SECUREBITS, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_CAPBSET_READ, SECCOMP_RET_ALLOW), /* libcap finds the last capability with it */
    IF_RETURN(PR_GET_SPECULATION_CTRL, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_GET_TID_ADDRESS, SECCOMP_RET_ALLOW),
    IF_RETURN(PR_SET_SECCOMP, FAIL(EPERM)),          /* as seccomp(2) */
    IF_RETURN(PR_SET_MM, FAIL(EPERM)),               /* forges /proc/self/exe and cmdline */
    IF_RETURN(PR_SET_PTRACER, FAIL(EPERM)),          /* opens the process to tracers */
    IF_RETURN(PR_CAP_AMBIENT, FAIL(EPERM)),          /* there are no capabilities */
    IF_RETURN(PR_CAPBSET_DROP, FAIL(EPERM)),         /* the same */
    IF_RETURN(PR_SET_KEEPCAPS, FAIL(EPERM)),         /* the same */
    IF_RETURN(PR_SET_SECUREBITS, FAIL(EPERM)),       /* the same */
    IF_RETURN(PR_SET_SPECULATION_CTRL, FAIL(EPERM)), /* turns mitigations off */
    RETURN(FAIL(EINVAL)),
};

/* Signals for what anybody does in a folder, those included that all boxes share. EINVAL, as of a
 * kernel without CONFIG_DNOTIFY. */
static const struct sock_filter fcntl_code[] = {
    LOAD_ARGUMENT(1),
    IF_RETURN(F_NOTIFY, FAIL(EINVAL)),
    RETURN(SECCOMP_RET_ALLOW),
};

/*
 * Huge pages that the host has set aside are counted by no memory group (but for one option of
 * Linux 6.7), need no privilege, and are missed by those whom they are for. ENOMEM, as where none
 * is free; as of a kernel without them for a file of such pages.
 */
static const struct sock_filter mmap_code[] = {
    LOAD_ARGUMENT(3),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_HUGETLB, 0, 1),
    RETURN(FAIL(ENOMEM)),
    RETURN(SECCOMP_RET_ALLOW),
};

static const struct sock_filter memfd_code[] = {
    LOAD_ARGUMENT(1),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MFD_HUGETLB, 0, 1),
    RETURN(FAIL(ENOSYS)),
    RETURN(SECCOMP_RET_ALLOW),
};

static const struct sock_filter personality_code[] = {
    LOAD_ARGUMENT(0),
    IF_RETURN(0, SECCOMP_RET_ALLOW),          /* PER_LINUX */
    IF_RETURN(UINT32_MAX, SECCOMP_RET_ALLOW), /* query */
    RETURN(FAIL(EPERM)),
};

/*
 * Families first, then types without their flag bits, then protocols: what is
 * not in the list would load a kernel module (SCTP, DCCP, MPTCP) or needs a
 * capability anyway (raw).
 */
static const struct sock_filter socket_code[] = {
    LOAD_ARGUMENT(0),
    IF_RETURN(AF_UNIX, SBX_SECCOMP_SOCKET),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0),
    RETURN(FAIL(EAFNOSUPPORT)),
    LOAD_ARGUMENT(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 7, 0),
    RETURN(FAIL(ESOCKTNOSUPPORT)),
    LOAD_ARGUMENT(2), /* SOCK_STREAM */
    IF_RETURN(0, SBX_SECCOMP_SOCKET),
    IF_RETURN(IPPROTO_TCP, SBX_SECCOMP_SOCKET),
    RETURN(FAIL(EPROTONOSUPPORT)),
    LOAD_ARGUMENT(2), /* SOCK_DGRAM */
    IF_RETURN(0, SBX_SECCOMP_SOCKET),
    IF_RETURN(IPPROTO_UDP, SBX_SECCOMP_SOCKET),
    RETURN(FAIL(EPROTONOSUPPORT)),
};

static const struct sock_filter socketpair_code[] = {
    LOAD_ARGUMENT(0),
    IF_RETURN(AF_UNIX, SBX_SECCOMP_SOCKET),
    RETURN(FAIL(EAFNOSUPPORT)),
};

#define FILTER(code)                                                                               \
    {                                                                                              \
        (code), CR_ARRAY_SIZE(code)                                                                \
    }

const struct sbx_seccomp_filter sbx_clone_filter = FILTER(clone_code);
const struct sbx_seccomp_filter sbx_ioctl_filter = FILTER(ioctl_code);
const struct sbx_seccomp_filter sbx_prctl_filter = FILTER(prctl_code);
const struct sbx_seccomp_filter sbx_personality_filter = FILTER(personality_code);
const struct sbx_seccomp_filter sbx_fcntl_filter = FILTER(fcntl_code);
const struct sbx_seccomp_filter sbx_mmap_filter = FILTER(mmap_code);
const struct sbx_seccomp_filter sbx_memfd_filter = FILTER(memfd_code);
const struct sbx_seccomp_filter sbx_socket_filter = FILTER(socket_code);
const struct sbx_seccomp_filter sbx_socketpair_filter = FILTER(socketpair_code);
