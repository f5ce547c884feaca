/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/config.h"

#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/log.h"
#include "orchestrator/config_table.h"
#include "orchestrator/model/catalog.h"
#include "orchestrator/trace/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool agt_config_is_postgres(const char *store)
{
    return strncmp(store, "postgresql://", 13) == 0 || strncmp(store, "postgres://", 11) == 0;
}

/* Before anything is logged: command lines and logs are no place for a password. */
static int check_store(const char *store, struct cr_err *err)
{
    const char *host = strstr(store, "://");
    const char *at = host ? strchr(host + 3, '@') : NULL;

    if (strcmp(store, "none") == 0 || strncmp(store, "sqlite:/", 8) == 0)
        return 0;
    if (!agt_config_is_postgres(store))
        return cr_err_set(err, EINVAL,
                          "store: it is neither 'none', nor 'sqlite:' with an absolute path, nor "
                          "'postgresql://…'");
    if ((!strstr(store, "password") && !strstr(store, "%") &&
         !(at && memchr(host + 3, ':', (size_t)(at - host - 3)))))
        return 0;
    return cr_err_set(err, EINVAL,
                      "store: a password must not stand in the address (nor a '%%', which could "
                      "hide one); put it into a password file, …?passfile=/path, or use a service "
                      "file, …?service=name with PGSERVICEFILE");
}

static int read_key_file(struct agt_config *config, struct cr_err *err)
{
    int r;

    if (!config->key_file || !config->key_file[0])
        return 0;
    r = cr_config_read_secret(config->key_file, &config->file_key, err);
    return r < 0 ? cr_err_wrap(err, "model-key-file") : 0;
}

static int check_provider(struct agt_config *config, struct cr_err *err)
{
    bool is_openai = strcmp(config->provider, "openai") == 0;

    if (!is_openai && strcmp(config->provider, "gemini") != 0 &&
        strcmp(config->provider, "vertex") != 0)
        return cr_err_set(err, EINVAL,
                          "provider: '%.40s' is none of 'gemini', 'vertex' and 'openai'",
                          config->provider);
    if (is_openai && (!config->openai_model || !config->openai_model[0]))
        return cr_err_set(err, EINVAL,
                          "openai-model: provider 'openai' needs the name of a model, e.g. "
                          "OPENAI_MODEL=qwen2.5-coder:7b");
    if (config->model_file && config->model_file[0]) {
        int r = agt_catalog_load(config->model_file, &config->catalog, err);

        if (r < 0)
            return r;
    }
    return read_key_file(config, err);
}

static bool is_empty(const char *text)
{
    return !text || !text[0];
}

static int check_addresses(const struct agt_config *config, struct cr_err *err)
{
    const struct {
        const char *name;
        const char *address;
    } addresses[] = {
        {"listen", config->listen},
        {"http", config->http},
        {"health-listen", config->health_listen},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(addresses); i++) {
        if (!is_empty(addresses[i].address) && cr_listen_check(addresses[i].address, err) < 0)
            return cr_err_wrap(err, "%s", addresses[i].name);
    }
    return 0;
}

/* As a browser sends it: SCHEME://HOST or SCHEME://HOST:PORT, and nothing behind it. */
static bool is_origin(const char *text, size_t size)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    size_t scheme = strspn(text, letters);
    size_t host = scheme + 3;

    if (scheme == 0 || host >= size || strncmp(text + scheme, "://", 3) != 0)
        return false;
    host += text[host] == '[' ? strcspn(text + host, "],") + 1 : strspn(text + host, letters);
    if (host <= scheme + 3 || host > size)
        return false;
    return host == size || (text[host] == ':' && host + 1 < size &&
                            host + 1 + strspn(text + host + 1, "0123456789") == size);
}

