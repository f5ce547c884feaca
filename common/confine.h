/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * Takes from a server what it never needs, so that one that has been taken
 * over can do little more than speak on the sockets it has: no execution of
 * programs, no namespaces, mounts, tracing, keys, modules, io_uring or signals
 * to others (seccomp), and only the files and TCP ports that a policy names
 * (Landlock, where the kernel has it). Shared by the front of sandboxd and the
 * orchestrator, each with a policy of its own.
 */

/* What may be done below a path. */
enum cr_confine_access {
    CR_CONFINE_READ,
    CR_CONFINE_WRITE, /* READ, and make, change and remove plain files */
    CR_CONFINE_SERVE, /* WRITE, and make sockets and folders */
};

struct cr_confine_path {
    const char *path; /* one that is not there, or may not be seen, is left out */
    enum cr_confine_access access;
};

/* Kinds of sockets that may be made, as bits. Those that are open stay usable, accept(2) works, and
 * so does socketpair(2). */
enum cr_confine_socket {
    CR_CONFINE_UNIX = 1,
    CR_CONFINE_INET = 2,  /* IPv4 and IPv6 */
    CR_CONFINE_ROUTE = 4, /* netlink(7) for addresses and routes, which getaddrinfo(3) reads */
};

struct cr_confine_policy {
    const struct cr_confine_path *paths;
    size_t path_count;
    uint32_t sockets;  /* CR_CONFINE_UNIX | … */
    bool may_connect;  /* else connect(2) is refused whatever the kernel has */
    bool may_bind_tcp; /* to any port */
    bool has_ports;    /* connections go to `ports` only; else to any port */
    const uint16_t *ports;
    size_t port_count;
};

/*
 * Applies the policy to the calling thread and all that it will start, for
 * good, together with no_new_privs. Call once, after privileges are dropped
 * and before any other thread is there.
 *
 * *ret_landlock_abi is the version of Landlock that was applied, 0 when this
 * kernel has none; the seccomp filter stands in either case. Version 4 and
 * later hold the ports, 6 and later signals and abstract sockets.
 * Returns 0 or -errno.
 */
int cr_confine(const struct cr_confine_policy *policy, int *ret_landlock_abi, struct cr_err *err);
