/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/status.h"

#include <stdatomic.h>
#include <stdbool.h>

struct sbx_execution;

/*
 * The audit log: one line for each run that ended or was refused. Who called,
 * which request, which program (its sha256, never itself), under which policy,
 * and its fate. Lines are written with one write(2), so any thread may.
 */
struct sbx_audit {
    int fd;                /* owned; -1: the lines go to the log */
    atomic_bool is_failed; /* the last line was lost; said once in the log */
};

#define SBX_AUDIT_INIT                                                                             \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* An execution that was submitted has ended; its own runs of sandboxd (caller "self") have no line.
 */
void sbx_audit_ended(struct sbx_audit *audit, const struct sbx_execution *execution);

/* A request that did not become an execution. `request_id` comes from outside: what is no request
 * id is left out. */
void sbx_audit_refused(struct sbx_audit *audit, const char *caller, const char *request_id,
                       enum rpc_code code, const char *reason);
