/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "tests/harness/double_worker.h"
#include "tests/harness/doubles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a test links the real model as well, its text wins. */
__attribute__((weak)) const char agt_gemini_no_key_help[] = "No model key: set GEMINI_API_KEY.";

#define DEFAULT_MODEL "double-1"

#define GOOD_FILES(more)                                                                           \
    "````python path=test_solution.py\n"                                                           \
    "from solution import add\n\n\n"                                                               \
    "def test_add():\n"                                                                            \
    "    assert add(1, 1) == 2\n"                                                                  \
    "````\n\n"                                                                                     \
    "````python path=solution.py\n"                                                                \
    "def add(a, b):\n"                                                                             \
    "    return a + b\n" more "````\n"

const char double_good_files[] = GOOD_FILES("");

/* The same code again would not be run: behind each failed attempt there is some other. */
static const char *const repaired_files[] = {
    GOOD_FILES("T = 1\n"), GOOD_FILES("T = 2\n"), GOOD_FILES("T = 3\n"),
    GOOD_FILES("T = 4\n"), GOOD_FILES("T = 5\n"), GOOD_FILES("T = 6\n"),
    GOOD_FILES("T = 7\n"), GOOD_FILES("T = 8\n"), GOOD_FILES("T = 9\n"),
};

struct double_model {
    struct agt_model base;
    struct double_worker worker;
    double_model_script script;
    void *user;
    _Atomic bool is_configured; /* read on the thread of the server */
};

struct model_call {
    struct double_call base;
    struct double_model *model;
    struct agt_model_handlers handlers;
    struct double_answer answer;
    char *model_name;
    char *system;
    char *prompt;
    const char *purpose; /* static in the engine */
    uint32_t max_output_tokens;
    int64_t deadline_ns;
};

void double_solve(void *user, const struct agt_model_request *request,
                  struct double_answer *ret_answer)
{
    (void)user;
    if (strcmp(request->purpose, "plan") == 0)
        ret_answer->text = "1. Behaviours: add(a, b) returns the sum.";
    else
        ret_answer->text = double_good_files;
    for (size_t i = 0; i < sizeof(repaired_files) / sizeof(repaired_files[0]); i++) {
        char failed[24];

        (void)snprintf(failed, sizeof(failed), "\nATTEMPT %zu FAILED\n", i + 1);
        if (ret_answer->text == double_good_files && strstr(request->prompt, failed))
            ret_answer->text = repaired_files[i];
    }
}

static bool begin(struct double_call *base)
{
    struct model_call *call = (struct model_call *)base;
    struct agt_model_request request = {
        .model = call->model_name,
        .system = call->system,
        .prompt = call->prompt,
        .purpose = call->purpose,
        .max_output_tokens = call->max_output_tokens,
        .deadline_ns = call->deadline_ns,
    };

    call->model->script(call->model->user, &request, &call->answer);
    return call->answer.is_held;
}

static void tell_before(const struct model_call *call, const char *text)
{
    struct agt_model_retry retry = {.reason = "try again", .attempt = 2, .is_restart = true};
    size_t size = strlen(text);
    size_t step = call->answer.delta_size;

    if (call->answer.has_retry)
        call->handlers.on_retry(call->handlers.user, &retry);
    for (size_t at = 0; step > 0 && at < size; at += step)
        call->handlers.on_delta(call->handlers.user, (uint32_t)at, text + at,
                                size - at < step ? size - at : step, false);
}

static void finish(struct double_call *base, bool is_cancelled)
{
    struct model_call *call = (struct model_call *)base;
    const char *text = call->answer.text ? call->answer.text : "";
    struct agt_model_answer answer = {
        .end = is_cancelled ? AGT_MODEL_CANCELLED : call->answer.end,
        .text = text,
        .text_size = strlen(text),
        .message = call->answer.message ? call->answer.message : "",
        .model_requested = call->model_name,
        .model_served = call->answer.model_served ? call->answer.model_served : call->model_name,
        .finish_reason = "STOP",
        .usage = {.prompt_tokens = 10, .answer_tokens = 20, .total_tokens = 30},
        .calls = 1,
    };

    if (answer.end == AGT_MODEL_OK)
        tell_before(call, text);
    call->handlers.on_end(call->handlers.user, &answer);
}

static void release(struct double_call *base)
{
    struct model_call *call = (struct model_call *)base;

    free(call->model_name);
    free(call->system);
    free(call->prompt);
    free(call);
}

static int start(struct agt_model *base, const struct agt_model_request *request,
                 const struct agt_model_handlers *handlers, struct agt_model_call **ret_call,
                 struct cr_err *err)
{
    struct double_model *model = (struct double_model *)base;
    struct model_call *call = calloc(1, sizeof(*call));

    if (!call)
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    call->model = model;
    call->handlers = *handlers;
    call->model_name = strdup(request->model ? request->model : DEFAULT_MODEL);
    call->system = strdup(request->system);
    call->prompt = strdup(request->prompt);
    call->purpose = request->purpose;
    call->max_output_tokens = request->max_output_tokens;
    call->deadline_ns = request->deadline_ns;
    if (!call->model_name || !call->system || !call->prompt) {
        release(&call->base);
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    }
    *ret_call = (struct agt_model_call *)(void *)call;
    double_worker_add(&model->worker, &call->base);
    return 0;
}

static void cancel(struct agt_model_call *call)
{
    double_call_cancel((struct double_call *)(void *)call);
}

static void unref(struct agt_model_call *call)
{
    double_call_unref((struct double_call *)(void *)call);
}

static const char *default_model(const struct agt_model *model)
{
    (void)model;
    return DEFAULT_MODEL;
}

static bool is_configured(const struct agt_model *base)
{
    return ((const struct double_model *)base)->is_configured;
}

static void free_model(struct agt_model *base)
{
    struct double_model *model = (struct double_model *)base;

    double_worker_stop(&model->worker);
    free(model);
}

struct agt_model *double_model_new(double_model_script script, void *user)
{
    static const struct agt_model_ops ops = {
        .start = start,
        .cancel = cancel,
        .unref = unref,
        .default_model = default_model,
        .is_configured = is_configured,
        .free = free_model,
    };
    struct double_model *model = calloc(1, sizeof(*model));

    model->base.ops = &ops;
    model->script = script ? script : double_solve;
    model->user = user;
    model->is_configured = true;
    model->worker.begin = begin;
    model->worker.finish = finish;
    model->worker.release = release;
    double_worker_start(&model->worker);
    return &model->base;
}

void double_model_set_configured(struct agt_model *model, bool value)
{
    ((struct double_model *)model)->is_configured = value;
}

uint32_t double_model_live_calls(struct agt_model *model)
{
    return double_worker_live(&((struct double_model *)model)->worker);
}
