/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/template.h"

struct sbx_template_host;

/* The template's ends of its pipes and its control socket. */
struct sbx_template_fds {
    int stdio[3];
    int control;
};

/*
 * In a fresh child of the backend: leaves every privilege of the host behind
 * and becomes the interpreter of `kind`. What fails is said on the control
 * socket, and the child ends.
 */
_Noreturn void sbx_template_enter(const struct sbx_template_host *host, enum sbx_template_kind kind,
                                  const struct sbx_template_fds *fds);
