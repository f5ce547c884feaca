/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/compile.h"

#include "common/err.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "sandboxd/front/limits.h"
#include "sandboxd/front/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int sbx_compile_new(const Crisol__Sandbox__V1__ExecuteRequest *message,
                    const struct sbx_request *request, const struct sbx_execution *execution,
                    const struct sbx_waker *waker, const struct sbx_msg_hello *hello,
                    struct sbx_compile **ret_compile, struct cr_err *err)
{
    const struct sbx_request own = sbx_request_compile(request);
    struct sbx_compile *compile = calloc(1, sizeof(*compile));
    const size_t most = (size_t)own.limits.value[SBX_LIMIT_OUTPUT];
    int r;

    if (!compile)
        return cr_err_set(err, ENOMEM, "out of memory for a compile stage");
    r = sbx_execution_new_compile(message, execution, &own, waker, &compile->execution, err);
    if (r < 0) {
        free(compile);
        return r;
    }
    for (size_t i = 0; i < 2; i++)
        cr_buf_init(&compile->outputs[i], most);
    cr_buf_init(&compile->chunk, SBX_CHUNK_MAX);
    cr_buf_init(&compile->output, 2 * most);
    cr_buf_init(&compile->text, 6 * most); /* each ill-formed byte becomes three */
    compile->is_kept = message->keep_compiled;
    sbx_policy_fill(&compile->policy, &own, hello, NULL);
    sbx_execution_set_policy(compile->execution, compile->policy.digest);
    *ret_compile = compile;
    return 0;
}

struct sbx_compile *sbx_compile_free(struct sbx_compile *compile)
{
    if (!compile)
        return NULL;
    if (compile->has_result)
        sbx_result_done(&compile->result);
    for (size_t i = 0; i < 2; i++)
        cr_buf_done(&compile->outputs[i]);
    cr_buf_done(&compile->chunk);
    cr_buf_done(&compile->output);
    cr_buf_done(&compile->text);
    sbx_execution_unref(compile->execution);
    free(compile);
    return NULL;
}

bool sbx_compile_take(struct sbx_compile *compile)
{
    for (;;) {
        struct sbx_event event = sbx_execution_take(compile->execution, &compile->chunk);

        if (event.type == SBX_EVENT_DATA) {
            /* Cannot be more than the cap; without memory for it, less is kept. */
            if (cr_buf_add(&compile->outputs[event.stream - 1], compile->chunk.data,
                           compile->chunk.size) < 0)
                compile->is_truncated = true;
            cr_buf_clear(&compile->chunk);
        } else if (event.type == SBX_EVENT_TRUNCATED) {
            compile->is_truncated = true;
        } else if (event.type == SBX_EVENT_ENDED || event.type == SBX_EVENT_NONE) {
            return event.type == SBX_EVENT_ENDED;
        }
    }
}

bool sbx_compile_is_good(const struct sbx_compile *compile)
{
    const struct sbx_outcome *outcome = sbx_execution_outcome(compile->execution);

    return outcome->refusal == RPC_OK && outcome->result.verdict == SBX_VERDICT_OK;
}

/* A compiler that says no is no program that failed. */
static void name_verdict(struct sbx_result *result)
{
    Crisol__Sandbox__V1__Verdict *verdict = result->message.verdict;

    if (verdict->code == CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_NONZERO_EXIT)
        (void)snprintf(result->verdict_message, sizeof(result->verdict_message),
                       "the compile stage exited with %d", (int)result->message.exit_code);
    else if (verdict->code == CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SIGNALED)
        (void)snprintf(result->verdict_message, sizeof(result->verdict_message),
                       "the compile stage died of signal %d", (int)result->message.signal);
    else
        return;
    verdict->code = CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_COMPILE_ERROR;
    (void)snprintf(result->summary, sizeof(result->summary), "COMPILE_ERROR: %.200s",
                   result->verdict_message);
}

static int join_output(struct sbx_compile *compile)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < 2; i++)
        r = cr_buf_add(&compile->output, compile->outputs[i].data, compile->outputs[i].size);
    if (r == 0 && sbx_execution_request(compile->execution)->as_text)
        r = cr_utf8_add_lossy(&compile->text, compile->output.data, compile->output.size);
    return r;
}

static void fill(struct sbx_compile *compile, const struct sbx_result *own)
{
    Crisol__Sandbox__V1__CompileResult *message = &compile->message;

    crisol__sandbox__v1__compile_result__init(message);
    message->verdict = own->message.verdict;
    message->exit_code = own->message.exit_code;
    message->signal = own->message.signal;
    message->output.data = compile->output.data;
    message->output.len = compile->output.size;
    message->output_text = cr_unconst(cr_buf_str(&compile->text));
    message->is_truncated = compile->is_truncated;
    message->usage = own->message.usage;
    message->timing = own->message.timing;
    crisol__sandbox__v1__limits__init(&compile->limits);
    sbx_limits_write(&sbx_execution_request(compile->execution)->limits, &compile->limits);
    message->limits = &compile->limits;
    message->artifact = compile->artifact;
}

int sbx_compile_tell(struct sbx_compile *compile, struct sbx_result *result)
{
    int r = join_output(compile);

    if (r == 0 && !compile->has_failed) {
        r = sbx_result_fill(&compile->result, compile->execution, &compile->policy);
        compile->has_result = true;
    }
    if (r < 0)
        return -ENOMEM;
    if (compile->has_failed) {
        name_verdict(result);
        /* What was collected is not what was asked for. */
        result->message.n_files = 0;
        result->message.phase = CRISOL__SANDBOX__V1__PHASE__PHASE_COMPILE;
    }
    fill(compile, compile->has_failed ? result : &compile->result);
    result->message.compile = &compile->message;
    return 0;
}
