/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/http.h"
#include "orchestrator/model/key.h"
#include "orchestrator/model/model.h"

struct agt_dialect;

/* Inside of the model client: a provider's settings, and one call. Only provider.c, call.c,
 * call_attempt.c and list.c include this. */

struct agt_provider {
    struct agt_model model; /* first */
    const struct agt_dialect *dialect;
    struct agt_http_client *http;
    char *base_url;
    char *host;
    char *default_model;
    struct agt_keyring keyring;
    uint32_t connect_timeout_ms;
    uint32_t first_byte_timeout_ms;
    uint32_t idle_timeout_ms;
    uint32_t max_attempts;
    uint32_t first_retry_delay_ms;
};

/*
 * Checks and starts a call. Returns as agt_model_ops.start; on success the
 * reference is the caller's.
 */
int agt_provider_call_start(struct agt_provider *provider, const struct agt_model_request *request,
                            const struct agt_model_handlers *handlers,
                            struct agt_model_call **ret_call, struct cr_err *err);

void agt_provider_call_cancel(struct agt_model_call *call);

/* NULL is allowed. */
void agt_provider_call_unref(struct agt_model_call *call);
