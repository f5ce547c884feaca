/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/engine.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/docker/address.h"
#include "sandboxd/docker/engine_transfer.h"
#include "sandboxd/docker/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include <sys/epoll.h>

#define CONNECTIONS_KEPT 8L
#define PING_MS 5000
#define EVENTS_PER_ROUND 16

/* Versions of the API that this program was written for: "1.MINOR". */
#define OLDEST_MINOR 41
#define NEWEST_MINOR 45

struct sbx_engine {
    struct sbx_engine_address address;
    char version[16];
    CURLM *multi;
    int epoll_fd;
    int64_t timer_ns; /* INT64_MAX: none */
    struct sbx_engine_transfer *calls;
};

void sbx_engine_message(const char *body, char *ret_text, size_t size)
{
    CR_AUTO_JSON cJSON *json = cJSON_Parse(body);
    const char *message = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "message"));

    (void)snprintf(ret_text, size, "%.*s", (int)strcspn(message ? message : body, "\r\n"),
                   message ? message : body);
}

/* ---- waiting calls ---- */

int sbx_engine_ask(struct sbx_engine *engine, const struct sbx_engine_request *request,
                   struct cr_buf *answer, long *ret_status, struct cr_err *err)
{
    struct sbx_engine_transfer *call = NULL;
    char text[SBX_ENGINE_TEXT_MAX];
    bool is_gone;
    CURLcode code;
    int r = sbx_engine_transfer_new(&engine->address, engine->version, request, &call);

    if (r < 0)
        return cr_err_sys(err, -r, "prepare a call of the docker engine");
    code = curl_easy_perform(call->easy);
    if (code != CURLE_OK) {
        r = cr_err_set(err,
                       sbx_engine_transfer_explain(call, &engine->address, code, text, &is_gone),
                       "%s", text);
    } else {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, ret_status);
        if (answer)
            r = cr_buf_add(answer, cr_buf_str(&call->answer), call->answer.size);
    }
    sbx_engine_transfer_free(call);
    return r;
}

/* "1.41" as 41; -1 for anything else. */
static int minor_of(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    char *end = NULL;
    long minor;

    if (!text || strncmp(text, "1.", 2) != 0)
        return -1;
    minor = strtol(text + 2, &end, 10);
    return *end == '\0' && minor >= 0 && minor < 1000 ? (int)minor : -1;
}

int sbx_engine_negotiate(struct sbx_engine *engine, struct cr_err *err)
{
    const struct sbx_engine_request request = {
        .method = "GET", .path = "/version", .deadline_ms = PING_MS};
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_JSON cJSON *json = NULL;
    long status = 0;
    int newest;
    int oldest;
    int r;

    cr_buf_init(&answer, SBX_ENGINE_ANSWER_MAX);
    engine->version[0] = '\0';
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    json = cJSON_Parse(cr_buf_str(&answer));
    newest = minor_of(json, "ApiVersion");
    oldest = minor_of(json, "MinAPIVersion");
    if (status != 200 || newest < 0 || oldest < 0)
        return cr_err_set(err, EPROTO, "what listens on '%s' is not a docker engine",
                          engine->address.name);
    if (newest < OLDEST_MINOR || oldest > NEWEST_MINOR)
        return cr_err_set(err, EPROTONOSUPPORT,
                          "the docker engine speaks API 1.%d to 1.%d, this program 1.%d to 1.%d",
                          oldest, newest, OLDEST_MINOR, NEWEST_MINOR);
    (void)snprintf(engine->version, sizeof(engine->version), "/v1.%d",
                   newest < NEWEST_MINOR ? newest : NEWEST_MINOR);
    return 0;
}

/* ---- calls of the loop ---- */

int sbx_engine_call(struct sbx_engine *engine, const struct sbx_engine_request *request,
                    sbx_engine_on_answer on_answer, void *user, uint64_t tag)
{
    struct sbx_engine_transfer *call = NULL;
    int r = sbx_engine_transfer_new(&engine->address, engine->version, request, &call);

    if (r < 0)
        return r;
    call->on_answer = on_answer;
    call->user = user;
    call->tag = tag;
    if (curl_multi_add_handle(engine->multi, call->easy) != CURLM_OK) {
        sbx_engine_transfer_free(call);
        return -ENOMEM;
    }
    call->next = engine->calls;
    engine->calls = call;
    return 0;
}

static void unlink_call(struct sbx_engine *engine, const struct sbx_engine_transfer *call)
{
    for (struct sbx_engine_transfer **at = &engine->calls; *at; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            return;
        }
    }
}

