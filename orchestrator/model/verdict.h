/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/http.h"
#include "orchestrator/model/reply.h"

/*
 * What to make of one attempt: how the call ends if it is not tried again,
 * and whether it may be. The rules are two tables, one for finish reasons and
 * one for HTTP statuses. Pure.
 */
enum agt_repeat {
    AGT_REPEAT_NO,
    AGT_REPEAT_ONCE,  /* what may have been charged, or is a fault of the model */
    AGT_REPEAT_TWICE, /* faults of the model that usually pass */
    AGT_REPEAT_BUSY,  /* the server could not: up to max_attempts */
    AGT_REPEAT_COUNT,
};

struct agt_verdict {
    enum agt_model_end end;
    enum agt_repeat repeat;
    bool is_varied;    /* repeat with another seed */
    bool is_relaxed;   /* repeat with less thinking */
    int64_t wait_ms;   /* what the server asked for before a repeat; -1: nothing */
    char message[448]; /* "" when OK */
};

/* How things are called with a provider, for texts. */
struct agt_provider_names {
    const char *key; /* settings: "GEMINI_API_KEY" … */
    const char *base_url;
    const char *model;
    const char *list_models; /* how a person finds out which models there are */
};

/* What a verdict is formed from. All borrowed. */
struct agt_model_attempt {
    const struct agt_provider_names *names;
    const struct agt_reply *reply;
    const struct agt_http_result *http;
    const struct agt_reply_error *error; /* of a failed request; NULL: none could be read */
    int stream_error;                    /* negative errno that stopped the reading; 0: none */
    const char *model;                   /* as asked for */
    const char *host;                    /* for texts; no key, no path */
    int64_t now_s;                       /* CLOCK_REALTIME, for dates in Retry-After */
};

void agt_verdict_judge(const struct agt_model_attempt *attempt, struct agt_verdict *ret_verdict);

/* Seconds or an HTTP date, as milliseconds from `now_s`; -1 when there is none. */
int64_t agt_retry_after_ms(const char *text, int64_t now_s);
