/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sandboxd/front/request_fixture.h"

#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <string.h>

struct sbx_request_rules request_rules(void)
{
    return (struct sbx_request_rules){
        .maximum = sbx_maximum_limits,
        .runtimes = UINT32_MAX,
        .backend = CRISOL__SANDBOX__V1__BACKEND__BACKEND_NATIVE,
    };
}

execute_request request_python(char *code)
{
    execute_request message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;

    message.runtime = cr_unconst("python");
    message.code = code;
    return message;
}

int request_check(const execute_request *message, struct sbx_request *request,
                  struct rpc_status *status)
{
    struct sbx_request_rules all = request_rules();

    *status = (struct rpc_status)RPC_STATUS_INIT;
    return sbx_request_check(message, &all, request, status);
}

bool request_has_violation(const struct rpc_status *status, const char *field, const char *text)
{
    for (size_t i = 0; i < status->violation_count; i++) {
        if (strcmp(status->violations[i].field, field) == 0 &&
            strstr(status->violations[i].description, text))
            return true;
    }
    return false;
}

void request_refused(const execute_request *message, const char *field, const char *text)
{
    struct sbx_request request;
    struct rpc_status status;

    assert_int_equal(request_check(message, &request, &status), -EINVAL);
    assert_int_equal(status.code, RPC_INVALID_ARGUMENT);
    if (!request_has_violation(&status, field, text))
        fail_msg("no violation of '%s' with '%s'; message is '%s'", field, text, status.message);
}

void request_accepted(const execute_request *message)
{
    struct sbx_request request;
    struct rpc_status status;

    if (request_check(message, &request, &status) != 0)
        fail_msg("refused: %s", status.message);
}
