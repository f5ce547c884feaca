/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/execution.h"
#include "sandboxd/front/policy.h"
#include "sandboxd/front/result.h"

#include <stdbool.h>

struct cr_err;
struct sbx_msg_hello;

/*
 * The compile stage of a call: a run before the program's, in a sandbox and
 * with limits of its own. What it prints is kept, what it leaves becomes files
 * of the program.
 */
struct sbx_compile {
    struct sbx_execution *execution;
    struct sbx_policy policy;
    bool is_kept; /* what it leaves becomes an artifact */
    bool is_over; /* its end was taken, and it did not fail: the program's turn */
    bool has_failed;
    bool is_truncated;
    struct cr_buf outputs[2];
    struct cr_buf chunk;
    /* Of the message. */
    Crisol__Sandbox__V1__CompileResult message;
    Crisol__Sandbox__V1__Limits limits;
    struct sbx_result result; /* of its own run */
    bool has_result;
    struct cr_buf output;
    struct cr_buf text;
    char artifact[SBX_DIGEST_SIZE]; /* "": none */
};

/*
 * Makes the stage of `execution`, whose request has one. Returns 0, or a
 * negative errno with nothing left.
 */
int sbx_compile_new(const Crisol__Sandbox__V1__ExecuteRequest *message,
                    const struct sbx_request *request, const struct sbx_execution *execution,
                    const struct sbx_waker *waker, const struct sbx_msg_hello *hello,
                    struct sbx_compile **ret_compile, struct cr_err *err);

/* NULL is allowed; always returns NULL. */
struct sbx_compile *sbx_compile_free(struct sbx_compile *compile);

/* Takes what it prints. Returns true at its end; -ENOMEM shows as a failure of the sandbox. */
bool sbx_compile_take(struct sbx_compile *compile);

/* True when it ended well and left all that it must. */
bool sbx_compile_is_good(const struct sbx_compile *compile);

/*
 * Says in the result of the call what became of the stage, behind its end. The
 * result is that of the program or, when the stage failed, of the stage.
 * Borrows the stage. Returns 0 or -ENOMEM.
 */
int sbx_compile_tell(struct sbx_compile *compile, struct sbx_result *result);
