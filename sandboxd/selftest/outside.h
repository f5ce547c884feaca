/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
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

/* True when `token` is the last argument of the process. */
bool sbx_view_has_token(pid_t pid, const char *token);

/* The program that was told to behave like that, with that last argument. 0 or -ENOENT. */
int sbx_view_find(const char *behaviour, const char *token, struct sbx_view *ret_view);

/* The value behind "key:" in /proc/PID/status; "none" when it is empty. */
void sbx_view_status(const struct sbx_view *view, const char *key, char *ret_seen, size_t size);

/* "own", or "the host's": the namespace `kind` of /proc/PID/ns. */
void sbx_view_namespace(const struct sbx_view *view, const char *kind, char *ret_seen, size_t size);

/* The hard limit `name` of /proc/PID/limits. */
void sbx_view_rlimit(const struct sbx_view *view, const char *name, char *ret_seen, size_t size);

/*
 * What the control group says: "memory", "swap" (with memory), "cpu" or
 * "pids"; in bytes, as "QUOTA PERIOD" in microseconds, and as a number.
 */
void sbx_view_cgroup(const struct sbx_view *view, const char *what, char *ret_seen, size_t size);

/* Those of the comma-separated `options` that the mount which holds `point` has. */
void sbx_view_mount(const struct sbx_view *view, const char *point, const char *options,
                    char *ret_seen, size_t size);

/* "N bytes, N inodes" of the file system at `point`; "many" when nobody has set a limit. */
void sbx_view_space(const struct sbx_view *view, const char *point, char *ret_seen, size_t size);

/* How many descriptors it has. */
void sbx_view_descriptors(const struct sbx_view *view, char *ret_seen, size_t size);

/* "there", or "out of reach" when it does not exist or something is mounted over it. */
void sbx_view_reach(const struct sbx_view *view, const char *path, char *ret_seen, size_t size);

/* "another user" when sandbox-init has another user id than the program. */
void sbx_view_init_user(const struct sbx_view *view, char *ret_seen, size_t size);
