/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/wire.h"

#include "clients/gemini-replay/chat.h"
#include "clients/gemini-replay/script.h"
#include "common/auto.h"
#include "common/buf.h"
#include "common/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include <sys/random.h>

static const size_t CHUNK_BYTES = 48;
static const size_t MAX_BODY = 64U << 20;
static const char *const MODELS[] = {"gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.5-flash-lite"};

/* What the chunks of one answer share. */
struct render {
    const struct replay_answer *answer;
    enum replay_framing framing;
    char response_id[17];
    uint32_t prompt_tokens;
    uint32_t thought_tokens; /* cumulative, as Gemini counts */
    uint32_t answer_tokens;
    struct cr_buf bytes;
    struct replay_body body;
};

uint32_t replay_count_tokens(const char *text)
{
    return (uint32_t)((strlen(text) + 3) / 4);
}

static void add_modality(cJSON *usage, uint32_t tokens)
{
    cJSON *entry = cJSON_CreateObject();

    cJSON_AddStringToObject(entry, "modality", "TEXT");
    cJSON_AddNumberToObject(entry, "tokenCount", tokens);
    if (!cJSON_AddItemToArray(cJSON_AddArrayToObject(usage, "promptTokensDetails"), entry))
        cJSON_Delete(entry);
}

/* Zero counts are left out, as in every proto3 JSON. */
static void add_usage(cJSON *response, const struct render *render)
{
    cJSON *usage = cJSON_AddObjectToObject(response, "usageMetadata");

    cJSON_AddNumberToObject(usage, "promptTokenCount", render->prompt_tokens);
    if (render->answer_tokens > 0)
        cJSON_AddNumberToObject(usage, "candidatesTokenCount", render->answer_tokens);
    cJSON_AddNumberToObject(usage, "totalTokenCount",
                            (double)render->prompt_tokens + render->answer_tokens +
                                render->thought_tokens);
    add_modality(usage, render->prompt_tokens);
    if (render->thought_tokens > 0)
        cJSON_AddNumberToObject(usage, "thoughtsTokenCount", render->thought_tokens);
}

static void add_call_part(cJSON *parts, const char *name, const char *arguments_json, bool is_first)
{
    cJSON *part = cJSON_CreateObject();
    cJSON *call = cJSON_AddObjectToObject(part, "functionCall");
    cJSON *arguments = cJSON_Parse(arguments_json);

    cJSON_AddStringToObject(call, "name", name);
    if (!cJSON_AddItemToObject(call, "args", arguments))
        cJSON_Delete(arguments);
    if (is_first) /* of several, the first one carries it */
        cJSON_AddStringToObject(part, "thoughtSignature", "cmVwbGF5");
    if (!cJSON_AddItemToArray(parts, part))
        cJSON_Delete(part);
}

static void add_call(cJSON *content, const struct replay_answer *answer)
{
    cJSON *parts = cJSON_AddArrayToObject(content, "parts");

    add_call_part(parts, answer->call_name, answer->call_arguments, true);
    for (size_t i = 0; i < answer->more_call_count; i++)
        add_call_part(parts, answer->call_name, answer->more_calls[i], false);
}

static void add_part(cJSON *content, const char *text, size_t size, bool is_thought)
{
    char *copy = strndup(text, size);
    cJSON *part = cJSON_CreateObject();

    if (copy)
        cJSON_AddStringToObject(part, "text", copy);
    free(copy);
    if (is_thought)
        cJSON_AddTrueToObject(part, "thought");
    if (!cJSON_AddItemToArray(cJSON_AddArrayToObject(content, "parts"), part))
        cJSON_Delete(part);
}

static bool is_chat(enum replay_framing framing)
{
    return framing == REPLAY_CHAT || framing == REPLAY_CHAT_STREAM;
}

static bool is_unary(enum replay_framing framing)
{
    return framing == REPLAY_CHAT || framing == REPLAY_UNARY;
}

static char *print_chat(const struct render *render, const char *text, size_t size, bool is_thought,
                        bool is_last)
{
    const struct replay_answer *answer = render->answer;
    const struct replay_chat_chunk chunk = {
        .id = render->response_id,
        .text = text,
        .size = size,
        .is_thought = is_thought,
        .call_name = text ? NULL : answer->call_name,
        .call_arguments = answer->call_arguments,
        .more_calls = answer->more_calls,
        .more_call_count = answer->more_call_count,
        .finish_reason = is_last ? answer->finish_reason : NULL,
        .prompt_tokens = render->prompt_tokens,
        .answer_tokens = render->answer_tokens,
        .thought_tokens = render->thought_tokens,
        .is_whole = render->framing == REPLAY_CHAT,
    };

    return replay_chat_chunk_print(&chunk);
}

