/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/problem.h"

#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/json_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void agt_problem_set(struct agt_problem *problem, int http_status, enum rpc_code code,
                     const char *format, ...)
{
    va_list args;

    *problem = (struct agt_problem){.http_status = http_status, .status.code = code};
    va_start(args, format);
    (void)vsnprintf(problem->status.message, sizeof(problem->status.message), format, args);
    va_end(args);
}

void agt_problem_from_status(struct agt_problem *problem, const struct rpc_status *status)
{
    int http_status = rpc_code_to_http(status->code);

    if (status->code == RPC_INVALID_ARGUMENT)
        http_status = 422;
    else if (status->code == RPC_FAILED_PRECONDITION || status->code == RPC_CANCELLED)
        http_status = 503;
    *problem = (struct agt_problem){.http_status = http_status, .status = *status};
}

int agt_problem_retry_after_s(const struct agt_problem *problem)
{
    int retry_after_ms = problem->status.retry_after_ms;

    if (problem->http_status != 429 && problem->http_status != 503)
        return 0;
    if (problem->status.code == RPC_FAILED_PRECONDITION)
        return 0; /* A missing key does not come by waiting. */
    if (retry_after_ms <= 0)
        return problem->http_status == 429 ? 1 : 5;
    return retry_after_ms / 1000 + (retry_after_ms % 1000 != 0);
}

static bool all_digits(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return size > 0 && size < 10;
}

static void write_index(struct agt_json *json, const char *text, size_t size)
{
    int64_t number = 0;

    for (size_t i = 0; i < size; i++)
        number = number * 10 + (text[i] - '0');
    agt_json_int(json, NULL, number);
}

/* What is not in the body, and what it is called there. */
static const struct {
    const char *field;
    const char *part;
    const char *name;
} outside[] = {
    {"run_id", "path", "run_id"},
    {"page_size", "query", "page_size"},
    {"page_token", "query", "page_token"},
    {"Last-Event-ID", "header", "Last-Event-ID"},
    {"idempotency_key", "header", "Idempotency-Key"},
};

/* "files[2].path" -> "body","files",2,"path"; "env["A.B"]" -> "body","env","A.B" */
static void write_location(struct agt_json *json, const char *place, const char *field)
{
    for (size_t i = 0; !place && i < CR_ARRAY_SIZE(outside); i++) {
        if (strcmp(field, outside[i].field) == 0) {
            place = outside[i].part;
            field = outside[i].name;
        }
    }
    place = place ? place : "body";
    agt_json_open(json, "loc", '[');
    agt_json_str(json, NULL, place);
    while (*field) {
        const char *key_end = *field == '"' ? strstr(field + 1, "\"]") : NULL;
        size_t size = key_end ? (size_t)(key_end - field) + 1 : strcspn(field, ".[]");

        if (key_end)
            agt_json_text(json, NULL, field + 1, size - 2);
        else if (size > 0 && field[size] == ']' && all_digits(field, size))
            write_index(json, field, size);
        else if (size > 0)
            agt_json_text(json, NULL, field, size);
        field += size;
        field += *field ? 1 : 0;
    }
    agt_json_close(json, ']');
}

static void write_violation(struct agt_json *json, const char *place, const char *field,
                            const char *description, const char *type)
{
    agt_json_open(json, NULL, '{');
    write_location(json, place, field);
    agt_json_str(json, "msg", description);
    agt_json_str(json, "type", type);
    agt_json_close(json, '}');
}

/* rpc/json names the field that it was reading when the text itself could not be read. */
static bool is_syntax(const struct rpc_violation *violation)
{
    static const char sentence[] = "not valid JSON";

    return !violation->field[0] ||
           strncmp(violation->description, sentence, sizeof(sentence) - 1) == 0;
}

static void write_violations(struct agt_json *json, const struct agt_problem *problem)
{
    const struct rpc_status *status = &problem->status;
    const char *type = problem->type ? problem->type : "value_error";

    agt_json_open(json, "detail", '[');
    for (size_t i = 0; i < status->violation_count; i++) {
        const struct rpc_violation *violation = &status->violations[i];

        write_violation(json, problem->place, violation->field, violation->description,
                        is_syntax(violation) ? "json_invalid" : type);
    }
    if (status->violation_count == 0)
        write_violation(json, problem->place, "", status->message, "json_invalid");
    agt_json_close(json, ']');
}

int agt_problem_write(const struct agt_problem *problem, struct cr_buf *buf)
{
    const struct rpc_status *status = &problem->status;
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    if (problem->http_status == 422) {
        write_violations(&json, problem);
    } else {
        agt_json_str(&json, "detail", status->message);
        agt_json_str(&json, "code", rpc_code_name(status->code));
        if (status->reason[0])
            agt_json_str(&json, "reason", status->reason);
        if (status->retry_after_ms > 0)
            agt_json_int(&json, "retry_after_ms", status->retry_after_ms);
    }
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}

int agt_problem_write_message(const struct agt_problem *problem, struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    agt_json_str(&json, "message", problem->status.message);
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}
