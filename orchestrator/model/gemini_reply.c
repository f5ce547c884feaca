/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/gemini_reply.h"

#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/gemini_json.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const size_t MAX_TEXT = 4U << 20;
static const size_t MAX_EVENT = 8U << 20;

/*
 * An answer whose last 4 KiB are one short piece over and over has run away (seen as digits or
 * blanks up to the token limit). Looked at once per KiB.
 */
#define REPEAT_WINDOW 4096U
#define REPEAT_PERIOD_MAX 200U
#define REPEAT_STEP 1024U

void agt_gemini_reply_init(struct agt_gemini_reply *reply,
                           void (*on_delta)(void *user, uint32_t offset, const char *text,
                                            size_t size, bool is_thought),
                           void *user)
{
    *reply = (struct agt_gemini_reply){
        .on_delta = on_delta, .user = user, .error = AGT_GEMINI_ERROR_INIT};
    cr_buf_init(&reply->text, MAX_TEXT);
}

void agt_gemini_reply_done(struct agt_gemini_reply *reply)
{
    cr_buf_done(&reply->text);
}

static bool is_repeating(const struct cr_buf *text)
{
    const uint8_t *tail;

    if (text->size < REPEAT_WINDOW)
        return false;
    tail = text->data + text->size - REPEAT_WINDOW;
    for (size_t period = 1; period <= REPEAT_PERIOD_MAX; period++) {
        if (memcmp(tail, tail + period, REPEAT_WINDOW - period) == 0)
            return true;
    }
    return false;
}

static void tell(const struct agt_gemini_reply *reply, size_t offset, const char *text, size_t size,
                 bool is_thought)
{
    if (reply->on_delta && size > 0)
        reply->on_delta(reply->user, (uint32_t)offset, text, size, is_thought);
}

static int add_text(struct agt_gemini_reply *reply, const char *text, size_t size)
{
    size_t before = reply->text.size;
    int r = agt_json_join_add(&reply->text_join, &reply->text, text, size);

    if (r < 0)
        return r;
    tell(reply, before, cr_buf_str(&reply->text) + before, reply->text.size - before, false);
    if (reply->text.size - reply->checked_size < REPEAT_STEP)
        return 0;
    reply->checked_size = reply->text.size;
    reply->is_repeating = is_repeating(&reply->text);
    return reply->is_repeating ? -ELOOP : 0;
}

static int add_thought(struct agt_gemini_reply *reply, const char *text, size_t size)
{
    CR_AUTO_BUF struct cr_buf clean;
    int r;

    cr_buf_init(&clean, MAX_TEXT);
    r = agt_json_join_add(&reply->thought_join, &clean, text, size);
    if (r < 0)
        return r;
    if (clean.size > MAX_TEXT - reply->thoughts_size)
        return -ENOSPC;
    tell(reply, reply->thoughts_size, cr_buf_str(&clean), clean.size, true);
    reply->thoughts_size += (uint32_t)clean.size;
    return 0;
}

static int read_parts(struct agt_gemini_reply *reply, const cJSON *content)
{
    const cJSON *part;

    cJSON_ArrayForEach(part, agt_gemini_array(content, "parts"))
    {
        const char *text = agt_gemini_text(part, "text");
        int r;

        /* Parts of other kinds (calls, signatures alone) were not asked for and say nothing. */
        if (!text || !*text)
            continue;
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(part, "thought")))
            r = add_thought(reply, text, strlen(text));
        else
            r = add_text(reply, text, strlen(text));
        if (r < 0)
            return r;
    }
    return 0;
}

static const cJSON *first_candidate(const cJSON *response)
{
    const cJSON *candidate;

    /* index 0 is left out on the wire, as every zero is in proto3 JSON. */
    cJSON_ArrayForEach(candidate, agt_gemini_array(response, "candidates"))
    {
        if (agt_gemini_u32(candidate, "index", 0) == 0)
            return candidate;
    }
    return NULL;
}

static int read_candidate(struct agt_gemini_reply *reply, const cJSON *response)
{
    const cJSON *candidate = first_candidate(response);

    if (!cJSON_IsObject(candidate))
        return 0;
    reply->has_candidate = true;
    agt_gemini_copy(candidate, "finishReason", reply->finish_reason, sizeof(reply->finish_reason));
    agt_gemini_copy(candidate, "finishMessage", reply->finish_message,
                    sizeof(reply->finish_message));
    return read_parts(reply, cJSON_GetObjectItemCaseSensitive(candidate, "content"));
}

/* Counts are cumulative and left out when zero, so a later object replaces an earlier one. */
static void read_usage(struct agt_gemini_reply *reply, const cJSON *response)
{
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(response, "usageMetadata");
    uint64_t sum;

    if (!cJSON_IsObject(usage))
        return;
    reply->usage.prompt_tokens =
        agt_gemini_u32(usage, "promptTokenCount", reply->usage.prompt_tokens);
    reply->usage.answer_tokens =
        agt_gemini_u32(usage, "candidatesTokenCount", reply->usage.answer_tokens);
    reply->usage.thought_tokens =
        agt_gemini_u32(usage, "thoughtsTokenCount", reply->usage.thought_tokens);
    sum = (uint64_t)reply->usage.prompt_tokens + reply->usage.answer_tokens +
          reply->usage.thought_tokens;
    reply->usage.total_tokens =
        agt_gemini_u32(usage, "totalTokenCount", sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum);
}

static int read_response(struct agt_gemini_reply *reply, const cJSON *response)
{
    if (!cJSON_IsObject(response))
        return -EBADMSG;
    if (agt_gemini_error_read(response, &reply->error))
        return -EREMOTEIO;
    reply->chunks++;
    agt_gemini_copy(cJSON_GetObjectItemCaseSensitive(response, "promptFeedback"), "blockReason",
                    reply->block_reason, sizeof(reply->block_reason));
    agt_gemini_copy(response, "modelVersion", reply->model_served, sizeof(reply->model_served));
    read_usage(reply, response);
    return read_candidate(reply, response);
}

static int read_document(struct agt_gemini_reply *reply, const cJSON *root)
{
    const cJSON *response;
    int r = 0;

    if (!cJSON_IsArray(root))
        return read_response(reply, root);
    cJSON_ArrayForEach(response, root)
    {
        if (r == 0)
            r = read_response(reply, response);
    }
    return r;
}

/* Not sent by Gemini itself; some gateways end a stream with it. */
static bool is_nothing(const char *data, size_t size)
{
    return size == 0 || (size == 6 && memcmp(data, "[DONE]", 6) == 0);
}

int agt_gemini_reply_add(struct agt_gemini_reply *reply, const char *data, size_t size, bool is_cut)
{
    const struct agt_json_options options = {
        .max_size = MAX_EVENT, .allow_trailing = true, .keep_surrogates = true};
    cJSON *root = NULL;
    uint32_t flags = 0;
    int r;

    if (is_nothing(data, size))
        return 0;
    r = agt_json_parse(data, size, &options, &root, &flags, NULL);
    if (r == -ENODATA)
        return is_cut ? 0 : -EBADMSG;
    if (r < 0)
        return r;
    reply->json_flags |= flags;
    r = read_document(reply, root);
    cJSON_Delete(root);
    return r;
}

int agt_gemini_reply_end(struct agt_gemini_reply *reply)
{
    size_t before = reply->text.size;
    int r = agt_json_join_end(&reply->text_join, &reply->text);

    tell(reply, before, cr_buf_str(&reply->text) + before, reply->text.size - before, false);
    return r;
}
