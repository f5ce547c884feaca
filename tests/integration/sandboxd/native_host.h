/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

struct native_client;

/* What the host shows of a sandboxd-native and of its boxes. Everything asserts. */

/* The child of the backend with that name (comm), or 0. */
pid_t native_client_find_child(const struct native_client *client, const char *name);

/* Processes of the boxes, counted on the host by their user ids: those of programs, and with
 * sandbox-init, of which the pool has some that wait. */
int native_client_count_programs(const struct native_client *client);
int native_client_count_processes(const struct native_client *client);

/* Open file descriptors of a process once their number stays for a third of a second: what was used
 * up is replaced a moment after a result. */
int native_count_steady_fds(pid_t pid);

/* Entries of the folder `path` whose name begins with `prefix`; 0 when there is no such folder. */
int native_count_entries(const char *path, const char *prefix);
