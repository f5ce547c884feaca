/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/status.h"

#include "common/auto.h"
#include "common/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* By then a client has another connection, or this service is there again. */
#define DRAINING_RETRY_MS 1000

/* HTTP: google/rpc/code.proto names these numbers; 422 is what FastAPI answers to a bad field. */
static const struct {
    const char *name;
    int http;
} codes[] = {
    [RPC_OK] = {"OK", 200},
    [RPC_CANCELLED] = {"CANCELLED", 499},
    [RPC_UNKNOWN] = {"UNKNOWN", 500},
    [RPC_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", 422},
    [RPC_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", 504},
    [RPC_NOT_FOUND] = {"NOT_FOUND", 404},
    [RPC_ALREADY_EXISTS] = {"ALREADY_EXISTS", 409},
    [RPC_PERMISSION_DENIED] = {"PERMISSION_DENIED", 403},
    [RPC_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", 429},
    [RPC_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", 400},
    [RPC_ABORTED] = {"ABORTED", 409},
    [RPC_OUT_OF_RANGE] = {"OUT_OF_RANGE", 400},
    [RPC_UNIMPLEMENTED] = {"UNIMPLEMENTED", 501},
    [RPC_INTERNAL] = {"INTERNAL", 500},
    [RPC_UNAVAILABLE] = {"UNAVAILABLE", 503},
    [RPC_DATA_LOSS] = {"DATA_LOSS", 500},
    [RPC_UNAUTHENTICATED] = {"UNAUTHENTICATED", 401},
};

static bool is_known(enum rpc_code code)
{
    return (unsigned int)code < CR_ARRAY_SIZE(codes);
}

const char *rpc_code_name(enum rpc_code code)
{
    return codes[is_known(code) ? code : RPC_UNKNOWN].name;
}

int rpc_code_to_http(enum rpc_code code)
{
    return codes[is_known(code) ? code : RPC_UNKNOWN].http;
}

/* vsnprintf cuts anywhere; half a character would make the protobuf string unreadable. */
static void cut_at_character(char *text, size_t room, int wanted)
{
    if (wanted < 0)
        text[0] = '\0';
    else if ((size_t)wanted >= room)
        text[cr_utf8_complete_prefix(text, room - 1)] = '\0';
}

static void __attribute__((format(printf, 3, 0)))
format_text(char *text, size_t room, const char *format, va_list args)
{
    cut_at_character(text, room, vsnprintf(text, room, format, args));
}

static void __attribute__((format(printf, 3, 4)))
print_text(char *text, size_t room, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    format_text(text, room, format, args);
    va_end(args);
}

void rpc_status_set(struct rpc_status *status, enum rpc_code code, const char *format, ...)
{
    va_list args;

    status->code = code;
    status->violation_count = 0;
    status->violations_left_out = 0;
    status->retry_after_ms = 0;
    status->reason[0] = '\0';
    va_start(args, format);
    format_text(status->message, sizeof(status->message), format, args);
    va_end(args);
}

static void describe_violations(struct rpc_status *status)
{
    const struct rpc_violation *first = &status->violations[0];
    size_t more = status->violation_count + status->violations_left_out - 1;

    if (more == 0)
        print_text(status->message, sizeof(status->message), "%s: %s", first->field,
                   first->description);
    else
        print_text(status->message, sizeof(status->message), "%s: %s (and %zu more)", first->field,
                   first->description, more);
}

void rpc_status_set_draining(struct rpc_status *status)
{
    rpc_status_set(status, RPC_UNAVAILABLE,
                   "the server is shutting down; send the request to another one");
    print_text(status->reason, sizeof(status->reason), "%s", RPC_REASON_DRAINING);
    status->retry_after_ms = DRAINING_RETRY_MS;
}

void rpc_status_add_violation(struct rpc_status *status, const char *field, const char *format, ...)
{
    struct rpc_violation *violation;
    va_list args;

    if (status->code != RPC_INVALID_ARGUMENT)
        rpc_status_set(status, RPC_INVALID_ARGUMENT, "%s", "");
    if (status->violation_count < RPC_VIOLATIONS_MAX) {
        violation = &status->violations[status->violation_count++];
        print_text(violation->field, sizeof(violation->field), "%s", field);
        va_start(args, format);
        format_text(violation->description, sizeof(violation->description), format, args);
        va_end(args);
    } else {
        status->violations_left_out++;
    }
    describe_violations(status);
}
