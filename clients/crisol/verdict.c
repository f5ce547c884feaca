/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/verdict.h"

#include "clients/crisol/cli.h"

#include <signal.h>
#include <string.h>

#define CODE(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

static int code_of(const Crisol__Sandbox__V1__ExecuteResult *result)
{
    return result && result->verdict ? (int)result->verdict->code : CODE(UNSPECIFIED);
}

int cli_verdict_exit_code(const Crisol__Sandbox__V1__ExecuteResult *result)
{
    switch (code_of(result)) {
    case CODE(OK):
    case CODE(NONZERO_EXIT):
        return result->exit_code;
    case CODE(SIGNALED):
        return CLI_EXIT_SIGNAL + result->signal;
    case CODE(WALL_TIME_LIMIT):
    case CODE(CPU_TIME_LIMIT):
    case CODE(MEMORY_LIMIT):
    case CODE(PROCESS_LIMIT):
    case CODE(OUTPUT_LIMIT):
    case CODE(FILE_SIZE_LIMIT):
    case CODE(DISK_LIMIT):
    case CODE(SECURITY_VIOLATION):
        return CLI_EXIT_LIMIT;
    case CODE(EXEC_FAILED):
        return strstr(result->exec_error, "No such file") ? CLI_EXIT_NOT_FOUND : CLI_EXIT_NO_EXEC;
    case CODE(CANCELLED):
        return CLI_EXIT_SIGNAL + SIGINT;
    case CODE(COMPILE_ERROR):
    case CODE(COLLECT_FAILED):
        return CLI_EXIT_FAILED;
    default:
        return CLI_EXIT_SERVICE;
    }
}

bool cli_verdict_is_programs_own(const Crisol__Sandbox__V1__ExecuteResult *result)
{
    int code = code_of(result);

    return code == CODE(OK) || code == CODE(NONZERO_EXIT) || code == CODE(SIGNALED);
}

const char *cli_verdict_name(int code)
{
    static const char PREFIX[] = "VERDICT_CODE_";
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&crisol__sandbox__v1__verdict_code__descriptor, code);

    if (!value || strncmp(value->name, PREFIX, sizeof(PREFIX) - 1) != 0)
        return "UNKNOWN";
    return value->name + sizeof(PREFIX) - 1;
}
