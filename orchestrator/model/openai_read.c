/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/members.h"
#include "orchestrator/model/reply.h"

#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

/* Reads chat.completion.chunk objects, and whole chat.completion ones. */

static const cJSON *first_choice(const cJSON *object)
{
    const cJSON *choice;

    cJSON_ArrayForEach(choice, agt_member_array(object, "choices"))
    {
        if (agt_member_u32(choice, "index", 0) == 0)
            return choice;
    }
    return NULL;
}

/* The arguments come as pieces of a text, the name with the first of them. */
static int read_calls(struct agt_reply *reply, const cJSON *delta)
{
    const cJSON *call;
    uint32_t position = 0; /* servers that do not stream leave the index out */

    cJSON_ArrayForEach(call, agt_member_array(delta, "tool_calls"))
    {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        const char *arguments = agt_member_text(function, "arguments");
        struct agt_reply_slot slot;
        int r = agt_reply_call(reply, agt_member_u32(call, "index", position++), &slot);

        if (r == -ENOSPC) /* one too many is neither answered nor sent back */
            continue;
        if (r < 0)
            return r;
        agt_member_copy(call, "id", slot.id, AGT_REPLY_ID_SIZE);
        if (!slot.name[0])
            agt_member_copy(function, "name", slot.name, AGT_REPLY_NAME_SIZE);
        r = arguments ? agt_reply_add_arguments(&slot, arguments) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* What models think before they answer has a name of its own with each server. */
static int read_thoughts(struct agt_reply *reply, const cJSON *delta)
{
    static const char *const names[] = {"reasoning_content", "reasoning"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = agt_member_text(delta, names[i]);

        if (text && *text)
            return agt_reply_add_thought(reply, text, strlen(text));
    }
    return 0;
}

static int read_choice(struct agt_reply *reply, const cJSON *choice)
{
    const cJSON *delta = cJSON_GetObjectItemCaseSensitive(choice, "delta");
    const char *text;
    int r;

    if (!cJSON_IsObject(choice))
        return 0;
    reply->has_candidate = true;
    if (!cJSON_IsObject(delta)) /* the server does not stream */
        delta = cJSON_GetObjectItemCaseSensitive(choice, "message");
    agt_member_copy(choice, "finish_reason", reply->finish_reason, sizeof(reply->finish_reason));
    agt_member_copy(delta, "refusal", reply->finish_message, sizeof(reply->finish_message));
    r = read_thoughts(reply, delta);
    text = agt_member_text(delta, "content");
    if (r == 0 && text && *text)
        r = agt_reply_add_text(reply, text, strlen(text));
    return r < 0 ? r : read_calls(reply, delta);
}

/* Thoughts are a part of what is counted as completion here. */
static void read_usage(struct agt_reply *reply, const cJSON *object)
{
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(object, "usage");
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(usage, "completion_tokens_details");
    uint32_t completion;
    uint32_t thoughts;

    if (!cJSON_IsObject(usage))
        return;
    completion = agt_member_u32(usage, "completion_tokens", 0);
    thoughts = agt_member_u32(details, "reasoning_tokens", 0);
    if (thoughts > completion)
        thoughts = completion;
    reply->usage.prompt_tokens = agt_member_u32(usage, "prompt_tokens", 0);
    reply->usage.thought_tokens = thoughts;
    reply->usage.answer_tokens = completion - thoughts;
    reply->usage.total_tokens = agt_member_u32(
        usage, "total_tokens", (uint32_t)(reply->usage.prompt_tokens + (uint64_t)completion));
}

int agt_openai_read(struct agt_reply *reply, const cJSON *object)
{
    if (agt_reply_error_read(object, &reply->error))
        return -EREMOTEIO;
    reply->chunks++;
    agt_member_copy(object, "model", reply->model_served, sizeof(reply->model_served));
    read_usage(reply, object);
    return read_choice(reply, first_choice(object));
}