static void finish_call(struct sbx_engine *engine, struct sbx_engine_transfer *call, CURLcode code)
{
    struct sbx_engine_answer answer = {.body = cr_buf_str(&call->answer)};
    char text[SBX_ENGINE_TEXT_MAX] = "";

    (void)curl_multi_remove_handle(engine->multi, call->easy);
    unlink_call(engine, call);
    if (code != CURLE_OK) {
        answer.error =
            sbx_engine_transfer_explain(call, &engine->address, code, text, &answer.is_gone);
    } else {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &answer.status);
        if (answer.status >= 400)
            sbx_engine_message(answer.body, text, sizeof(text));
    }
    answer.text = text;
    call->on_answer(call->user, call->tag, &answer);
    sbx_engine_transfer_free(call);
}

/* Callbacks may begin calls, so one message is taken at a time. */
static void finish_calls(struct sbx_engine *engine)
{
    int left;
    CURLMsg *msg;

    while ((msg = curl_multi_info_read(engine->multi, &left)) != NULL) {
        CURLcode code = msg->data.result;
        char *call = NULL;

        if (msg->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &call);
        finish_call(engine, (struct sbx_engine_transfer *)(void *)call, code);
    }
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    const struct sbx_engine *engine = user;
    struct epoll_event event = {.data.fd = fd};

    (void)easy;
    (void)socket_user;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    event.events =
        ((what & CURL_POLL_IN) ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) ? EPOLLOUT : 0U);
    /* The number of a closed socket may have come back: so both ways. */
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 &&
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -1;
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *user)
{
    struct sbx_engine *engine = user;

    (void)multi;
    engine->timer_ns = timeout_ms < 0 ? INT64_MAX : cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
    return 0;
}

void sbx_engine_run(struct sbx_engine *engine)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    int count = epoll_wait(engine->epoll_fd, events, EVENTS_PER_ROUND, 0);
    int running;

    for (int i = 0; i < count; i++) {
        int what = ((events[i].events & EPOLLIN) ? CURL_CSELECT_IN : 0) |
                   ((events[i].events & EPOLLOUT) ? CURL_CSELECT_OUT : 0) |
                   ((events[i].events & (EPOLLERR | EPOLLHUP)) ? CURL_CSELECT_ERR : 0);

        (void)curl_multi_socket_action(engine->multi, events[i].data.fd, what, &running);
    }
    if (engine->timer_ns <= cr_clock_mono_ns()) {
        engine->timer_ns = INT64_MAX;
        (void)curl_multi_socket_action(engine->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    finish_calls(engine);
}

int sbx_engine_fd(const struct sbx_engine *engine)
{
    return engine->epoll_fd;
}

int64_t sbx_engine_next_ns(const struct sbx_engine *engine)
{
    return engine->timer_ns;
}

const struct sbx_engine_address *sbx_engine_address(const struct sbx_engine *engine)
{
    return &engine->address;
}

const char *sbx_engine_version(const struct sbx_engine *engine)
{
    return engine->version;
}

/* ---- life cycle ---- */

int sbx_engine_new(const char *socket, struct sbx_engine **ret_engine, struct cr_err *err)
{
    struct sbx_engine_address address;
    struct sbx_engine *engine;
    int r = sbx_engine_address_parse(socket, &address, err);

    if (r < 0)
        return r;
    engine = calloc(1, sizeof(*engine));
    if (!engine)
        return cr_err_set(err, ENOMEM, "out of memory for the docker engine's client");
    engine->address = address;
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->timer_ns = INT64_MAX;
    engine->multi = curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK ? curl_multi_init() : NULL;
    if (engine->epoll_fd < 0 || !engine->multi) {
        (void)sbx_engine_free(engine);
        return cr_err_set(err, ENOMEM, "cannot set up the docker engine's client");
    }
    (void)curl_multi_setopt(engine->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(engine->multi, CURLMOPT_SOCKETDATA, engine);
    (void)curl_multi_setopt(engine->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
    (void)curl_multi_setopt(engine->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    (void)curl_multi_setopt(engine->multi, CURLMOPT_TIMERDATA, engine);
    *ret_engine = engine;
    return 0;
}

struct sbx_engine *sbx_engine_free(struct sbx_engine *engine)
{
    if (!engine)
        return NULL;
    while (engine->calls) {
        struct sbx_engine_transfer *call = engine->calls;

        engine->calls = call->next;
        (void)curl_multi_remove_handle(engine->multi, call->easy);
        sbx_engine_transfer_free(call);
    }
    (void)curl_multi_cleanup(engine->multi);
    cr_close_fd(&engine->epoll_fd);
    free(engine);
    curl_global_cleanup();
    return NULL;
}
