/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/edge.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;
struct cr_setting;

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
    bool is_rootless;
    char *accept_gaps;
    char *pool;
    char *audit_log;
    uint64_t slow_host;
    char *log_level;
    char *log_format;
    bool must_check_config;            /* print the settings and end */
    struct cr_edge_settings edge;      /* what callers may do */
    uint64_t maximum[SBX_LIMIT_COUNT]; /* 0: the built-in one */
};

/*
 * As cr_config_load(), checks what one row cannot (TCP needs a token), and sets
 * up the log and the patience of this process as the settings say. 1 also with
 * must_check_config, for sbx_check_config() to go on with (check.h).
 */
int sbx_settings_load(int argc, char **argv, struct sbx_settings *settings, struct cr_err *err);
void sbx_settings_log(const struct sbx_settings *settings);
/* All of them, and that they are well formed, to standard output. */
void sbx_settings_print(const struct sbx_settings *settings);
void sbx_settings_done(struct sbx_settings *settings);

/* Runtimes beyond those that are built in may be there: the children get a bundle. */
bool sbx_settings_has_runtimes(const struct sbx_settings *settings);

/* The rows, in the order of --help. */
const struct cr_setting *sbx_settings_table(size_t *ret_count);
