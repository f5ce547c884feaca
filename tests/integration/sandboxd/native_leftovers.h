/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include <sys/types.h>

struct native_client;

/* What a sandboxd-native may leave behind on the host. */

/* In its mount namespace. */
int native_count_mounts(pid_t pid);

/* Our folders in all hierarchies: the backend's with the boxes in it. */
int native_count_groups(pid_t pid);

/* True when `count(pid)` comes down to `wanted` in time. */
bool native_settles(int (*count)(pid_t), pid_t pid, int wanted);

/* Asserts that in time no process of its boxes is left. */
void native_expect_no_processes(const struct native_client *client);