/* `text` NULL: the call of the answer. */
static char *print_chunk(const struct render *render, const char *text, size_t size,
                         bool is_thought, bool is_last)
{
    cJSON *response = cJSON_CreateObject();
    cJSON *candidates = cJSON_AddArrayToObject(response, "candidates");
    cJSON *candidate = cJSON_CreateObject();
    cJSON *content = cJSON_AddObjectToObject(candidate, "content");
    char *json;

    if (text)
        add_part(content, text, size, is_thought);
    else
        add_call(content, render->answer);
    cJSON_AddStringToObject(content, "role", "model");
    if (is_last)
        cJSON_AddStringToObject(candidate, "finishReason", render->answer->finish_reason);
    cJSON_AddNumberToObject(candidate, "index", 0);
    if (!cJSON_AddItemToArray(candidates, candidate))
        cJSON_Delete(candidate);
    add_usage(response, render);
    cJSON_AddStringToObject(response, "modelVersion", REPLAY_MODEL_VERSION);
    cJSON_AddStringToObject(response, "responseId", render->response_id);
    json = cJSON_PrintUnformatted(response);
    cJSON_Delete(response);
    return json;
}

static int end_chunk(struct render *render)
{
    size_t *ends =
        reallocarray(render->body.ends, render->body.chunks + 1, sizeof(*render->body.ends));

    if (!ends)
        return -ENOMEM;
    render->body.ends = ends;
    ends[render->body.chunks++] = render->bytes.size;
    return 0;
}

static int add_framed(struct render *render, const char *json, bool is_last)
{
    bool is_first = render->body.chunks == 0;
    int r;

    switch (render->framing) {
    case REPLAY_SSE:
    case REPLAY_CHAT_STREAM:
        r = cr_buf_add_str(&render->bytes, "data: ");
        break;
    case REPLAY_ARRAY:
        r = cr_buf_add_str(&render->bytes, is_first ? "[" : ",\r\n");
        break;
    default:
        r = 0;
        break;
    }
    if (r == 0)
        r = cr_buf_add_str(&render->bytes, json);
    if (r == 0 && render->framing == REPLAY_SSE)
        r = cr_buf_add_str(&render->bytes, "\r\n\r\n");
    if (r == 0 && render->framing == REPLAY_CHAT_STREAM)
        r = cr_buf_add_str(&render->bytes, is_last ? "\n\ndata: [DONE]\n\n" : "\n\n");
    if (r == 0 && render->framing == REPLAY_ARRAY)
        r = cr_buf_add_str(&render->bytes, is_last ? "]\n" : "\n");
    return r < 0 ? r : end_chunk(render);
}

static int add_chunk(struct render *render, const char *text, size_t size, bool is_thought,
                     bool is_last)
{
    CR_AUTO_FREE char *json = is_chat(render->framing)
                                  ? print_chat(render, text, size, is_thought, is_last)
                                  : print_chunk(render, text, size, is_thought, is_last);

    return json ? add_framed(render, json, is_last) : -ENOMEM;
}

/* One text in pieces; the last of an answer carries the finish reason. */
static int add_text(struct render *render, const char *text, bool is_thought)
{
    size_t size = strlen(text);
    uint32_t *tokens = is_thought ? &render->thought_tokens : &render->answer_tokens;
    size_t at = 0;

    do {
        size_t take = size - at < CHUNK_BYTES ? size - at : CHUNK_BYTES;
        int r;

        if (is_unary(render->framing))
            take = size;
        take = at + take == size ? take : cr_utf8_complete_prefix(text + at, take);
        *tokens = (uint32_t)((at + take + 3) / 4);
        r = add_chunk(render, text + at, take, is_thought, !is_thought && at + take == size);
        if (r < 0)
            return r;
        at += take;
    } while (at < size);
    return 0;
}

static void make_id(char id[17])
{
    uint64_t bits = 0;

    (void)!getrandom(&bits, sizeof(bits), 0);
    (void)snprintf(id, 17, "%016llx", (unsigned long long)bits);
}

int replay_body_render(const struct replay_answer *answer, enum replay_framing framing,
                       uint32_t prompt_tokens, struct replay_body *ret_body)
{
    struct render render = {.answer = answer, .framing = framing, .prompt_tokens = prompt_tokens};
    int r = 0;

    make_id(render.response_id);
    cr_buf_init(&render.bytes, MAX_BODY);
    /* Unary answers here are whole answers without thoughts, as by default at Gemini's. */
    if (answer->thoughts && !is_unary(framing))
        r = add_text(&render, answer->thoughts, true);
    if (r == 0)
        r = answer->text ? add_text(&render, answer->text, false)
                         : add_chunk(&render, NULL, 0, false, true);
    if (r < 0) {
        cr_buf_done(&render.bytes);
        free(render.body.ends);
        return r;
    }
    render.body.size = render.bytes.size;
    render.body.bytes = cr_buf_take_str(&render.bytes);
    *ret_body = render.body;
    return 0;
}

void replay_body_done(struct replay_body *body)
{
    free(body->bytes);
    free(body->ends);
    *body = (struct replay_body){0};
}

