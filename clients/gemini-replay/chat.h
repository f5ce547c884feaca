/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;

/* The JSON of OpenAI's chat completions, as servers of local models speak it. Pure. */
struct replay_chat_chunk {
    const char *id;
    const char *text; /* of `size` bytes; NULL: the call below */
    size_t size;
    bool is_thought;
    const char *call_name;
    const char *call_arguments;
    char *const *more_calls; /* arguments of further calls of it */
    size_t more_call_count;
    const char *finish_reason; /* Gemini's name of it; NULL: not the last chunk */
    uint32_t prompt_tokens;    /* of the last chunk … */
    uint32_t answer_tokens;
    uint32_t thought_tokens;
    bool is_whole; /* the answer in one object, not streamed */
};

/* On the heap; NULL: no memory. */
char *replay_chat_chunk_print(const struct replay_chat_chunk *chunk);

/* {"error": {"message", "type", "code"}} on the heap; NULL: no memory. */
char *replay_chat_error(const char *message, const char *type, const char *code);

/* {"object": "list", "data": […]} of these models, on the heap; NULL: no memory. */
char *replay_chat_models(const char *const *models, size_t count);

/*
 * Collects the texts of a request's messages. *ret_stream: it wants a stream.
 * Returns 0, -EBADMSG when it is no such request, -ENOSPC, -ENOMEM.
 */
int replay_chat_text(const char *json, size_t size, struct cr_buf *text, bool *ret_stream);
