/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "orchestrator/model/json_front.h"
#include "orchestrator/model/model.h"

/* What Gemini said when it failed: google.rpc.Status as JSON. Texts are cleaned and cut. */
struct agt_gemini_error {
    bool is_set;
    int code;               /* the HTTP status it names; 0: none */
    char status[48];        /* "RESOURCE_EXHAUSTED" */
    char reason[48];        /* of ErrorInfo: "API_KEY_INVALID" */
    char message[320];      /* one line */
    int64_t retry_delay_ms; /* of RetryInfo; -1: none */
    bool is_used_up;        /* a daily quota, or one with limit 0: waiting will not help */
};

#define AGT_GEMINI_ERROR_INIT                                                                      \
    {                                                                                              \
        .retry_delay_ms = -1                                                                       \
    }

/*
 * One answer being put together from GenerateContentResponse objects. Pure:
 * fed by the SSE reader in the client, by strings in tests. Only the first
 * candidate counts: the client never asks for more.
 */
struct agt_gemini_reply {
    void (*on_delta)(void *user, uint32_t offset, const char *text, size_t size, bool is_thought);
    void *user;
    struct cr_buf text;     /* the answer without thoughts, UTF-8 */
    uint32_t thoughts_size; /* bytes of thoughts seen; they are passed on, not kept */
    struct agt_json_join text_join;
    struct agt_json_join thought_join;
    size_t checked_size; /* text looked at for repetition */
    uint32_t chunks;     /* responses read */
    bool has_candidate;
    bool is_repeating;
    uint32_t json_flags; /* AGT_JSON_*: what had to be repaired */
    char finish_reason[48];
    char finish_message[200];
    char block_reason[48]; /* of the prompt */
    char model_served[128];
    struct agt_model_usage usage; /* cumulative: the last one seen */
    struct agt_gemini_error error;
};

/* `on_delta` may be NULL. */
void agt_gemini_reply_init(struct agt_gemini_reply *reply,
                           void (*on_delta)(void *user, uint32_t offset, const char *text,
                                            size_t size, bool is_thought),
                           void *user);

void agt_gemini_reply_done(struct agt_gemini_reply *reply);

/*
 * Takes one response, an error object, or an array of either. "[DONE]" and
 * empty data are nothing. `is_cut`: the stream ended inside this event; an
 * incomplete one is then dropped.
 * Returns 0, -EBADMSG when it is not understood, -EMSGSIZE or -ENOSPC when
 * it is too large, -ELOOP when the answer repeats itself without end,
 * -EREMOTEIO after an error object (in `error`), -ENOMEM.
 */
int agt_gemini_reply_add(struct agt_gemini_reply *reply, const char *data, size_t size,
                         bool is_cut);

/* Nothing follows: gives out what was held back. Returns 0, -ENOSPC, -ENOMEM. */
int agt_gemini_reply_end(struct agt_gemini_reply *reply);

/* Reads the body of a failed request. False when it is not such an error. */
bool agt_gemini_error_parse(const char *data, size_t size, struct agt_gemini_error *ret_error);

/* "58s", "1.5s", "58.934310785s" rounded up to milliseconds. Returns 0 or -EINVAL. */
int agt_gemini_duration_parse(const char *text, int64_t *ret_ms);
