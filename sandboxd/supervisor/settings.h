/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/edge.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

#define SBX_METRICS_STANDARD "127.0.0.1:9102"

/* The settings of the service; see the table in settings.c for what each means. */
struct sbx_settings {
    char *socket;
    uint64_t socket_owner;
    char *allow_uids;
    char *listen;
    char *health_listen;
    char *token_file;
    char *tls_certificate;
    char *tls_key;
    char *tls_client_authority;
    char *tls_clients;
    char *metrics; /* "host:port"; "" or NULL: none */
    uint64_t front_user;
    uint64_t slots;
    uint64_t uid_base;
    uint64_t sandboxes;
    uint64_t sandboxes_per_caller;
    uint64_t sandbox_life_ms;
    uint64_t queue;
    uint64_t caller_runs;
    uint64_t caller_rate;
    uint64_t drain_delay_ms;
    uint64_t grace_ms;
    char *backend; /* "native", "docker" or "auto" */
    char *docker_socket;
    char *docker_image;
    char *docker_base;
    char *docker_pull;
    char *docker_runtime;
    char *docker_evidence;
    char *preload; /* "on" or "off" */
    char *rootfs;
    char *runtimes_dir;
    char *state_dir;
    char *accept_gaps;
    char *pool;
    char *audit_log;
    char *log_level;
    char *log_format;
    bool must_check_config;            /* print the settings and end */
    struct cr_edge_settings edge;      /* what callers may do */
    uint64_t maximum[SBX_LIMIT_COUNT]; /* 0: the built-in one */
};

/*
 * As cr_config_load(), checks what one row cannot (TCP needs a token), and sets
 * up the log as the settings say.
 */
int sbx_settings_load(int argc, char **argv, struct sbx_settings *settings, struct cr_err *err);
void sbx_settings_log(const struct sbx_settings *settings);
void sbx_settings_done(struct sbx_settings *settings);

/* Runtimes beyond those that are built in may be there: the children get a bundle. */
bool sbx_settings_has_runtimes(const struct sbx_settings *settings);

#define SBX_CHILD_ARGS_MAX 64U

/* An argv for a child, NULL-terminated; the strings are owned by it. */
struct sbx_child_args {
    char *list[SBX_CHILD_ARGS_MAX + 1];
    size_t count;
};

/* Returns 0 or -ENOMEM. sbx_child_args_done() is right after both. */
int sbx_settings_native_args(const struct sbx_settings *settings, struct sbx_child_args *args);
/* `is_restart`: wait for an engine that does not answer, where the first start gives up. */
int sbx_settings_docker_args(const struct sbx_settings *settings, bool is_restart,
                             struct sbx_child_args *args);
/* For a look at the engine: does it answer? */
int sbx_settings_docker_ping_args(const struct sbx_settings *settings, struct sbx_child_args *args);
/* For `sandboxd gc`. */
int sbx_settings_docker_gc_args(const struct sbx_settings *settings, struct sbx_child_args *args);
int sbx_settings_front_args(const struct sbx_settings *settings, size_t listen_count,
                            bool has_metrics, struct sbx_child_args *args);
int sbx_child_args_add(struct sbx_child_args *args, const char *text);
void sbx_child_args_done(struct sbx_child_args *args);
