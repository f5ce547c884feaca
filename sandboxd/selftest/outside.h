/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/*
 * Looks at a process of a box from the host: nothing that is read here was
 * written by the program. Every function writes what it sees as text, "?"
 * where it can see nothing.
 */
struct sbx_view {
    pid_t pid;  /* of the program, as the host numbers it */
    pid_t init; /* its sandbox-init */
};

/* The program with the name `comm` whose sandbox-init is a child of `native`. 0 or -ENOENT. */
int sbx_view_find(pid_t native, const char *comm, struct sbx_view *ret_view);

/* The value behind "key:" in /proc/PID/status; "none" when it is empty. */
void sbx_view_status(const struct sbx_view *view, const char *key, char *ret_seen, size_t size);

/* "own", or "the host's": the namespace `kind` of /proc/PID/ns. */
void sbx_view_namespace(const struct sbx_view *view, const char *kind, char *ret_seen, size_t size);

/* The hard limit, as a number. */
void sbx_view_rlimit(const struct sbx_view *view, int resource, char *ret_seen, size_t size);

/*
 * What the control group says: "memory", "swap" (with memory), "cpu" or
 * "pids"; in bytes, as "QUOTA PERIOD" in microseconds, and as a number.
 */
void sbx_view_cgroup(const struct sbx_view *view, const char *what, char *ret_seen, size_t size);

/* Those of the comma-separated `options` that the mount at `point` has. */
void sbx_view_mount(const struct sbx_view *view, const char *point, const char *options,
                    char *ret_seen, size_t size);

/* "BYTES, INODES" of the file system at `point`. */
void sbx_view_space(const struct sbx_view *view, const char *point, char *ret_seen, size_t size);

/* How many descriptors it has. */
void sbx_view_descriptors(const struct sbx_view *view, char *ret_seen, size_t size);

/* "another user" when sandbox-init has another user id than the program. */
void sbx_view_init_user(const struct sbx_view *view, char *ret_seen, size_t size);
