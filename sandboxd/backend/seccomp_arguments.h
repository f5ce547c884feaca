/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct sock_filter;

/*
 * Code that looks at the arguments of one system call. It starts with
 * nothing loaded, and every path of it ends in a RET.
 */
struct sbx_seccomp_filter {
    const struct sock_filter *code;
    size_t size; /* in instructions */
};

extern const struct sbx_seccomp_filter
    sbx_clone_filter; /* fork and threads; EPERM with a flag for a new namespace */
extern const struct sbx_seccomp_filter
    sbx_ioctl_filter; /* all but the few that act on a terminal behind its back */
extern const struct sbx_seccomp_filter sbx_prctl_filter;       /* an allow list */
extern const struct sbx_seccomp_filter sbx_personality_filter; /* Linux as it is */
extern const struct sbx_seccomp_filter sbx_fcntl_filter;       /* all but F_NOTIFY */
extern const struct sbx_seccomp_filter sbx_mmap_filter;        /* all but MAP_HUGETLB */
extern const struct sbx_seccomp_filter sbx_memfd_filter;       /* all but MFD_HUGETLB */
extern const struct sbx_seccomp_filter sbx_socket_filter;      /* unix, TCP and UDP */
extern const struct sbx_seccomp_filter sbx_socketpair_filter;  /* unix */
