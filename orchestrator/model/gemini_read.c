/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/members.h"
#include "orchestrator/model/reply.h"

#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

/* Reads GenerateContentResponse objects. */

static int copy_signature(const struct agt_reply_slot *slot, const cJSON *part)
{
    const char *signature = agt_member_text(part, "thoughtSignature");

    return signature ? cr_buf_add_str(slot->signature, signature) : 0;
}

static int read_arguments(const struct agt_reply_slot *slot, const cJSON *arguments)
{
    char *text;
    int r;

    if (!cJSON_IsObject(arguments)) /* left out when there are none */
        return agt_reply_add_arguments(slot, "{}");
    text = cJSON_PrintUnformatted(arguments);
    r = text ? agt_reply_add_arguments(slot, text) : -ENOMEM;
    cJSON_free(text);
    return r;
}

/* Calls beyond those that are kept are neither answered nor sent back. */
static int read_call(struct agt_reply *reply, const cJSON *part)
{
    const cJSON *call = cJSON_GetObjectItemCaseSensitive(part, "functionCall");
    struct agt_reply_slot slot;
    int r;

    if (!cJSON_IsObject(call))
        return 0;
    r = agt_reply_call(reply, agt_reply_call_count(reply), &slot);
    if (r < 0)
        return r == -ENOSPC ? 0 : r;
    agt_member_copy(call, "name", slot.name, AGT_REPLY_NAME_SIZE);
    agt_member_copy(call, "id", slot.id, AGT_REPLY_ID_SIZE);
    r = read_arguments(&slot, cJSON_GetObjectItemCaseSensitive(call, "args"));
    return r < 0 ? r : copy_signature(&slot, part);
}

static int read_text(struct agt_reply *reply, const cJSON *part, const char *text)
{
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(part, "thought")))
        return agt_reply_add_thought(reply, text, strlen(text));
    return agt_reply_add_text(reply, text, strlen(text));
}

static int read_parts(struct agt_reply *reply, const cJSON *content)
{
    const cJSON *part;

    cJSON_ArrayForEach(part, agt_member_array(content, "parts"))
    {
        const char *text = agt_member_text(part, "text");
        int r;

        /* Parts of other kinds (signatures alone) say nothing. */
        r = text && *text ? read_text(reply, part, text) : read_call(reply, part);
        if (r < 0)
            return r;
    }
    return 0;
}

static const cJSON *first_candidate(const cJSON *response)
{
    const cJSON *candidate;

    /* index 0 is left out on the wire, as every zero is in proto3 JSON. */
    cJSON_ArrayForEach(candidate, agt_member_array(response, "candidates"))
    {
        if (agt_member_u32(candidate, "index", 0) == 0)
            return candidate;
    }
    return NULL;
}

static int read_candidate(struct agt_reply *reply, const cJSON *response)
{
    const cJSON *candidate = first_candidate(response);

    if (!cJSON_IsObject(candidate))
        return 0;
    reply->has_candidate = true;
    agt_member_copy(candidate, "finishReason", reply->finish_reason, sizeof(reply->finish_reason));
    agt_member_copy(candidate, "finishMessage", reply->finish_message,
                    sizeof(reply->finish_message));
    return read_parts(reply, cJSON_GetObjectItemCaseSensitive(candidate, "content"));
}

/* Counts are cumulative and left out when zero, so a later object replaces an earlier one. */
static void read_usage(struct agt_reply *reply, const cJSON *response)
{
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(response, "usageMetadata");
    uint64_t sum;

    if (!cJSON_IsObject(usage))
        return;
    reply->usage.prompt_tokens =
        agt_member_u32(usage, "promptTokenCount", reply->usage.prompt_tokens);
    reply->usage.answer_tokens =
        agt_member_u32(usage, "candidatesTokenCount", reply->usage.answer_tokens);
    reply->usage.thought_tokens =
        agt_member_u32(usage, "thoughtsTokenCount", reply->usage.thought_tokens);
    sum = (uint64_t)reply->usage.prompt_tokens + reply->usage.answer_tokens +
          reply->usage.thought_tokens;
    reply->usage.total_tokens =
        agt_member_u32(usage, "totalTokenCount", sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum);
}

int agt_gemini_read(struct agt_reply *reply, const cJSON *response)
{
    if (agt_reply_error_read(response, &reply->error))
        return -EREMOTEIO;
    reply->chunks++;
    agt_member_copy(cJSON_GetObjectItemCaseSensitive(response, "promptFeedback"), "blockReason",
                    reply->block_reason, sizeof(reply->block_reason));
    agt_member_copy(response, "modelVersion", reply->model_served, sizeof(reply->model_served));
    read_usage(reply, response);
    return read_candidate(reply, response);
}