/* One that no browser sends would let nobody in, and nobody would know why. */
static int check_origins(const char *list, struct cr_err *err)
{
    if (is_empty(list) || strcmp(list, "*") == 0)
        return 0;
    while (*list) {
        size_t size;

        list += strspn(list, ", \t");
        size = strcspn(list, ", \t");
        if (size > 0 && !is_origin(list, size))
            return cr_err_set(err, EINVAL,
                              "http-origins: '%.*s' is no origin; write SCHEME://HOST or "
                              "SCHEME://HOST:PORT with nothing behind it, or * alone",
                              (int)(size < 80 ? size : 80), list);
        list += size;
    }
    return 0;
}

/* What one row of the table cannot say. */
static int check_links(const struct agt_config *config, struct cr_err *err)
{
    if (is_empty(config->tls_certificate) != is_empty(config->tls_key))
        return cr_err_set(err, EINVAL, "tls-cert and tls-key: one is of no use alone");
    if (!is_empty(config->tls_client_authority) && is_empty(config->tls_certificate))
        return cr_err_set(err, EINVAL, "tls-client-ca: needs tls-cert and tls-key");
    if (!is_empty(config->tls_clients) && is_empty(config->tls_client_authority))
        return cr_err_set(err, EINVAL, "tls-client: needs tls-client-ca");
    if (is_empty(config->sandbox_certificate) != is_empty(config->sandbox_key))
        return cr_err_set(err, EINVAL,
                          "sandbox-tls-cert and sandbox-tls-key: one is of no use alone");
    if (is_empty(config->sandbox_authority) &&
        !(is_empty(config->sandbox_certificate) && is_empty(config->sandbox_name)))
        return cr_err_set(err, EINVAL,
                          "sandbox-tls-cert and sandbox-tls-name: need sandbox-tls-ca");
    return 0;
}

const char *agt_config_model_url(const struct agt_config *config)
{
    return strcmp(config->provider, "openai") == 0 ? config->openai_base_url : config->base_url;
}

/* A name that Google's own libraries read, where nothing else was said. */
static int take_name(char **value, const char *name, struct cr_err *err)
{
    const char *text = secure_getenv(name);

    if (!is_empty(*value) || is_empty(text))
        return 0;
    free(*value);
    *value = strdup(text);
    return *value ? 0 : cr_err_set(err, ENOMEM, "out of memory for %s", name);
}

static int take_names(struct agt_config *config, struct cr_err *err)
{
    int r = take_name(&config->api_key, "GOOGLE_API_KEY", err);

    if (r == 0 && strcmp(config->provider, "vertex") == 0)
        r = take_name(&config->base_url, "GOOGLE_VERTEX_BASE_URL", err);
    return r == 0 ? take_name(&config->base_url, "GOOGLE_GEMINI_BASE_URL", err) : r;
}

int agt_config_load(int argc, char **argv, struct agt_config *config, struct cr_err *err)
{
    int r = cr_config_load_program(&agt_config_program, argc, argv, config, err);

    if (r == 0)
        r = cr_edge_parse(&config->edge, &config->limits, err);
    if (r != 0)
        return r;
    r = check_store(config->store, err);
    if (r == 0)
        r = check_addresses(config, err);
    if (r == 0)
        r = check_provider(config, err);
    if (r == 0)
        r = check_links(config, err);
    if (r == 0)
        r = check_origins(config->http_origins, err);
    if (r == 0 && config->otlp_endpoint && config->otlp_endpoint[0])
        r = agt_tracer_check(config->otlp_endpoint, config->otlp_headers, err);
    if (r < 0)
        return r;
    r = take_names(config, err);
    if (r < 0)
        return r;
    return cr_log_setup_by_name("orchestrator", config->log_level, config->log_format, err);
}

void agt_config_done(struct agt_config *config)
{
    if (config->file_key)
        explicit_bzero(config->file_key, strlen(config->file_key));
    free(config->file_key);
    config->file_key = NULL;
    config->catalog = agt_catalog_free(config->catalog);
    cr_config_done(agt_config_program.settings, agt_config_program.count, config);
}

void agt_config_log(const struct agt_config *config)
{
    cr_config_log(agt_config_program.settings, agt_config_program.count, config);
}
