/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trace/tracer.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/metrics.h"
#include "orchestrator/trace/otlp.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#define QUEUE_MAX 2048
#define BATCH_MAX 512
#define GATHER_MS 1000    /* from the first span of a batch to its departure */
#define SEND_MS 5000      /* one attempt */
#define LAST_SEND_MS 2000 /* at the end */
#define RETRY_MIN_MS 1000 /* doubled from attempt to attempt */
#define RETRY_MAX_MS 30000
#define ANSWER_MAX 65536 /* more of an answer cuts it off */
#define URL_MAX 1024
#define PATH "/v1/traces"

/* What became of spans. */
enum fate {
    SENT,
    DROPPED, /* the queue was full */
    FAILED,  /* the collector did not want them, or the end came before */
    FATE_COUNT,
};

static const char *const fate_names[FATE_COUNT] = {"sent", "dropped", "failed"};

struct agt_tracer {
    CURL *curl;
    struct curl_slist *headers;
    char url[URL_MAX];
    char *service;
    size_t answer_size; /* of the attempt at hand; the tracer's thread */
    bool is_away;       /* said once; the tracer's thread */
    pthread_t thread;

    pthread_mutex_t lock; /* guards below */
    pthread_cond_t changed;
    struct agt_span *queue; /* a ring of QUEUE_MAX */
    size_t first;
    size_t count;
    uint64_t fates[FATE_COUNT];
    bool is_stopping;
};

/* ---- settings ---- */

int agt_tracer_check(const char *endpoint, const char *headers, struct cr_err *err)
{
    const char *host = strstr(endpoint, "://");
    bool has_scheme = strncmp(endpoint, "http://", 7) == 0 || strncmp(endpoint, "https://", 8) == 0;

    if (!has_scheme || host[3] == '\0' || strlen(endpoint) + sizeof(PATH) > URL_MAX ||
        strpbrk(endpoint, "@?# \t\r\n"))
        return cr_err_set(err, EINVAL,
                          "otlp-endpoint: '%.80s' is not http(s)://HOST:PORT, without user, query "
                          "and fragment",
                          endpoint);
    for (const char *at = headers; at && *at; at += strcspn(at, ",") + (strchr(at, ',') ? 1 : 0)) {
        size_t size = strcspn(at, ",");

        if (!memchr(at, '=', size) || *at == '=' || memchr(at, '\n', size) ||
            memchr(at, '\r', size))
            return cr_err_set(err, EINVAL, "otlp-headers: is not NAME=VALUE,NAME=VALUE");
    }
    return 0;
}

/* ---- sending, on the tracer's thread ---- */

/* NOLINTNEXTLINE(readability-non-const-parameter): curl says what it looks like */
static size_t on_answer(char *data, size_t size, size_t count, void *user)
{
    struct agt_tracer *tracer = user;

    (void)data;
    tracer->answer_size += size * count;
    return tracer->answer_size > ANSWER_MAX ? 0 : size * count;
}

/* True for what may go better next time (OTLP specification, "Retryable Response Codes"). */
static bool is_passing(CURLcode code, long status)
{
    return code != CURLE_OK || status == 429 || status == 502 || status == 503 || status == 504;
}

/* Returns SENT, FAILED, or FATE_COUNT to try again. */
static enum fate post(struct agt_tracer *tracer, const char *body, long timeout_ms)
{
    long status = 0;
    CURLcode code;

