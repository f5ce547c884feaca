/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/edge.h"

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* Descriptors that the supervisor hands over. */
#define SBX_FRONT_FD_WIRE 3
#define SBX_FRONT_FD_CONTROL 4
#define SBX_FRONT_FD_TOKEN 5    /* only with --with-token */
#define SBX_FRONT_FD_AUDIT 6    /* only with --with-audit */
#define SBX_FRONT_FD_RUNTIMES 7 /* only with --with-runtimes */
#define SBX_FRONT_FD_TLS 8      /* only with --with-tls */
#define SBX_FRONT_FD_HEALTH 9   /* only with --with-health */
#define SBX_FRONT_FD_LISTEN 10  /* --listen-count of them, then that of --with-metrics */

struct sbx_front_settings {
    uint64_t user;
    uint64_t listen_count;
    char *allow_uids;
    _Bool with_token;
    _Bool with_audit;
    _Bool with_runtimes;
    _Bool with_tls;
    _Bool with_health;
    char *tls_clients; /* names of certificates, with commas; NULL: any of the authority */
    _Bool with_metrics;
    uint64_t queue;
    uint64_t caller_runs; /* at one time; 0: no limit */
    uint64_t caller_rate; /* begun in a minute; 0: no limit */
    uint64_t sandboxes_per_caller;
    uint64_t drain_delay_ms;
    uint64_t grace_ms;
    struct cr_edge_settings edge; /* what callers may do, as written … */
    struct cr_edge limits;        /* … and as numbers */
    uint64_t slow_host;           /* see common/patience.h */
    char *log_level;
    char *log_format;
};

/* The argument of --user alone: it is needed before anything else may run. Returns 0 or -EINVAL. */
int sbx_front_settings_user(int argc, char *const *argv, uint32_t *ret_uid);

/* As cr_config_load(). */
int sbx_front_settings_load(int argc, char **argv, struct sbx_front_settings *settings,
                            struct cr_err *err);
void sbx_front_settings_done(struct sbx_front_settings *settings);
