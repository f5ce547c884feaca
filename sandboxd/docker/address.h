/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <sys/socket.h>

struct cr_err;

#define SBX_ENGINE_NAME_MAX 128

/*
 * Where an engine listens: a unix socket, or a port of the loopback. Whoever
 * reaches the engine is root on its host, and nothing of its TCP is encrypted:
 * so no other address is taken, and an engine of another host is reached
 * through a tunnel, whose end is on this host.
 */
struct sbx_engine_address {
    struct sockaddr_storage address;
    socklen_t size;
    bool is_tcp;
    char name[SBX_ENGINE_NAME_MAX]; /* for texts: the path, or "tcp://127.0.0.1:2375" */
};

/*
 * Pure: "PATH", "unix://PATH" or "tcp://ADDRESS:PORT". Returns 0 or -EINVAL
 * with a text that repeats nothing of what may hold credentials.
 */
int sbx_engine_address_parse(const char *text, struct sbx_engine_address *ret_address,
                             struct cr_err *err);

/* What stands behind "http://" in a URL of that engine. Borrowed from the address. */
const char *sbx_engine_address_host(const struct sbx_engine_address *address);