    tracer->answer_size = 0;
    (void)curl_easy_setopt(tracer->curl, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(tracer->curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    code = curl_easy_perform(tracer->curl);
    if (code == CURLE_WRITE_ERROR) /* cut off by on_answer: its status counts */
        code = CURLE_OK;
    (void)curl_easy_getinfo(tracer->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status >= 200 && status < 300) {
        tracer->is_away = false;
        return SENT;
    }
    if (!tracer->is_away)
        cr_log_warn("spans cannot be sent, %s error=\"%s\" status=%ld",
                    is_passing(code, status) ? "trying again" : "dropping them",
                    curl_easy_strerror(code), status);
    tracer->is_away = true;
    return is_passing(code, status) ? FATE_COUNT : FAILED;
}

static void note(struct agt_tracer *tracer, enum fate fate, size_t count)
{
    (void)pthread_mutex_lock(&tracer->lock);
    tracer->fates[fate] += count;
    (void)pthread_mutex_unlock(&tracer->lock);
}

static struct timespec in_ms(int64_t ms)
{
    int64_t due_ns = cr_clock_mono_ns() + ms * CR_NS_PER_MS;

    return (struct timespec){.tv_sec = due_ns / CR_NS_PER_S, .tv_nsec = due_ns % CR_NS_PER_S};
}

/* Sleeps, at most until the end. True when it has come. */
static bool rest(struct agt_tracer *tracer, int64_t ms)
{
    struct timespec due = in_ms(ms);
    bool is_stopping;

    (void)pthread_mutex_lock(&tracer->lock);
    while (!tracer->is_stopping &&
           pthread_cond_timedwait(&tracer->changed, &tracer->lock, &due) != ETIMEDOUT)
        ;
    is_stopping = tracer->is_stopping;
    (void)pthread_mutex_unlock(&tracer->lock);
    return is_stopping;
}

/* Meanwhile the queue may fill up: what does not fit is dropped there. True when it was taken. */
static bool send_batch(struct agt_tracer *tracer, const struct agt_span *spans, size_t count,
                       bool is_last)
{
    CR_AUTO_FREE char *body = agt_otlp_write(tracer->service, CR_VERSION, spans, count);
    int64_t wait_ms = RETRY_MIN_MS;
    enum fate fate = body ? post(tracer, body, is_last ? LAST_SEND_MS : SEND_MS) : FAILED;

    while (fate == FATE_COUNT && !is_last) {
        is_last = rest(tracer, wait_ms);
        fate = post(tracer, body, is_last ? LAST_SEND_MS : SEND_MS);
        wait_ms = wait_ms * 2 < RETRY_MAX_MS ? wait_ms * 2 : RETRY_MAX_MS;
    }
    note(tracer, fate == FATE_COUNT ? FAILED : fate, count);
    return fate == SENT;
}

/* Waits for a batch that is full, or old enough. Returns its size; 0 at the end. */
static size_t take_batch(struct agt_tracer *tracer, struct agt_span batch[BATCH_MAX],
                         bool *ret_is_last)
{
    struct timespec due;
    size_t count;

    (void)pthread_mutex_lock(&tracer->lock);
    while (tracer->count == 0 && !tracer->is_stopping)
        (void)pthread_cond_wait(&tracer->changed, &tracer->lock);
    due = in_ms(GATHER_MS);
    while (tracer->count < BATCH_MAX && !tracer->is_stopping &&
           pthread_cond_timedwait(&tracer->changed, &tracer->lock, &due) != ETIMEDOUT)
        ;
    count = tracer->count < BATCH_MAX ? tracer->count : BATCH_MAX;
    /* cppcheck-suppress knownConditionTrueFalse ; another thread counts, while we wait */
    for (size_t i = 0; i < count; i++)
        batch[i] = tracer->queue[(tracer->first + i) % QUEUE_MAX];
    tracer->first = (tracer->first + count) % QUEUE_MAX;
    tracer->count -= count;
    *ret_is_last = tracer->is_stopping;
    (void)pthread_mutex_unlock(&tracer->lock);
    return count;
}

static void *send_all(void *user)
{
    struct agt_tracer *tracer = user;
    struct agt_span *batch = calloc(BATCH_MAX, sizeof(*batch));
    bool is_last = false;
    size_t count;

    while (batch && (count = take_batch(tracer, batch, &is_last)) > 0) {
        if (!send_batch(tracer, batch, count, is_last) && is_last)
            break;
    }
    free(batch);
    return NULL;
}

/* ---- any thread ---- */

void agt_tracer_add(struct agt_tracer *tracer, const struct agt_span *span)
{
    if (!tracer || !(span->trace.flags & CR_TRACE_SAMPLED))
        return;
    (void)pthread_mutex_lock(&tracer->lock);
    if (tracer->count == QUEUE_MAX) {
        tracer->fates[DROPPED]++;
    } else {
        tracer->queue[(tracer->first + tracer->count++) % QUEUE_MAX] = *span;
        /* The thread waits for the first and for a full batch. */
        if (tracer->count == 1 || tracer->count >= BATCH_MAX)
            (void)pthread_cond_signal(&tracer->changed);
    }
    (void)pthread_mutex_unlock(&tracer->lock);
}

void agt_tracer_write(struct agt_tracer *tracer, struct cr_metrics *metrics)
{
    uint64_t fates[FATE_COUNT] = {0};

    if (tracer) {
        (void)pthread_mutex_lock(&tracer->lock);
        memcpy(fates, tracer->fates, sizeof(fates));
        (void)pthread_mutex_unlock(&tracer->lock);
    }
    cr_metrics_family(metrics, "crisol_trace_spans_total", "counter",
                      "Spans for the collector, by what became of them.");
    for (size_t i = 0; i < FATE_COUNT; i++) {
        const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {{"fate", fate_names[i]}};

        cr_metrics_count(metrics, labels, fates[i]);
    }
}

/* ---- life ---- */

static bool add_header(struct agt_tracer *tracer, const char *header)
{
    struct curl_slist *list = curl_slist_append(tracer->headers, header);

    if (list)
        tracer->headers = list;
    return list != NULL;
}

/* "NAME=VALUE" as "NAME: VALUE". */
static bool add_headers(struct agt_tracer *tracer, const char *headers)
{
    bool is_added =
        add_header(tracer, "Content-Type: application/json") && add_header(tracer, "Expect:");

    while (is_added && headers && *headers) {
        int name = (int)strcspn(headers, "=");
        int size = (int)strcspn(headers, ",");
        char *line = NULL;

        if (asprintf(&line, "%.*s: %.*s", name, headers, size - name - 1, headers + name + 1) < 0)
            return false;
        is_added = add_header(tracer, line);
        explicit_bzero(line, strlen(line));
        free(line);
        headers += size;
        headers += *headers == ',';
    }
    return is_added;
}

static void set_options(struct agt_tracer *tracer, const char *ca_file)
{
    CURL *curl = tracer->curl;

    (void)curl_easy_setopt(curl, CURLOPT_URL, tracer->url);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, tracer->headers);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, tracer);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*"); /* the ports that we may use are fixed */
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "crisol-orchestrator/" CR_VERSION);
    if (ca_file && *ca_file)
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file);
}

