/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/config.h"

#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/model/catalog.h"
#include "orchestrator/trace/tracer.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER(name) offsetof(struct agt_config, name)
#define EDGE_NUMBER(name, variable, member, least, most, standard, text)                           \
    {.flag = (name),                                                                               \
     .environment = "CRISOL_" variable,                                                            \
     .type = CR_SETTING_UINT,                                                                      \
     .offset = MEMBER(edge.member),                                                                \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .fallback = (standard),                                                                       \
     .help = (text)},
#define EDGE_TEXT(name, variable, member, standard, text)                                          \
    {.flag = (name),                                                                               \
     .environment = "CRISOL_" variable,                                                            \
     .type = CR_SETTING_STRING,                                                                    \
     .offset = MEMBER(edge.member),                                                                \
     .fallback = (standard),                                                                       \
     .help = (text)},

static const struct cr_setting settings[] = {
    {.flag = "listen",
     .environment = "CRISOL_LISTEN",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(listen),
     .fallback = "127.0.0.1:50051",
     .help = "gRPC address: HOST:PORT or unix:/path."},
    {.flag = "http",
     .environment = "CRISOL_HTTP",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(http),
     .fallback = "127.0.0.1:8000",
     .help = "REST and SSE address: HOST:PORT; empty for none."},
    {.flag = "health-listen",
     .environment = "CRISOL_HEALTH_LISTEN",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(health_listen),
     .help = "HOST:PORT for health checks alone (grpc.health.v1), in plain text and without a "
             "token, on threads of its own: for probes."},
    {.flag = "http-hosts",
     .environment = "CRISOL_HTTP_HOSTS",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(http_hosts),
     .is_list = true,
     .help = "Further name that the Host header may have; * for any. Repeatable."},
    {.flag = "http-origins",
     .environment = "CRISOL_HTTP_ORIGINS",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(http_origins),
     .is_list = true,
     .help = "Origin, https://host:port, whose pages may use REST (CORS); * for any, none without. "
             "Repeatable."},
    {.flag = "token-file",
     .environment = "CRISOL_TOKEN_FILE",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(token_file),
     .help = "File with the tokens of callers by TCP, a line 'NAME TOKEN' for each, or one TOKEN "
             "alone; closed to others. Read again when it changes. Who shows a certificate needs "
             "none."},
    {.flag = "tls-cert",
     .environment = "CRISOL_TLS_CERT",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(tls_certificate),
     .help = "PEM file with the certificate of both ports, which then speak TLS only, and the ones "
             "behind it. Read again when it changes."},
    {.flag = "tls-key",
     .environment = "CRISOL_TLS_KEY",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(tls_key),
     .help = "PEM file with its key; closed to others."},
    {.flag = "tls-client-ca",
     .environment = "CRISOL_TLS_CLIENT_CA",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(tls_client_authority),
     .help = "PEM file with the authority whose certificates callers must show."},
    {.flag = "tls-client",
     .environment = "CRISOL_TLS_CLIENT",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(tls_clients),
     .is_list = true,
     .help = "Name (DNS or URI of subjectAltName) that a caller's certificate may have; without "
             "one, any of --tls-client-ca. Repeatable."},
    {.flag = "sandbox",
     .environment = "CRISOL_SANDBOX",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(sandbox),
     .fallback = "unix:/run/crisol/sandboxd.sock",
     .help = "Where sandboxd is: unix:/path or HOST:PORT."},
    {.flag = "sandbox-tls-ca",
     .environment = "CRISOL_SANDBOX_TLS_CA",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(sandbox_authority),
     .help = "PEM file with the authority of sandboxd's certificate; sandboxd is then spoken to by "
             "TLS. Read again when it changes."},
    {.flag = "sandbox-tls-cert",
     .environment = "CRISOL_SANDBOX_TLS_CERT",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(sandbox_certificate),
     .help = "PEM file with the certificate that sandboxd is shown."},
    {.flag = "sandbox-tls-key",
     .environment = "CRISOL_SANDBOX_TLS_KEY",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(sandbox_key),
     .help = "PEM file with its key; closed to others."},
    {.flag = "sandbox-tls-name",
     .environment = "CRISOL_SANDBOX_TLS_NAME",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(sandbox_name),
     .help = "Name that sandboxd's certificate must have, where it is not the host of --sandbox."},
    {.flag = "sandbox-token-file",
     .environment = "CRISOL_SANDBOX_TOKEN_FILE",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(sandbox_token_file),
     .help = "File whose first line is the token that sandboxd asks for; read once, at the start."},
    {.flag = "provider",
     .environment = "CRISOL_PROVIDER",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(provider),
     .fallback = "gemini",
     .help = "Who answers: gemini (AI Studio), vertex (the same models on Google Cloud), or openai "
             "(any server of chat completions: Ollama, vLLM, llama.cpp)."},
    {.flag = "model-key-file",
     .environment = "CRISOL_MODEL_KEY_FILE",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(key_file),
     .help = "File whose first line is the provider's key, or an access token; wins over the "
             "environment. Read once, at the start."},
    {.flag = "openai-base-url",
     .environment = "OPENAI_BASE_URL",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(openai_base_url),
     .fallback = "http://127.0.0.1:11434/v1",
     .help = "Of provider openai: where its /v1 is; http:// only on loopback."},
    {.flag = "openai-model",
     .environment = "OPENAI_MODEL",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(openai_model),
     .help = "Of provider openai: model of runs that name none; needed."},
    {.flag = "openai-api-key",
     .environment = "OPENAI_API_KEY",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(openai_key),
     .is_secret = true,
     .help = "Of provider openai: its key, where it wants one."},
    {.flag = "vertex-project",
     .environment = "GOOGLE_CLOUD_PROJECT",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(vertex_project),
     .help = "Of provider vertex: the project, with an access token in --model-key-file; empty: an "
             "API key alone (express mode)."},
    {.flag = "vertex-location",
     .environment = "GOOGLE_CLOUD_LOCATION",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(vertex_location),
     .fallback = "global",
     .help = "Of provider vertex: the region."},
    {.flag = "gemini-api-key",
     .environment = "GEMINI_API_KEY",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(api_key),
     .is_secret = true,
     .help = "Key of the Gemini API."},
    {.flag = "gemini-model",
     .environment = "GEMINI_MODEL",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(model),
     .fallback = "gemini-2.5-flash",
     .help = "Model of runs that name none."},
    {.flag = "gemini-base-url",
     .environment = "GEMINI_BASE_URL",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(base_url),
     .help = "Another endpoint of the Gemini API (also GOOGLE_GEMINI_BASE_URL); "
             "http:// only on loopback."},
    {.flag = "receipt-key",
     .environment = "CRISOL_RECEIPT_KEY",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(receipt_key),
     .help = "File with the Ed25519 key that signs receipts (PEM, mode 0600); read once, before "
             "privileges are dropped. None: they are not signed."},
    {.flag = "model-file",
     .environment = "CRISOL_MODEL_FILE",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(model_file),
     .help = "File that says what models cost and with which parameters they are asked "
             "(docs/agent.md)."},
    {.flag = "ca-file",
     .environment = "CRISOL_CA_FILE",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(ca_file),
     .help = "CA certificates in place of the system's."},
    {.flag = "user",
     .environment = "CRISOL_USER",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(user),
     .max = UINT32_MAX - 1,
     .help = "User id to become when started as root; 0: stay."},
    {.flag = "max-runs",
     .environment = "CRISOL_MAX_RUNS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(max_runs),
     .fallback = "1000",
     .min = 1,
     .max = 100000,
     .help = "Runs at one time."},
    {.flag = "caller-runs",
     .environment = "CRISOL_CALLER_RUNS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(caller_runs),
     .fallback = "0",
     .max = 100000,
     .help = "Runs of one caller at one time; 0: no limit of its own."},
    {.flag = "caller-runs-per-minute",
     .environment = "CRISOL_CALLER_RUNS_PER_MINUTE",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(caller_rate),
     .fallback = "0",
     .max = 1000000,
     .help = "Runs that one caller may begin in a minute; 0: no limit."},
    {.flag = "model-requests",
     .environment = "CRISOL_MODEL_REQUESTS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(model_requests),
     .fallback = "4096",
     .min = 1,
     .max = 20000,
     .help = "Requests to the model at one time; further ones wait for their turn."},
    {.flag = "run-time-s",
     .environment = "CRISOL_RUN_TIME_S",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(run_time_s),
     .fallback = "1800",
     .min = 1,
     .max = 86400,
     .help = "Wall clock of one run, in seconds."},
    {.flag = "stall-same-code",
     .environment = "CRISOL_STALL_SAME_CODE",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(stall_same_code),
     .fallback = "2",
     .min = 2,
     .max = 100,
     .help = "Answers with the same code, the first included, that make a run go round in circles; "
             "where the task says nothing else (terms.stall)."},
    {.flag = "stall-same-failure",
     .environment = "CRISOL_STALL_SAME_FAILURE",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(stall_same_failure),
     .fallback = "2",
     .min = 2,
     .max = 100,
     .help = "The same for attempts that fail in the same way."},
    {.flag = "store",
     .environment = "CRISOL_STORE",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(store),
     .fallback = "none",
     .help = "Journal of runs: sqlite:/path of a file, postgresql://… without a password, or none; "
             "with one, runs outlive the process."},
    {.flag = "store-lease-ms",
     .environment = "CRISOL_STORE_LEASE_MS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(lease_ms),
     .fallback = "30000",
     .min = 1000,
     .max = 3600000,
     .help = "How long a run in PostgreSQL stays with a process that is not heard of."},
    {.flag = "store-free-mib",
     .environment = "CRISOL_STORE_FREE_MIB",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(store_free_mib),
     .fallback = "256",
     .min = 1,
     .max = 1048576,
     .help = "Room on the journal's disk below which new runs are refused, in MiB."},
    {.flag = "keep-runs",
     .environment = "CRISOL_KEEP_RUNS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(keep_runs),
     .fallback = "1000",
     .min = 1,
     .max = 1000000,
     .help = "Ended runs that can still be asked for."},
    {.flag = "keep-mib",
     .environment = "CRISOL_KEEP_MIB",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(keep_mib),
     .fallback = "256",
     .min = 1,
     .max = 1048576,
     .help = "Memory for the events of ended runs, in MiB."},
    {.flag = "keep-s",
     .environment = "CRISOL_KEEP_S",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(keep_s),
     .fallback = "86400",
     .min = 1,
     .max = 31536000,
     .help = "How long ended runs can be asked for, in seconds."},
    {.flag = "drain-delay-ms",
     .environment = "CRISOL_DRAIN_DELAY_MS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(drain_delay_ms),
     .fallback = "0",
     .max = 600000,
     .help = "How long calls are still taken after SIGTERM, while health says NOT_SERVING: so long "
             "do callers need to see it."},
    {.flag = "grace-ms",
     .environment = "CRISOL_GRACE_MS",
     .type = CR_SETTING_UINT,
     .offset = MEMBER(grace_ms),
     .fallback = "10000",
     .max = 3600000,
     .help = "How long live runs may go on after SIGTERM."},
    {.flag = "check-model",
     .type = CR_SETTING_BOOL,
     .is_action = true,
     .offset = MEMBER(must_check),
     .help = "Ask the model for one word with one request, print who answered, and end."},
    {.flag = "check-config",
     .type = CR_SETTING_BOOL,
     .is_action = true,
     .offset = MEMBER(must_check_config),
     .help = "Print the settings that would be in force, say whether they are well formed, and "
             "end."},
    {.flag = "otlp-endpoint",
     .environment = "OTEL_EXPORTER_OTLP_ENDPOINT",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(otlp_endpoint),
     .help = "Where spans go by OTLP/HTTP (JSON), e.g. http://127.0.0.1:4318; none without it."},
    {.flag = "otlp-headers",
     .environment = "OTEL_EXPORTER_OTLP_HEADERS",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(otlp_headers),
     .is_secret = true,
     .help = "Headers for the collector, NAME=VALUE,NAME=VALUE."},
    {.flag = "otlp-service",
     .environment = "OTEL_SERVICE_NAME",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(otlp_service),
     .fallback = "crisol-orchestrator",
     .help = "Name of the service in its spans."},
    {.flag = "log-level",
     .environment = "CRISOL_LOG_LEVEL",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(log_level),
     .fallback = "info",
     .help = "error, warn, info or debug."},
    {.flag = "log-format",
     .environment = "CRISOL_LOG_FORMAT",
     .type = CR_SETTING_STRING,
     .offset = MEMBER(log_format),
     .fallback = "text",
     .help = "text or json."},
    CR_EDGE_SETTINGS_TABLE(EDGE_NUMBER, EDGE_TEXT)};

