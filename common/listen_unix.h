/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

struct cr_err;
struct cr_listen;

/* What listen.c and listen_unix.c share. Only these two include it. */

#define CR_LISTEN_BACKLOG 1024

/* cr_listen_check() and cr_listen_open() of an address "unix:PATH". */
int cr_listen_unix_check(const char *path, struct cr_err *err);
int cr_listen_unix_open(const char *path, uid_t owner, struct cr_listen *ret_listen,
                        struct cr_err *err);

/* Removes the socket file and its lock file, while the lock is held. */
void cr_listen_unix_remove(const struct cr_listen *listen);
