/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/shape.h"

#include "common/buf.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/sse.h"

#include <errno.h>
#include <string.h>

/* "SUCCESS" for RUN_STATUS_SUCCESS; NULL for the unspecified value. */
static const char *enum_name(const ProtobufCEnumDescriptor *descriptor, int value,
                             const char *prefix)
{
    const ProtobufCEnumValue *row = protobuf_c_enum_descriptor_get_value(descriptor, value);

    if (value == 0)
        return NULL;
    if (!row)
        return "UNKNOWN";
    return strncmp(row->name, prefix, strlen(prefix)) == 0 ? row->name + strlen(prefix) : row->name;
}

static void write_name(struct agt_json *json, const char *key, const char *name)
{
    if (name)
        agt_json_str(json, key, name);
    else
        agt_json_null(json, key);
}

static void write_strings(struct agt_json *json, const char *key, char *const *texts, size_t count)
{
    agt_json_open(json, key, '[');
    for (size_t i = 0; i < count; i++)
        agt_json_str(json, NULL, texts[i]);
    agt_json_close(json, ']');
}

static void write_files(struct agt_json *json, Crisol__Agent__V1__File *const *files, size_t count)
{
    agt_json_open(json, "files", '{');
    for (size_t i = 0; i < count; i++)
        agt_json_str(json, files[i]->path, files[i]->text);
    agt_json_close(json, '}');
}

/* null when no attempt reached the sandbox. */
static void write_execution(struct agt_json *json,
                            const Crisol__Agent__V1__ExecutionResult *execution)
{
    if (!execution) {
        agt_json_null(json, "execution_result");
        return;
    }
    agt_json_open(json, "execution_result", '{');
    agt_json_int(json, "exit_code", execution->exit_code);
    agt_json_str(json, "stdout", execution->stdout_text);
    agt_json_str(json, "stderr", execution->stderr_text);
    agt_json_seconds(json, "duration_seconds", execution->duration_seconds);
    agt_json_bool(json, "timed_out", execution->timed_out);
    agt_json_bool(json, "success", execution->success);
    agt_json_message(json, "detail", execution->detail ? &execution->detail->base : NULL, false);
    agt_json_close(json, '}');
}

static void write_attempts(struct agt_json *json, const Crisol__Agent__V1__RunResult *result)
{
    agt_json_open(json, "attempts", '[');
    for (size_t i = 0; i < result->n_attempts; i++)
        agt_json_message(json, NULL, &result->attempts[i]->base, true);
    agt_json_close(json, ']');
}

static void write_seed_members(struct agt_json *json, const Crisol__Agent__V1__RunResult *result)
{
    agt_json_str(json, "task", result->task);
    write_name(
        json, "status",
        enum_name(&crisol__agent__v1__run_status__descriptor, (int)result->status, "RUN_STATUS_"));
    agt_json_int(json, "iterations", result->iterations);
    agt_json_str(json, "plan", result->plan);
    write_files(json, result->files, result->n_files);
    write_execution(json, result->execution_result);
    write_strings(json, "error_history", result->error_history, result->n_error_history);
    agt_json_str(json, "final_response", result->final_response);
}

static void write_added_members(struct agt_json *json, const Crisol__Agent__V1__RunResult *result)
{
    agt_json_str(json, "run_id", result->run_id);
    write_name(json, "cause",
               enum_name(&crisol__agent__v1__failure_cause__descriptor, (int)result->cause,
                         "FAILURE_CAUSE_"));
    agt_json_message(json, "verification",
                     result->verification ? &result->verification->base : NULL, true);
    write_attempts(json, result);
    agt_json_str(json, "model_requested", result->model_requested);
    write_strings(json, "models_served", result->models_served, result->n_models_served);
    write_strings(json, "warnings", result->warnings, result->n_warnings);
    agt_json_message(json, "usage", result->usage ? &result->usage->base : NULL, true);
    agt_json_int(json, "elapsed_ms", result->elapsed_ms);
    agt_json_message(json, "receipt", result->receipt ? &result->receipt->base : NULL, true);
}

int agt_shape_write_result(const Crisol__Agent__V1__RunResult *result, struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    write_seed_members(&json, result);
    write_added_members(&json, result);
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}

int agt_shape_add_event(const Crisol__Agent__V1__RunEvent *event, bool is_state,
                        struct cr_buf *scratch, struct cr_buf *out)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &crisol__agent__v1__run_event__descriptor, (unsigned)event->event_case);
    int r;

    if (!field)
        return -EINVAL;
    cr_buf_clear(scratch);
    if (event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT)
        r = agt_shape_write_result(event->result, scratch);
    else
        r = agt_json_add_message(scratch, &event->base, true);
    if (r < 0)
        return r;
    return agt_sse_add_event(out, is_state ? event->seq : 0, field->name, cr_buf_str(scratch));
}
