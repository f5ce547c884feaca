/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/chat.h"

#include "clients/gemini-replay/wire.h"
#include "common/auto.h"
#include "common/buf.h"

#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

static const char *finish_name(const char *gemini)
{
    static const struct {
        const char *gemini;
        const char *openai;
    } names[] = {{"STOP", "stop"}, {"MAX_TOKENS", "length"}, {"SAFETY", "content_filter"}};

    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        if (strcmp(names[i].gemini, gemini) == 0)
            return names[i].openai;
    }
    return gemini;
}

static void add_call(cJSON *calls, const char *name, const char *arguments, size_t index)
{
    cJSON *call = cJSON_CreateObject();
    cJSON *function;
    char id[32];

    (void)snprintf(id, sizeof(id), "call_replay%.0zu", index);
    cJSON_AddNumberToObject(call, "index", (double)index);
    cJSON_AddStringToObject(call, "id", id);
    cJSON_AddStringToObject(call, "type", "function");
    function = cJSON_AddObjectToObject(call, "function");
    cJSON_AddStringToObject(function, "name", name);
    cJSON_AddStringToObject(function, "arguments", arguments);
    if (!cJSON_AddItemToArray(calls, call))
        cJSON_Delete(call);
}

static void add_calls(cJSON *delta, const struct replay_chat_chunk *chunk)
{
    cJSON *calls = cJSON_AddArrayToObject(delta, "tool_calls");

    add_call(calls, chunk->call_name, chunk->call_arguments, 0);
    for (size_t i = 0; i < chunk->more_call_count; i++)
        add_call(calls, chunk->call_name, chunk->more_calls[i], i + 1);
}

static void add_delta(cJSON *choice, const struct replay_chat_chunk *chunk)
{
    cJSON *delta = cJSON_AddObjectToObject(choice, chunk->is_whole ? "message" : "delta");
    CR_AUTO_FREE char *text = chunk->text ? strndup(chunk->text, chunk->size) : NULL;

    cJSON_AddStringToObject(delta, "role", "assistant");
    if (text)
        cJSON_AddStringToObject(delta, chunk->is_thought ? "reasoning_content" : "content", text);
    else if (chunk->call_name)
        add_calls(delta, chunk);
}

static void add_usage(cJSON *root, const struct replay_chat_chunk *chunk)
{
    cJSON *usage = cJSON_AddObjectToObject(root, "usage");
    double completion = (double)chunk->answer_tokens + chunk->thought_tokens;

    cJSON_AddNumberToObject(usage, "prompt_tokens", chunk->prompt_tokens);
    cJSON_AddNumberToObject(usage, "completion_tokens", completion);
    cJSON_AddNumberToObject(usage, "total_tokens", chunk->prompt_tokens + completion);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(usage, "completion_tokens_details"),
                            "reasoning_tokens", chunk->thought_tokens);
}

char *replay_chat_chunk_print(const struct replay_chat_chunk *chunk)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *choice = cJSON_CreateObject();
    char *json;

    cJSON_AddStringToObject(root, "id", chunk->id);
    cJSON_AddStringToObject(root, "object",
                            chunk->is_whole ? "chat.completion" : "chat.completion.chunk");
    cJSON_AddStringToObject(root, "model", REPLAY_MODEL_VERSION);
    cJSON_AddNumberToObject(choice, "index", 0);
    add_delta(choice, chunk);
    if (chunk->finish_reason)
        cJSON_AddStringToObject(choice, "finish_reason",
                                chunk->call_name ? "tool_calls"
                                                 : finish_name(chunk->finish_reason));
    else
        cJSON_AddNullToObject(choice, "finish_reason");
    if (!cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "choices"), choice))
        cJSON_Delete(choice);
    if (chunk->finish_reason)
        add_usage(root, chunk);
    json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return json;
}

char *replay_chat_error(const char *message, const char *type, const char *code)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(root, "error");
    char *json;

    cJSON_AddStringToObject(error, "message", message);
    cJSON_AddStringToObject(error, "type", type);
    if (code)
        cJSON_AddStringToObject(error, "code", code);
    else
        cJSON_AddNullToObject(error, "code");
    json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return json;
}

char *replay_chat_models(const char *const *models, size_t count)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *data;
    char *json;

    cJSON_AddStringToObject(root, "object", "list");
    data = cJSON_AddArrayToObject(root, "data");
    for (size_t i = 0; i < count; i++) {
        cJSON *entry = cJSON_CreateObject();

        cJSON_AddStringToObject(entry, "id", models[i]);
        cJSON_AddStringToObject(entry, "object", "model");
        cJSON_AddStringToObject(entry, "owned_by", "library");
        if (!cJSON_AddItemToArray(data, entry))
            cJSON_Delete(entry);
    }
    json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return json;
}

static int add_line(struct cr_buf *text, const char *line)
{
    int r = cr_buf_add_str(text, line);

    return r < 0 ? r : cr_buf_add_char(text, '\n');
}

/* A text, or a list of parts with texts. */
static int add_content(const cJSON *content, struct cr_buf *text)
{
    const cJSON *part;
    int r = 0;

    if (cJSON_IsString(content))
        return add_line(text, content->valuestring);
    cJSON_ArrayForEach(part, content)
    {
        const char *piece = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "text"));

        if (piece)
            r = add_line(text, piece);
        if (r < 0)
            return r;
    }
    return 0;
}

int replay_chat_text(const char *json, size_t size, struct cr_buf *text, bool *ret_stream)
{
    cJSON *root = cJSON_ParseWithLength(json, size);
    const cJSON *messages = cJSON_GetObjectItemCaseSensitive(root, "messages");
    const cJSON *message;
    int r = cJSON_IsArray(messages) && messages->child ? 0 : -EBADMSG;

    *ret_stream = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, "stream"));
    cJSON_ArrayForEach(message, messages)
    {
        if (r == 0)
            r = add_content(cJSON_GetObjectItemCaseSensitive(message, "content"), text);
    }
    cJSON_Delete(root);
    return r;
}