static void add_detail(cJSON *details, const char *type, const char *name, const char *value,
                       const char *domain)
{
    cJSON *detail = cJSON_CreateObject();

    cJSON_AddStringToObject(detail, "@type", type);
    cJSON_AddStringToObject(detail, name, value);
    if (domain)
        cJSON_AddStringToObject(detail, "domain", domain);
    if (!cJSON_AddItemToArray(details, detail))
        cJSON_Delete(detail);
}

char *replay_error(int code, const char *status, const char *message, const char *reason,
                   const char *retry_delay)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(root, "error");
    cJSON *details;
    char *json;

    cJSON_AddNumberToObject(error, "code", code);
    cJSON_AddStringToObject(error, "message", message);
    cJSON_AddStringToObject(error, "status", status);
    if (reason || retry_delay) {
        details = cJSON_AddArrayToObject(error, "details");
        if (reason)
            add_detail(details, "type.googleapis.com/google.rpc.ErrorInfo", "reason", reason,
                       "googleapis.com");
        if (retry_delay)
            add_detail(details, "type.googleapis.com/google.rpc.RetryInfo", "retryDelay",
                       retry_delay, NULL);
    }
    json = cJSON_Print(root); /* Gemini's errors are pretty-printed */
    cJSON_Delete(root);
    return json;
}

static cJSON *new_model(const char *model)
{
    static const char *const methods[] = {"generateContent", "countTokens"};
    CR_AUTO_FREE char *name = NULL;
    cJSON *entry = cJSON_CreateObject();

    if (asprintf(&name, "models/%s", model) < 0)
        name = NULL;
    cJSON_AddStringToObject(entry, "name", name ? name : "");
    cJSON_AddStringToObject(entry, "version", "replay");
    cJSON_AddStringToObject(entry, "displayName", REPLAY_MODEL_VERSION);
    cJSON_AddStringToObject(entry, "description", "Scripted answers; no model behind them.");
    cJSON_AddNumberToObject(entry, "inputTokenLimit", 1048576);
    cJSON_AddNumberToObject(entry, "outputTokenLimit", 65536);
    cJSON_AddItemToObject(entry, "supportedGenerationMethods",
                          cJSON_CreateStringArray(methods, (int)CR_ARRAY_SIZE(methods)));
    return entry;
}

char *replay_model(const char *model)
{
    cJSON *entry = new_model(model);
    char *json = cJSON_Print(entry);

    cJSON_Delete(entry);
    return json;
}

char *replay_model_list(void)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *models = cJSON_AddArrayToObject(root, "models");
    char *json;

    for (size_t i = 0; i < CR_ARRAY_SIZE(MODELS); i++) {
        cJSON *entry = new_model(MODELS[i]);

        if (!cJSON_AddItemToArray(models, entry))
            cJSON_Delete(entry);
    }
    json = cJSON_Print(root);
    cJSON_Delete(root);
    return json;
}

char *replay_token_count(uint32_t tokens)
{
    cJSON *root = cJSON_CreateObject();
    char *json;

    cJSON_AddNumberToObject(root, "totalTokens", tokens);
    add_modality(root, tokens);
    json = cJSON_Print(root);
    cJSON_Delete(root);
    return json;
}

char *replay_chat_model_list(void)
{
    return replay_chat_models(MODELS, CR_ARRAY_SIZE(MODELS));
}

bool replay_model_exists(const char *model)
{
    return strncmp(model, "gemini-", 7) == 0;
}

static int add_parts(const cJSON *content, struct cr_buf *text)
{
    const cJSON *part;

    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(content, "parts"))
    {
        const cJSON *response = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(part, "functionResponse"), "response");
        const char *piece =
            cJSON_GetStringValue(response ? cJSON_GetObjectItemCaseSensitive(response, "output")
                                          : cJSON_GetObjectItemCaseSensitive(part, "text"));
        int r = cr_buf_add_str(text, piece ? piece : "");

        if (r == 0)
            r = cr_buf_add_char(text, '\n');
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_request(const cJSON *request, struct cr_buf *text)
{
    const cJSON *contents = cJSON_GetObjectItemCaseSensitive(request, "contents");
    const cJSON *content;
    int r;

    if (!cJSON_IsArray(contents) || cJSON_GetArraySize(contents) == 0)
        return -EBADMSG;
    r = add_parts(cJSON_GetObjectItemCaseSensitive(request, "systemInstruction"), text);
    cJSON_ArrayForEach(content, contents)
    {
        if (r == 0)
            r = add_parts(content, text);
    }
    return r;
}

int replay_request_text(const char *json, size_t size, struct cr_buf *text)
{
    cJSON *root = cJSON_ParseWithLength(json, size);
    const cJSON *inner = cJSON_GetObjectItemCaseSensitive(root, "generateContentRequest");
    int r = root ? add_request(inner ? inner : root, text) : -EBADMSG;

    cJSON_Delete(root);
    return r;
}
