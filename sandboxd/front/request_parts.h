/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/request.h"

/* What the checks of a request share. Borrowed, all of it. */
struct sbx_checker {
    const Crisol__Sandbox__V1__ExecuteRequest *message;
    const struct sbx_request_rules *rules;
    const struct sbx_runtime *runtime; /* found, and with its limits in `request` */
    struct sbx_request *request;
    struct rpc_status *status;
};

/*
 * Checks what a program is given and what is taken from it: argv, environment,
 * files, standard input, output and the files to collect. Adds a violation for
 * each fault; writes how output is handled into the request.
 */
void sbx_request_check_parts(struct sbx_checker *check);
