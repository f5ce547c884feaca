/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/check_model.h"

#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/config.h"
#include "orchestrator/model/model.h"
#include "orchestrator/provider.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE_S 60
/* Enough for the thoughts of a thinking model before its one word. */
#define OUTPUT_TOKENS_MAX 512

static const char prompt[] = "Answer with the single word: ready";

/* What came back, handed from the model's thread to the main thread. */
struct reply {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t has_ended;
    bool is_there;
    enum agt_model_end end;
    char word[64];
    char served[128];
    char message[256];
    struct agt_model_usage usage;
    uint32_t calls;
    uint32_t elapsed_ms;
};

static void on_delta(void *user, uint32_t offset, const char *text, size_t size, bool is_thought)
{
    (void)user;
    (void)offset;
    (void)text;
    (void)size;
    (void)is_thought;
}

static void on_retry(void *user, const struct agt_model_retry *retry)
{
    (void)user;
    (void)retry;
}

/* Keeps what a terminal can show: the text is the server's. */
static void keep(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text);
    for (char *at = to; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

static void on_end(void *user, const struct agt_model_answer *answer)
{
    struct reply *reply = user;

    (void)pthread_mutex_lock(&reply->lock);
    reply->end = answer->end;
    keep(reply->word, sizeof(reply->word), answer->text);
    keep(reply->served, sizeof(reply->served), answer->model_served);
    keep(reply->message, sizeof(reply->message), answer->message);
    reply->usage = answer->usage;
    reply->calls = answer->calls;
    reply->elapsed_ms = answer->elapsed_ms;
    reply->is_there = true;
    (void)pthread_cond_signal(&reply->has_ended);
    (void)pthread_mutex_unlock(&reply->lock);
}

/* The deadline of the call ends the wait: on_end runs exactly once. */
static void wait_for(struct reply *reply)
{
    (void)pthread_mutex_lock(&reply->lock);
    while (!reply->is_there)
        (void)pthread_cond_wait(&reply->has_ended, &reply->lock);
    (void)pthread_mutex_unlock(&reply->lock);
}

static int ask(struct agt_model *model, struct reply *reply, struct cr_err *err)
{
    const struct agt_model_request request = {
        .prompt = prompt,
        .purpose = "check",
        .max_output_tokens = OUTPUT_TOKENS_MAX,
        .deadline_ns = cr_clock_mono_ns() + DEADLINE_S * CR_NS_PER_S,
    };
    const struct agt_model_handlers handlers = {
        .on_delta = on_delta, .on_retry = on_retry, .on_end = on_end, .user = reply};
    struct agt_model_call *call = NULL;
    int r = model->ops->start(model, &request, &handlers, &call, err);

    if (r < 0)
        return r;
    wait_for(reply);
    model->ops->unref(call);
    return 0;
}

static int report(const struct reply *reply, struct cr_err *err)
{
    const struct agt_model_usage *usage = &reply->usage;

    /* Cut at our own limit is an answer too: key, model and network are in order. */
    if (reply->end != AGT_MODEL_OK && reply->end != AGT_MODEL_TRUNCATED)
        return cr_err_set(err, EIO, "the model did not answer: %s", reply->message);
    printf("answered  %s: \"%s\"\n", reply->served[0] ? reply->served : "(no name)", reply->word);
    printf("cost      %" PRIu32 " request, %" PRIu32 " tokens (prompt %" PRIu32 ", answer %" PRIu32
           ", thoughts %" PRIu32 "), %.2f s\n",
           reply->calls, usage->total_tokens, usage->prompt_tokens, usage->answer_tokens,
           usage->thought_tokens, reply->elapsed_ms / 1000.0);
    return 0;
}

int agt_check_model(const struct agt_config *config, struct cr_err *err)
{
    const char *base_url = agt_config_model_url(config);
    struct reply reply = {.lock = PTHREAD_MUTEX_INITIALIZER, .has_ended = PTHREAD_COND_INITIALIZER};
    struct agt_model *model = NULL;
    int r = agt_provider_open(config, 1, &model, err);

    if (r < 0)
        return r;
    printf("asking    %s at %s for one word, with one request\n", model->ops->default_model(model),
           base_url ? base_url : "the public endpoint");
    (void)fflush(stdout);
    r = ask(model, &reply, err);
    model->ops->free(model);
    return r < 0 ? r : report(&reply, err);
}
