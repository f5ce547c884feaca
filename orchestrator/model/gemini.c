/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config.h"
#include "common/err.h"
#include "orchestrator/model/gemini_call.h"
#include "orchestrator/model/gemini_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PUBLIC_URL[] = "https://generativelanguage.googleapis.com";
static const char DEFAULT_MODEL[] = "gemini-2.5-flash";
static const uint32_t CONNECT_TIMEOUT_MS = 10000;
static const uint32_t FIRST_BYTE_TIMEOUT_MS = 120000;
static const uint32_t IDLE_TIMEOUT_MS = 60000;
static const uint32_t MAX_ATTEMPTS = 4;
static const uint32_t FIRST_RETRY_DELAY_MS = 1000;
static const uint32_t MAX_HOST_CONNECTIONS = 64;

static void wipe_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static struct agt_gemini *self(struct agt_model *model)
{
    return (struct agt_gemini *)model; /* its first member */
}

static int gemini_start(struct agt_model *model, const struct agt_model_request *request,
                        const struct agt_model_handlers *handlers, struct agt_model_call **ret_call,
                        struct cr_err *err)
{
    struct agt_gemini *gemini = self(model);

    if (!gemini->key)
        return cr_err_set(err, ENOKEY, "%s", agt_gemini_no_key_help);
    return agt_gemini_call_start(gemini, request, handlers, ret_call, err);
}

static const char *gemini_default_model(const struct agt_model *model)
{
    return ((const struct agt_gemini *)model)->default_model;
}

static bool gemini_is_configured(const struct agt_model *model)
{
    return ((const struct agt_gemini *)model)->key != NULL;
}

static void gemini_free(struct agt_model *model)
{
    struct agt_gemini *gemini = self(model);

    if (!gemini)
        return;
    (void)agt_http_client_free(gemini->http);
    free(gemini->base_url);
    free(gemini->host);
    free(gemini->default_model);
    wipe_free(gemini->key);
    wipe_free(gemini->key_header);
    free(gemini);
}

static const struct agt_model_ops gemini_ops = {
    .start = gemini_start,
    .cancel = agt_gemini_call_cancel,
    .unref = agt_gemini_call_unref,
    .default_model = gemini_default_model,
    .is_configured = gemini_is_configured,
    .free = gemini_free,
};

static bool is_set(const char *text)
{
    return text && *text;
}

/* Not by asprintf: it works in a buffer of its own and gives that back with the key in it. */
static char *make_key_header(const char *key)
{
    static const char name[] = "x-goog-api-key: ";
    size_t size = strlen(key) + 1;
    char *header = malloc(sizeof(name) - 1 + size);

    if (!header)
        return NULL;
    memcpy(header, name, sizeof(name) - 1);
    memcpy(header + sizeof(name) - 1, key, size);
    return header;
}

/* A line break in the key would add a header of its own. */
static int take_key(struct agt_gemini *gemini, const char *key, struct cr_err *err)
{
    for (const char *at = key; *at; at++) {
        if (*at <= ' ' || *at > '~')
            return cr_err_set(err, EINVAL,
                              "GEMINI_API_KEY has a blank or an unprintable character in it");
    }
    gemini->key = strdup(key);
    gemini->key_header = make_key_header(key);
    if (!gemini->key || !gemini->key_header)
        return cr_err_set(err, ENOMEM, "out of memory for the model's key");
    return 0;
}

static int take_options(struct agt_gemini *gemini, const struct agt_gemini_options *options,
                        struct cr_err *err)
{
    const char *base_url = is_set(options->base_url) ? options->base_url : PUBLIC_URL;
    const char *model = is_set(options->model) ? options->model : DEFAULT_MODEL;
    int r = agt_http_check_url(base_url, &gemini->host, err);

    if (r < 0)
        return cr_err_wrap(err, "GEMINI_BASE_URL '%.100s'", base_url);
    if (strpbrk(base_url, "?#"))
        return cr_err_set(err, EINVAL, "GEMINI_BASE_URL '%.100s': has a query in it", base_url);
    if (!agt_gemini_model_is_valid(model))
        return cr_err_set(err, EINVAL, "GEMINI_MODEL '%.64s' has characters that no model has",
                          model);
    if (is_set(options->api_key)) {
        r = take_key(gemini, options->api_key, err);
        if (r < 0)
            return r;
    }
    gemini->base_url = strdup(base_url);
    gemini->default_model = strdup(model);
    if (!gemini->base_url || !gemini->default_model)
        return cr_err_set(err, ENOMEM, "out of memory for the model's settings");
    return 0;
}

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static int open_all(struct agt_gemini *gemini, const struct agt_gemini_options *options,
                    struct cr_err *err)
{
    struct agt_http_client_options http = {.ca_file = options->ca_file,
                                           .proxy = options->proxy,
                                           .max_in_flight = options->max_requests};
    int r = take_options(gemini, options, err);

    if (r < 0)
        return r;
    gemini->connect_timeout_ms = or_default(options->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    gemini->first_byte_timeout_ms =
        or_default(options->first_byte_timeout_ms, FIRST_BYTE_TIMEOUT_MS);
    gemini->idle_timeout_ms = or_default(options->idle_timeout_ms, IDLE_TIMEOUT_MS);
    gemini->max_attempts = or_default(options->max_attempts, MAX_ATTEMPTS);
    gemini->first_retry_delay_ms = or_default(options->first_retry_delay_ms, FIRST_RETRY_DELAY_MS);
    gemini->headers[0] = "Content-Type: application/json";
    gemini->headers[1] = "Accept: text/event-stream";
    gemini->headers[2] = "User-Agent: crisol/" CR_VERSION;
    gemini->headers[3] = gemini->key_header; /* NULL, the end, without a key */
    /* Over TLS, HTTP/2 lets a hundred streams share a connection. */
    if (strncmp(gemini->base_url, "https:", 6) == 0)
        http.max_host_connections = MAX_HOST_CONNECTIONS;
    return agt_http_client_new(&http, &gemini->http, err);
}

int agt_gemini_new(const struct agt_gemini_options *options, struct agt_model **ret_model,
                   struct cr_err *err)
{
    struct agt_gemini *gemini = calloc(1, sizeof(*gemini));
    int r;

    if (!gemini)
        return cr_err_set(err, ENOMEM, "out of memory for the model client");
    gemini->model.ops = &gemini_ops;
    r = open_all(gemini, options, err);
    if (r < 0) {
        gemini_free(&gemini->model);
        return r;
    }
    *ret_model = &gemini->model;
    return 0;
}
