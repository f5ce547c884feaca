/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/gemini_reply.h"
#include "orchestrator/model/http.h"

/*
 * What to make of one attempt: how the call ends if it is not tried again,
 * and whether it may be. The rules are two tables, one for finish reasons and
 * one for HTTP statuses. Pure.
 */
enum agt_gemini_repeat {
    AGT_GEMINI_REPEAT_NO,
    AGT_GEMINI_REPEAT_ONCE,  /* what may have been charged, or is a fault of the model */
    AGT_GEMINI_REPEAT_TWICE, /* faults of the model that usually pass */
    AGT_GEMINI_REPEAT_BUSY,  /* the server could not: up to max_attempts */
    AGT_GEMINI_REPEAT_COUNT,
};

struct agt_gemini_verdict {
    enum agt_model_end end;
    enum agt_gemini_repeat repeat;
    bool is_varied;    /* repeat with another seed */
    int64_t wait_ms;   /* what the server asked for before a repeat; -1: nothing */
    char message[448]; /* "" when OK */
};

/* What a verdict is formed from. All borrowed. */
struct agt_gemini_attempt {
    const struct agt_gemini_reply *reply;
    const struct agt_http_result *http;
    const struct agt_gemini_error *error; /* of a failed request; NULL: none could be read */
    int stream_error;                     /* negative errno that stopped the reading; 0: none */
    const char *model;                    /* as asked for */
    const char *host;                     /* for texts; no key, no path */
    int64_t now_s;                        /* CLOCK_REALTIME, for dates in Retry-After */
};

void agt_gemini_judge(const struct agt_gemini_attempt *attempt,
                      struct agt_gemini_verdict *ret_verdict);

/* Seconds or an HTTP date, as milliseconds from `now_s`; -1 when there is none. */
int64_t agt_gemini_retry_after_ms(const char *text, int64_t now_s);
