/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/reply.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const size_t MAX_TEXT = 4U << 20;
static const size_t MAX_EVENT = 8U << 20;
static const size_t MAX_SIGNATURE = 256U << 10;

/*
 * An answer whose last 4 KiB are one short piece over and over has run away (seen as digits or
 * blanks up to the token limit). Looked at once per KiB.
 */
#define REPEAT_WINDOW 4096U
#define REPEAT_PERIOD_MAX 200U
#define REPEAT_STEP 1024U

void agt_reply_init(struct agt_reply *reply, agt_reply_reader read,
                    void (*on_delta)(void *user, uint32_t offset, const char *text, size_t size,
                                     bool is_thought),
                    void *user)
{
    *reply = (struct agt_reply){
        .read = read, .on_delta = on_delta, .user = user, .error = AGT_REPLY_ERROR_INIT};
    cr_buf_init(&reply->text, MAX_TEXT);
    cr_buf_init(&reply->call_arguments, MAX_TEXT);
    cr_buf_init(&reply->call_signature, MAX_SIGNATURE);
}

void agt_reply_done(struct agt_reply *reply)
{
    cr_buf_done(&reply->text);
    cr_buf_done(&reply->call_arguments);
    cr_buf_done(&reply->call_signature);
    for (size_t i = 0; i < reply->more_call_count; i++) {
        cr_buf_done(&reply->more_calls[i].arguments);
        cr_buf_done(&reply->more_calls[i].signature);
    }
    free(reply->more_calls);
    reply->more_calls = NULL;
    reply->more_call_count = 0;
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

static void tell(const struct agt_reply *reply, size_t offset, const char *text, size_t size,
                 bool is_thought)
{
    if (reply->on_delta && size > 0)
        reply->on_delta(reply->user, (uint32_t)offset, text, size, is_thought);
}

int agt_reply_add_text(struct agt_reply *reply, const char *text, size_t size)
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

int agt_reply_add_thought(struct agt_reply *reply, const char *text, size_t size)
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

size_t agt_reply_call_count(const struct agt_reply *reply)
{
    return (reply->has_call ? 1 : 0) + reply->more_call_count;
}

static int add_call(struct agt_reply *reply)
{
    struct agt_reply_call *call;

    if (!reply->has_call) {
        reply->has_call = true;
        return 0;
    }
    if (!reply->more_calls)
        reply->more_calls = calloc(AGT_MODEL_CALLS_MAX - 1, sizeof(*reply->more_calls));
    if (!reply->more_calls)
        return -ENOMEM;
    call = &reply->more_calls[reply->more_call_count++];
    cr_buf_init(&call->arguments, MAX_TEXT);
    cr_buf_init(&call->signature, MAX_SIGNATURE);
    return 0;
}

int agt_reply_call(struct agt_reply *reply, size_t index, struct agt_reply_slot *ret_slot)
{
    size_t count = agt_reply_call_count(reply);
    struct agt_reply_call *call;

    if (index > count || index >= AGT_MODEL_CALLS_MAX)
        return -ENOSPC;
    if (index == count && add_call(reply) < 0)
        return -ENOMEM;
    if (index == 0) {
        *ret_slot = (struct agt_reply_slot){reply->call_name, reply->call_id,
                                            &reply->call_arguments, &reply->call_signature};
        return 0;
    }
    call = &reply->more_calls[index - 1];
    *ret_slot = (struct agt_reply_slot){call->name, call->id, &call->arguments, &call->signature};
    return 0;
}

int agt_reply_add_arguments(const struct agt_reply_slot *slot, const char *text)
{
    return cr_utf8_add_lossy(slot->arguments, text, strlen(text));
}

static int read_object(struct agt_reply *reply, const cJSON *object)
{
    return cJSON_IsObject(object) ? reply->read(reply, object) : -EBADMSG;
}

static int read_document(struct agt_reply *reply, const cJSON *root)
{
    const cJSON *response;
    int r = 0;

    if (!cJSON_IsArray(root))
        return read_object(reply, root);
    cJSON_ArrayForEach(response, root)
    {
        if (r == 0)
            r = read_object(reply, response);
    }
    return r;
}

/* The end of a stream of OpenAI's; Gemini itself does not send it, but some gateways do. */
static bool is_nothing(const char *data, size_t size)
{
    return size == 0 || (size == 6 && memcmp(data, "[DONE]", 6) == 0);
}

int agt_reply_add(struct agt_reply *reply, const char *data, size_t size, bool is_cut)
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

int agt_reply_end(struct agt_reply *reply)
{
    size_t before = reply->text.size;
    int r = agt_json_join_end(&reply->text_join, &reply->text);

    tell(reply, before, cr_buf_str(&reply->text) + before, reply->text.size - before, false);
    return r;
}
