/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/model/call.h"
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t CONNECT_TIMEOUT_MS = 10000;
static const uint32_t FIRST_BYTE_TIMEOUT_MS = 120000;
static const uint32_t IDLE_TIMEOUT_MS = 60000;
static const uint32_t MAX_ATTEMPTS = 4;
static const uint32_t FIRST_RETRY_DELAY_MS = 1000;
static const uint32_t MAX_HOST_CONNECTIONS = 64;

static struct agt_provider *self(struct agt_model *model)
{
    return (struct agt_provider *)model; /* its first member */
}

static bool is_configured(const struct agt_model *model)
{
    const struct agt_provider *provider = (const struct agt_provider *)model;

    return provider->keyring.has_key || !provider->dialect->needs_key;
}

static int start(struct agt_model *model, const struct agt_model_request *request,
                 const struct agt_model_handlers *handlers, struct agt_model_call **ret_call,
                 struct cr_err *err)
{
    struct agt_provider *provider = self(model);

    if (!is_configured(model))
        return cr_err_set(err, ENOKEY, "%s", agt_gemini_no_key_help);
    return agt_provider_call_start(provider, request, handlers, ret_call, err);
}

static int list(struct agt_model *model, int64_t deadline_ns,
                void (*on_list)(void *user, const struct agt_model_list *list), void *user,
                struct cr_err *err)
{
    if (!is_configured(model))
        return cr_err_set(err, ENOKEY, "%s", agt_gemini_no_key_help);
    return agt_provider_list(self(model), deadline_ns, on_list, user, err);
}

static const char *default_model(const struct agt_model *model)
{
    return ((const struct agt_provider *)model)->default_model;
}

static uint64_t turns(const struct agt_model *model)
{
    return agt_http_client_turns(((const struct agt_provider *)model)->http);
}

static void free_provider(struct agt_model *model)
{
    struct agt_provider *provider = self(model);

    if (!provider)
        return;
    (void)agt_http_client_free(provider->http);
    free(provider->base_url);
    free(provider->host);
    free(provider->default_model);
    agt_keyring_done(&provider->keyring);
    free(provider);
}

static const struct agt_model_ops provider_ops = {
    .start = start,
    .cancel = agt_provider_call_cancel,
    .unref = agt_provider_call_unref,
    .list = list,
    .default_model = default_model,
    .is_configured = is_configured,
    .turns = turns,
    .free = free_provider,
};

static bool is_set(const char *text)
{
    return text && *text;
}

static int take_key(struct agt_provider *provider, const struct agt_model_options *options,
                    struct cr_err *err)
{
    const char *prefix =
        options->is_bearer ? "Authorization: Bearer " : provider->dialect->key_header;

    provider->keyring.name = provider->dialect->names->key;
    provider->keyring.prefix = prefix;
    return agt_keyring_init(&provider->keyring, is_set(options->api_key) ? options->api_key : NULL,
                            is_set(options->key_file) ? options->key_file : NULL, err);
}

static int take_options(struct agt_provider *provider, const struct agt_model_options *options,
                        struct cr_err *err)
{
    const struct agt_dialect *dialect = provider->dialect;
    const char *base_url = is_set(options->base_url) ? options->base_url : dialect->default_url;
    const char *model = is_set(options->model) ? options->model : dialect->default_model;
    int r = take_key(provider, options, err);

    if (r < 0)
        return r;
    r = agt_http_check_url(base_url, &provider->host, err);
    if (r < 0)
        return cr_err_wrap(err, "%s '%.100s'", dialect->names->base_url, base_url);
    if (strpbrk(base_url, "?#"))
        return cr_err_set(err, EINVAL, "%s '%.100s': has a query in it", dialect->names->base_url,
                          base_url);
    if (!model)
        return cr_err_set(err, EINVAL, "%s is needed: the name of the model",
                          dialect->names->model);
    if (!dialect->is_model_valid(model))
        return cr_err_set(err, EINVAL, "%s '%.64s' has characters that no model has",
                          dialect->names->model, model);
    provider->base_url = strdup(base_url);
    provider->default_model = strdup(model);
    if (!provider->base_url || !provider->default_model)
        return cr_err_set(err, ENOMEM, "out of memory for the model's settings");
    return 0;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static int open_all(struct agt_provider *provider, const struct agt_model_options *options,
                    struct cr_err *err)
{
    struct agt_http_client_options http = {.ca_file = options->ca_file,
                                           .proxy = options->proxy,
                                           .max_in_flight = options->max_requests};
    int r = take_options(provider, options, err);

    if (r < 0)
        return r;
    provider->connect_timeout_ms = or_default(options->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    provider->first_byte_timeout_ms =
        or_default(options->first_byte_timeout_ms, FIRST_BYTE_TIMEOUT_MS);
    provider->idle_timeout_ms = or_default(options->idle_timeout_ms, IDLE_TIMEOUT_MS);
    provider->max_attempts = or_default(options->max_attempts, MAX_ATTEMPTS);
    provider->first_retry_delay_ms =
        or_default(options->first_retry_delay_ms, FIRST_RETRY_DELAY_MS);
    /* Over TLS, HTTP/2 lets a hundred streams share a connection. */
    if (strncmp(provider->base_url, "https:", 6) == 0)
        http.max_host_connections = MAX_HOST_CONNECTIONS;
    return agt_http_client_new(&http, &provider->http, err);
}

int agt_provider_new(const struct agt_dialect *dialect, const struct agt_model_options *options,
                     struct agt_model **ret_model, struct cr_err *err)
{
    struct agt_provider *provider = calloc(1, sizeof(*provider));
    int r;

    if (!provider)
        return cr_err_set(err, ENOMEM, "out of memory for the model client");
    provider->model.ops = &provider_ops;
    provider->dialect = dialect;
    r = open_all(provider, options, err);
    if (r < 0) {
        free_provider(&provider->model);
        return r;
    }
    *ret_model = &provider->model;
    return 0;
}
