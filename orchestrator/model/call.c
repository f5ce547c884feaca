/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/model/call_parts.h"
#include "orchestrator/model/dialect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void call_free(struct agt_model_call *call)
{
    (void)pthread_mutex_destroy(&call->lock);
    agt_attempt_done(call);
    (void)agt_key_unref(call->key);
    free(call->model);
    free(call->url);
    free(call->body);
    free(call);
}

static int call_new(struct agt_provider *provider, const struct agt_model_request *request,
                    const struct agt_model_handlers *handlers, struct agt_model_call **ret_call,
                    struct cr_err *err)
{
    const struct agt_dialect *dialect = provider->dialect;
    const char *model =
        request->model && *request->model ? request->model : provider->default_model;
    struct agt_model_call *call;
    char *body = NULL;
    int r;

    if (!dialect->is_model_valid(model))
        return cr_err_set(err, EINVAL, "the model name '%.64s' has characters that none has",
                          model);
    r = dialect->request_json(request, model, &body, err);
    if (r < 0)
        return r;
    call = calloc(1, sizeof(*call));
    if (!call) {
        free(body);
        return cr_err_set(err, ENOMEM, "out of memory for a call of the model");
    }
    atomic_init(&call->refs, 2); /* one for the loop, one for the caller */
    (void)pthread_mutex_init(&call->lock, NULL);
    call->provider = provider;
    call->key = agt_keyring_get(&provider->keyring);
    call->handlers = *handlers;
    call->body = body;
    call->started_ns = cr_clock_mono_ns();
    call->deadline_ns = request->deadline_ns;
    call->max_attempts = provider->max_attempts;
    if (request->max_calls != 0 && request->max_calls < call->max_attempts)
        call->max_attempts = request->max_calls;
    (void)snprintf(call->purpose, sizeof(call->purpose), "%s",
                   request->purpose ? request->purpose : "");
    call->model = strdup(model);
    agt_attempt_init(call);
    if (request->wants_variety)
        agt_attempt_vary(call);
    if (!call->model || dialect->url(provider->base_url, model, AGT_TARGET_ASK, &call->url) < 0) {
        call_free(call);
        return cr_err_set(err, ENOMEM, "out of memory for a call of the model");
    }
    *ret_call = call;
    return 0;
}

int agt_provider_call_start(struct agt_provider *provider, const struct agt_model_request *request,
                            const struct agt_model_handlers *handlers,
                            struct agt_model_call **ret_call, struct cr_err *err)
{
    struct agt_model_call *call = NULL;
    int r = call_new(provider, request, handlers, &call, err);

    if (!call)
        return r;
    r = agt_attempt_send(call, 0, err);
    if (r < 0) {
        call_free(call); /* nobody else has seen it */
        return r;
    }
    *ret_call = call;
    return 0;
}

void agt_provider_call_cancel(struct agt_model_call *call)
{
    (void)pthread_mutex_lock(&call->lock);
    call->is_cancelled = true;
    if (call->request)
        agt_http_cancel(call->request);
    (void)pthread_mutex_unlock(&call->lock);
}

void agt_provider_call_unref(struct agt_model_call *call)
{
    if (call && atomic_fetch_sub(&call->refs, 1) == 1)
        call_free(call);
}