static void free_parts(struct agt_tracer *tracer)
{
    curl_easy_cleanup(tracer->curl);
    curl_slist_free_all(tracer->headers);
    curl_global_cleanup();
    (void)pthread_cond_destroy(&tracer->changed);
    (void)pthread_mutex_destroy(&tracer->lock);
    free(tracer->queue);
    free(tracer->service);
    free(tracer);
}

static void init_lock(struct agt_tracer *tracer)
{
    pthread_condattr_t attributes;

    /* None of these can fail with such arguments on Linux. */
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&tracer->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&tracer->lock, NULL);
}

/* All that needs memory. */
static bool fill(struct agt_tracer *tracer, const struct agt_tracer_options *options)
{
    size_t size = strlen(options->endpoint);

    while (size > 0 && options->endpoint[size - 1] == '/')
        size--;
    (void)snprintf(tracer->url, sizeof(tracer->url), "%.*s%s", (int)size, options->endpoint, PATH);
    tracer->curl = curl_easy_init();
    tracer->service = strdup(options->service);
    tracer->queue = calloc(QUEUE_MAX, sizeof(*tracer->queue));
    return tracer->curl && tracer->service && tracer->queue &&
           add_headers(tracer, options->headers);
}

int agt_tracer_new(const struct agt_tracer_options *options, struct agt_tracer **ret_tracer,
                   struct cr_err *err)
{
    int r = agt_tracer_check(options->endpoint, options->headers, err);
    struct agt_tracer *tracer;

    if (r < 0)
        return r;
    tracer = calloc(1, sizeof(*tracer));
    if (!tracer || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(tracer);
        return cr_err_set(err, ENOMEM, "out of memory for the tracer");
    }
    init_lock(tracer);
    if (!fill(tracer, options)) {
        free_parts(tracer);
        return cr_err_set(err, ENOMEM, "out of memory for the tracer");
    }
    set_options(tracer, options->ca_file);
    r = -pthread_create(&tracer->thread, NULL, send_all, tracer);
    if (r < 0) {
        free_parts(tracer);
        return cr_err_sys(err, -r, "start the thread of the tracer");
    }
    *ret_tracer = tracer;
    return 0;
}

struct agt_tracer *agt_tracer_free(struct agt_tracer *tracer)
{
    if (!tracer)
        return NULL;
    (void)pthread_mutex_lock(&tracer->lock);
    tracer->is_stopping = true;
    (void)pthread_cond_broadcast(&tracer->changed);
    (void)pthread_mutex_unlock(&tracer->lock);
    (void)pthread_join(tracer->thread, NULL);
    free_parts(tracer);
    return NULL;
}
