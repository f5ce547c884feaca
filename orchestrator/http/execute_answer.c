/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/execute_answer.h"

#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/sse.h"

#include <errno.h>
#include <string.h>

/* Waiting for a slot and building the sandbox, on top of the program's own time. */
#define QUEUE_ALLOWANCE_MS 120000
#define DEFAULT_WALL_TIME_MS 60000

static void write_stream(struct agt_json *json, const char *key, const char *base64_key,
                         const struct cr_buf *data)
{
    const uint8_t *bytes = data->data ? data->data : (const uint8_t *)"";

    agt_json_text(json, key, bytes, data->size);
    if (!cr_utf8_is_valid(bytes, data->size))
        agt_json_base64(json, base64_key, bytes, data->size);
}

int agt_execute_answer_write(const struct agt_execute_answer *answer, struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    /* Output first, where a person who reads the one line looks. */
    write_stream(&json, "stdout", "stdout_base64", answer->stdout_data);
    write_stream(&json, "stderr", "stderr_base64", answer->stderr_data);
    if (answer->is_cut)
        agt_json_bool(&json, "is_cut", true);
    agt_json_message(&json, "result", &answer->result->base, true);
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}

static const char *stream_name(Crisol__Sandbox__V1__OutputStream stream)
{
    switch (stream) {
    case CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT:
        return "STDOUT";
    case CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR:
        return "STDERR";
    case CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_TERMINAL:
        return "TERMINAL";
    default:
        return "UNSPECIFIED";
    }
}

/* sandboxd fills in the text when asked; a character is then never split over two chunks. */
static void write_chunk(struct agt_json *json, const Crisol__Sandbox__V1__Output *output)
{
    const uint8_t *data = output->data.data ? output->data.data : (const uint8_t *)"";
    size_t size = output->data.len;
    size_t text_size = strlen(output->text);

    if (text_size > 0)
        agt_json_text(json, "text", output->text, text_size);
    else
        agt_json_text(json, "text", data, size);
    if (text_size > 0 ? text_size != size || memcmp(output->text, data, size) != 0
                      : !cr_utf8_is_valid(data, size))
        agt_json_base64(json, "data", data, size);
}

static int write_output(const Crisol__Sandbox__V1__ExecuteResponse *event, struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    agt_json_str(&json, "execution_id", event->execution_id);
    agt_json_int(&json, "seq", event->seq);
    agt_json_open(&json, "output", '{');
    agt_json_str(&json, "stream", stream_name(event->output->stream));
    agt_json_int(&json, "offset", (int64_t)event->output->offset);
    write_chunk(&json, event->output);
    agt_json_close(&json, '}');
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}

int agt_execute_add_event(const Crisol__Sandbox__V1__ExecuteResponse *event, struct cr_buf *scratch,
                          struct cr_buf *out)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &crisol__sandbox__v1__execute_response__descriptor, (unsigned)event->event_case);
    int r;

    if (!field)
        return -EINVAL;
    cr_buf_clear(scratch);
    if (event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT)
        r = write_output(event, scratch);
    else
        r = agt_json_add_message(scratch, &event->base, true);
    if (r < 0)
        return r;
    return agt_sse_add_event(out, 0, field->name, cr_buf_str(scratch));
}

int agt_execute_deadline_ms(uint32_t wall_time_ms)
{
    if (wall_time_ms == 0)
        wall_time_ms = DEFAULT_WALL_TIME_MS;
    return wall_time_ms < INT32_MAX - QUEUE_ALLOWANCE_MS ? (int)wall_time_ms + QUEUE_ALLOWANCE_MS
                                                         : INT32_MAX;
}
