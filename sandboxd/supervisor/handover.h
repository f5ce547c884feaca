/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/listen.h"
#include "sandboxd/supervisor/secrets.h"
#include "sandboxd/supervisor/spawn.h"

#include <stddef.h>

struct cr_err;
struct sbx_settings;

/*
 * What the children get from the supervisor, because they cannot open it
 * themselves or must not read it at different times: the sockets that are
 * listened on, certificates and tokens, the audit log, the runtime files. Opened
 * once; children that are started anew get the same. Embedded.
 */
struct sbx_handover {
    struct cr_listen listens[SBX_SPAWN_LISTEN_MAX]; /* --socket, --listen */
    size_t listen_count;
    struct cr_listen health;  /* its fd is -1: none */
    struct cr_listen metrics; /* its fd is -1: none */
    struct sbx_secrets secrets;
    int audit_fd;    /* -1: none */
    int runtimes_fd; /* a bundle of runtime files; -1: none */
};

#define SBX_HANDOVER_INIT                                                                          \
    {                                                                                              \
        .listens = {CR_LISTEN_INIT, CR_LISTEN_INIT}, .health = CR_LISTEN_INIT,                     \
        .metrics = CR_LISTEN_INIT, .secrets = SBX_SECRETS_INIT, .audit_fd = -1, .runtimes_fd = -1  \
    }

/* Each returns 0 or -errno; what was opened until then is done's to close. */
int sbx_handover_open_files(const struct sbx_settings *settings, struct sbx_handover *handover,
                            struct cr_err *err);
int sbx_handover_open_ports(const struct sbx_settings *settings, struct sbx_handover *handover,
                            struct cr_err *err);

/* What a front gets of it: borrowed. */
struct sbx_front_fds sbx_handover_front_fds(const struct sbx_handover *handover);

/* Closes all of it, and removes the sockets. Safe to repeat. */
void sbx_handover_done(struct sbx_handover *handover);
