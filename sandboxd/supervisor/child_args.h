/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sbx_settings;

#define SBX_CHILD_ARGS_MAX 64U

/*
 * What the processes of the service are started with, made from its settings.
 * An argv for a child, NULL-terminated; the strings are owned by it. A setting
 * that is 0 or empty is left out where the child has the same default.
 */
struct sbx_child_args {
    char *list[SBX_CHILD_ARGS_MAX + 1];
    size_t count;
};

/* These return 0 or -ENOMEM. sbx_child_args_done() is right after both. */
int sbx_native_args_make(const struct sbx_settings *settings, struct sbx_child_args *args);
/* `is_restart`: wait for an engine that does not answer, where the first start gives up. */
int sbx_docker_args_make(const struct sbx_settings *settings, bool is_restart,
                         struct sbx_child_args *args);
/* For a look at the engine: does it answer? */
int sbx_docker_ping_args_make(const struct sbx_settings *settings, struct sbx_child_args *args);
/* For `sandboxd gc`. */
int sbx_docker_gc_args_make(const struct sbx_settings *settings, struct sbx_child_args *args);
int sbx_front_args_make(const struct sbx_settings *settings, size_t listen_count, bool has_metrics,
                        struct sbx_child_args *args);
int sbx_child_args_add(struct sbx_child_args *args, const char *text);
void sbx_child_args_done(struct sbx_child_args *args);
