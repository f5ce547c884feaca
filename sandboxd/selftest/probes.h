/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Harmless attacks: each one would succeed, or fail in another way, if a
 * control were missing. Bad pointers and fds are used, so that a call that
 * reaches the kernel does no harm.
 */
struct probe {
    const char *id;       /* E01, L05, …: the catalogue of docs/threat-model.md */
    const char *name;     /* unique */
    uint32_t control;     /* enum sbx_control that stops it */
    const char *expected; /* "ok", errno(s) ("EPERM") or a signal ("SIGSYS"): probe_fits() */
    bool differs_outside; /* an unprivileged process outside of any box gets another answer */
    long (*run)(void);    /* as a system call: < 0 with errno, else success */
};

/* True when the right answer ends the whole run, so that the attempt needs one of its own. */
bool probe_is_deadly(const struct probe *probe);

/* True when `seen` is one of the answers of `expected`, which has "|" between them. */
bool probe_fits(const char *expected, const char *seen);

/* System calls. */
const struct probe *probes_calls(size_t *ret_count);

/* Files, devices, the network and other things that should not be there. */
const struct probe *probes_places(size_t *ret_count);

/* Programs that misbehave as a whole: "fork-bomb", … Returns their exit code; -1: unknown name. */
int probe_behave(const char *name, const char *argument);
