/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct replay_answer;

/* Gemini's JSON, as the server side of its HTTP interface speaks it. Pure. */

#define REPLAY_MODEL_VERSION "gemini-replay (scripted)"

enum replay_framing {
    REPLAY_SSE,         /* streamGenerateContent?alt=sse */
    REPLAY_ARRAY,       /* streamGenerateContent: one JSON array */
    REPLAY_UNARY,       /* generateContent: one object */
    REPLAY_CHAT_STREAM, /* OpenAI's chat completions as a stream … */
    REPLAY_CHAT,        /* … and as one object */
};

/* The bytes of an answer, and where each of its chunks ends. */
struct replay_body {
    char *bytes;
    size_t size;
    size_t *ends;
    size_t chunks;
};

/* Returns 0 or -ENOMEM. */
int replay_body_render(const struct replay_answer *answer, enum replay_framing framing,
                       uint32_t prompt_tokens, struct replay_body *ret_body);
void replay_body_done(struct replay_body *body);

/* {"error": …} on the heap; NULL: no memory. `reason` (ErrorInfo) and `retry_delay` may be NULL. */
char *replay_error(int code, const char *status, const char *message, const char *reason,
                   const char *retry_delay);

/* The same list as OpenAI's interface has it; on the heap; NULL: no memory. */
char *replay_chat_model_list(void);

/* {"models": […]}, or the entry of one model; on the heap; NULL: no memory. */
char *replay_model_list(void);
char *replay_model(const char *model);

/* {"totalTokens": n} on the heap; NULL: no memory. */
char *replay_token_count(uint32_t tokens);

/* True for the names that this server plays: "gemini-…". */
bool replay_model_exists(const char *model);

/* A fair guess at what a tokenizer would count. */
uint32_t replay_count_tokens(const char *text);

/*
 * Collects system instruction and contents of a GenerateContentRequest (or of
 * the one inside a countTokens request) as one text, outputs of functions included. Returns 0,
 * -EBADMSG when it is not such a request, -ENOSPC, -ENOMEM.
 */
int replay_request_text(const char *json, size_t size, struct cr_buf *text);
