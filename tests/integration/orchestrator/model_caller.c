/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/model_caller.h"

#include "common/clock.h"
#include "common/err.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <time.h>

static const time_t WAIT_S = 20;

static void on_delta(void *user, uint32_t offset, const char *text, size_t size, bool is_thought)
{
    struct model_caller *caller = user;
    struct cr_buf *target = is_thought ? &caller->thoughts : &caller->deltas;

    (void)pthread_mutex_lock(&caller->lock);
    caller->is_misplaced |= offset != target->size;
    (void)cr_buf_add(target, text, size);
    caller->delta_count++;
    (void)pthread_cond_broadcast(&caller->ended);
    (void)pthread_mutex_unlock(&caller->lock);
}

static void on_retry(void *user, const struct agt_model_retry *retry)
{
    struct model_caller *caller = user;

    (void)pthread_mutex_lock(&caller->lock);
    caller->retries++;
    (void)snprintf(caller->retry_reason, sizeof(caller->retry_reason), "%s", retry->reason);
    if (retry->is_restart) {
        caller->restarts++;
        cr_buf_clear(&caller->deltas);
        cr_buf_clear(&caller->thoughts);
    }
    (void)pthread_mutex_unlock(&caller->lock);
}

static void on_end(void *user, const struct agt_model_answer *answer)
{
    struct model_caller *caller = user;

    (void)pthread_mutex_lock(&caller->lock);
    caller->ends++;
    caller->end = answer->end;
    (void)cr_buf_add(&caller->text, answer->text, answer->text_size);
    (void)snprintf(caller->message, sizeof(caller->message), "%s", answer->message);
    (void)snprintf(caller->served, sizeof(caller->served), "%s", answer->model_served);
    (void)snprintf(caller->finish_reason, sizeof(caller->finish_reason), "%s",
                   answer->finish_reason);
    caller->usage = answer->usage;
    caller->calls = answer->calls;
    caller->elapsed_ms = answer->elapsed_ms;
    (void)pthread_cond_broadcast(&caller->ended);
    (void)pthread_mutex_unlock(&caller->lock);
}

void model_caller_init(struct model_caller *caller)
{
    *caller = (struct model_caller){0};
    (void)pthread_mutex_init(&caller->lock, NULL);
    (void)pthread_cond_init(&caller->ended, NULL);
    cr_buf_init(&caller->deltas, 64u << 20);
    cr_buf_init(&caller->thoughts, 64u << 20);
    cr_buf_init(&caller->text, 64u << 20);
}

void model_caller_done(struct model_caller *caller)
{
    cr_buf_done(&caller->deltas);
    cr_buf_done(&caller->thoughts);
    cr_buf_done(&caller->text);
    (void)pthread_cond_destroy(&caller->ended);
    (void)pthread_mutex_destroy(&caller->lock);
}

struct agt_model_call *model_caller_start(struct model_caller *caller, struct agt_model *model,
                                          const char *system, const char *prompt,
                                          uint32_t timeout_ms)
{
    const struct agt_model_request request = {
        .model = caller->model,
        .system = system,
        .prompt = prompt,
        .purpose = "code",
        .deadline_ns = cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS,
    };
    const struct agt_model_handlers handlers = {
        .on_delta = on_delta, .on_retry = on_retry, .on_end = on_end, .user = caller};
    struct agt_model_call *call = NULL;
    struct cr_err err = CR_ERR_INIT;

    if (model->ops->start(model, &request, &handlers, &call, &err) < 0)
        fail_msg("%s", err.text);
    return call;
}

/* Under the lock. False: waited long enough. */
static bool wait_once(struct model_caller *caller, const struct timespec *until)
{
    return pthread_cond_timedwait(&caller->ended, &caller->lock, until) == 0;
}

static struct timespec wait_limit(void)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    return until;
}

void model_caller_wait(struct model_caller *caller)
{
    struct timespec until = wait_limit();
    bool is_ended;

    (void)pthread_mutex_lock(&caller->lock);
    while (caller->ends == 0 && wait_once(caller, &until))
        continue;
    is_ended = caller->ends > 0;
    (void)pthread_mutex_unlock(&caller->lock);
    assert_true(is_ended);
}

void model_caller_wait_for_text(struct model_caller *caller)
{
    struct timespec until = wait_limit();
    bool has_text;

    (void)pthread_mutex_lock(&caller->lock);
    while (caller->deltas.size == 0 && wait_once(caller, &until))
        continue;
    has_text = caller->deltas.size > 0;
    (void)pthread_mutex_unlock(&caller->lock);
    assert_true(has_text);
}

void model_caller_run(struct model_caller *caller, struct agt_model *model, const char *system,
                      const char *prompt, uint32_t timeout_ms)
{
    struct agt_model_call *call = model_caller_start(caller, model, system, prompt, timeout_ms);

    model_caller_wait(caller);
    model->ops->unref(call);
}