static const struct cr_config_program program = {
    .settings = settings,
    .count = CR_ARRAY_SIZE(settings),
    .name = "orchestrator",
    .description =
        "Turns tasks into code that passed its tests; serves gRPC (crisol.agent.v1), REST and SSE.\n"
        "Runs the tests through sandboxd, calls a model over HTTPS, and needs no privilege.",
    .prefix = "CRISOL_",
};

bool agt_config_is_postgres(const char *store)
{
    return strncmp(store, "postgresql://", 13) == 0 || strncmp(store, "postgres://", 11) == 0;
}

/* Before anything is logged: command lines and logs are no place for it. */
static int check_store(const char *store, struct cr_err *err)
{
    const char *host = strstr(store, "://");
    const char *at = host ? strchr(host + 3, '@') : NULL;

    if (!agt_config_is_postgres(store) || (!strstr(store, "password") && !strstr(store, "%") &&
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

int agt_config_load(int argc, char **argv, struct agt_config *config, struct cr_err *err)
{
    int r = cr_config_load_program(&program, argc, argv, config, err);
    const char *google = secure_getenv("GOOGLE_GEMINI_BASE_URL");

    if (r == 0)
        r = cr_edge_parse(&config->edge, &config->limits, err);
    if (r != 0)
        return r;
    r = check_store(config->store, err);
    if (r == 0)
        r = check_provider(config, err);
    if (r == 0)
        r = check_links(config, err);
    if (r == 0 && config->otlp_endpoint && config->otlp_endpoint[0])
        r = agt_tracer_check(config->otlp_endpoint, config->otlp_headers, err);
    if (r < 0)
        return r;
    /* The name that Google's own libraries read. */
    if (!config->base_url && google && google[0]) {
        config->base_url = strdup(google);
        if (!config->base_url)
            return cr_err_set(err, ENOMEM, "out of memory for GOOGLE_GEMINI_BASE_URL");
    }
    r = cr_log_setup_by_name("orchestrator", config->log_level, config->log_format, err);
    if (r < 0 || !config->must_check_config)
        return r;
    cr_config_print(settings, CR_ARRAY_SIZE(settings), config);
    return 1;
}

void agt_config_done(struct agt_config *config)
{
    if (config->file_key)
        explicit_bzero(config->file_key, strlen(config->file_key));
    free(config->file_key);
    config->file_key = NULL;
    config->catalog = agt_catalog_free(config->catalog);
    cr_config_done(settings, CR_ARRAY_SIZE(settings), config);
}

void agt_config_log(const struct agt_config *config)
{
    cr_config_log(settings, CR_ARRAY_SIZE(settings), config);
}
