/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "orchestrator/model/json_front.h"
#include "orchestrator/model/model.h"

struct cJSON;

/* What the provider said when it failed. Texts are cleaned and cut. */
struct agt_reply_error {
    bool is_set;
    int code;               /* the HTTP status it names; 0: none */
    char status[48];        /* "RESOURCE_EXHAUSTED"; OpenAI's type */
    char reason[48];        /* of ErrorInfo: "API_KEY_INVALID"; OpenAI's code */
    char message[320];      /* one line */
    int64_t retry_delay_ms; /* of RetryInfo; -1: none */
    bool is_used_up;        /* a daily quota, or one with limit 0: waiting will not help */
};

#define AGT_REPLY_ERROR_INIT                                                                       \
    {                                                                                              \
        .retry_delay_ms = -1                                                                       \
    }

struct agt_reply;

#define AGT_REPLY_NAME_SIZE 64
#define AGT_REPLY_ID_SIZE 128

/* A call behind the first one of a turn. */
struct agt_reply_call {
    char name[AGT_REPLY_NAME_SIZE];
    char id[AGT_REPLY_ID_SIZE];
    struct cr_buf arguments;
    struct cr_buf signature;
};

/*
 * Reads one object of a provider's stream into the reply. Returns 0, -EBADMSG,
 * -EREMOTEIO for an error object, or what the functions below returned.
 */
typedef int (*agt_reply_reader)(struct agt_reply *reply, const struct cJSON *object);

/*
 * One answer being put together from the objects of a stream. Pure: fed by
 * the SSE reader in the client, by strings in tests. Only the first candidate
 * counts: the client never asks for more.
 */
struct agt_reply {
    agt_reply_reader read;
    void (*on_delta)(void *user, uint32_t offset, const char *text, size_t size, bool is_thought);
    void *user;
    struct cr_buf text;     /* the answer without thoughts, UTF-8 */
    uint32_t thoughts_size; /* bytes of thoughts seen; they are passed on, not kept */
    struct agt_json_join text_join;
    struct agt_json_join thought_join;
    bool has_call; /* of a function: the first one */
    char call_name[AGT_REPLY_NAME_SIZE];
    char call_id[AGT_REPLY_ID_SIZE];
    struct cr_buf call_arguments; /* a JSON object */
    struct cr_buf call_signature;
    struct agt_reply_call *more_calls; /* behind the first; NULL: none. Owned */
    size_t more_call_count;
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
    struct agt_reply_error error;
};

/* `on_delta` may be NULL. */
void agt_reply_init(struct agt_reply *reply, agt_reply_reader read,
                    void (*on_delta)(void *user, uint32_t offset, const char *text, size_t size,
                                     bool is_thought),
                    void *user);

void agt_reply_done(struct agt_reply *reply);

/*
 * Takes one response, an error object, or an array of either. "[DONE]" and
 * empty data are nothing. `is_cut`: the stream ended inside this event; an
 * incomplete one is then dropped.
 * Returns 0, -EBADMSG when it is not understood, -EMSGSIZE or -ENOSPC when
 * it is too large, -ELOOP when the answer repeats itself without end,
 * -EREMOTEIO after an error object (in `error`), -ENOMEM.
 */
int agt_reply_add(struct agt_reply *reply, const char *data, size_t size, bool is_cut);

/* For readers: a piece of the answer, or of the thoughts before it. Return 0, -ENOSPC, -ENOMEM,
 * -ELOOP. */
int agt_reply_add_text(struct agt_reply *reply, const char *text, size_t size);
int agt_reply_add_thought(struct agt_reply *reply, const char *text, size_t size);

/* One of the calls of a turn, where the reply keeps it. */
struct agt_reply_slot {
    char *name; /* of AGT_REPLY_NAME_SIZE */
    char *id;   /* of AGT_REPLY_ID_SIZE */
    struct cr_buf *arguments;
    struct cr_buf *signature;
};

/*
 * For readers: call number `index` of the turn, a new one when it is the next.
 * Returns 0; -ENOSPC for one that is left out, as it is beyond
 * AGT_MODEL_CALLS_MAX or not the next; -ENOMEM.
 */
int agt_reply_call(struct agt_reply *reply, size_t index, struct agt_reply_slot *ret_slot);

/* How many there are. */
size_t agt_reply_call_count(const struct agt_reply *reply);

/* For readers: a piece of the arguments of a call. Returns 0, -ENOSPC, -ENOMEM. */
int agt_reply_add_arguments(const struct agt_reply_slot *slot, const char *text);

/* Nothing follows: gives out what was held back. Returns 0, -ENOSPC, -ENOMEM. */
int agt_reply_end(struct agt_reply *reply);

/* The readers of the two interfaces (gemini_read.c, openai_read.c). */
int agt_gemini_read(struct agt_reply *reply, const struct cJSON *response);
int agt_openai_read(struct agt_reply *reply, const struct cJSON *object);

/* Reads the body of a failed request. False when it is not such an error. */
bool agt_reply_error_parse(const char *data, size_t size, struct agt_reply_error *ret_error);

/* "58s", "1.5s", "58.934310785s" rounded up to milliseconds. Returns 0 or -EINVAL. */
int agt_duration_parse(const char *text, int64_t *ret_ms);
