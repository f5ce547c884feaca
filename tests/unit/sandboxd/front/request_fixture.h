/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/unconst.h"
#include "rpc/status.h"
#include "sandboxd/front/request.h"
#include "tests/harness/test.h"

#include <stdbool.h>

/* Requests, and what becomes of them where everything is offered. Failures end the test. */

typedef Crisol__Sandbox__V1__ExecuteRequest execute_request;

struct sbx_request_rules request_rules(void);

/* The smallest request that runs this; the code is borrowed. */
execute_request request_python(char *code);

int request_check(const execute_request *message, struct sbx_request *request,
                  struct rpc_status *status);

/* One of this field, with this text in it. */
bool request_has_violation(const struct rpc_status *status, const char *field, const char *text);

/* Refused with INVALID_ARGUMENT for this field, with this text; and not refused. */
void request_refused(const execute_request *message, const char *field, const char *text);
void request_accepted(const execute_request *message);
