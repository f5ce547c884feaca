/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "orchestrator/model/model.h"

#include <pthread.h>
#include <stdbool.h>

/* One call of a model, recorded: for tests that wait for it on their own thread. */
struct model_caller {
    const char *model;    /* to ask for; NULL: the client's default. Set before the start */
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t ended;
    uint32_t ends;        /* how often on_end ran; anything but 1 is a fault */
    struct cr_buf deltas; /* text deltas put together by their offsets */
    struct cr_buf thoughts;
    uint32_t delta_count;
    bool is_misplaced; /* a delta did not follow the one before it */
    uint32_t retries;
    uint32_t restarts;
    char retry_reason[512];
    enum agt_model_end end;
    struct cr_buf text;
    char message[512];
    char served[128];
    char finish_reason[64];
    struct agt_model_usage usage;
    uint32_t calls;
    uint32_t elapsed_ms;
};

void model_caller_init(struct model_caller *caller);
void model_caller_done(struct model_caller *caller);

/* Starts a call with this prompt and a deadline of `timeout_ms`; fails the test when it cannot. */
struct agt_model_call *model_caller_start(struct model_caller *caller, struct agt_model *model,
                                          const char *system, const char *prompt,
                                          uint32_t timeout_ms);

/* Waits for the end, 20 s at most; fails the test when it does not come. */
void model_caller_wait(struct model_caller *caller);

/* Waits until some text has come, 20 s at most. */
void model_caller_wait_for_text(struct model_caller *caller);

/* Starts, waits, drops the reference. */
void model_caller_run(struct model_caller *caller, struct agt_model *model, const char *system,
                      const char *prompt, uint32_t timeout_ms);
