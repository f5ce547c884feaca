/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/engine.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/patience.h"
#include "sandboxd/docker/address.h"
#include "sandboxd/docker/json.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include <sys/epoll.h>

#define ANSWER_MAX (4U << 20)
#define CONNECT_MS 5000
#define CONNECTIONS_KEPT 8L
#define PING_MS 5000
#define TEXT_MAX 400
#define URL_MAX 2048
#define EVENTS_PER_ROUND 16

/* Versions of the API that this program was written for: "1.MINOR". */
#define OLDEST_MINOR 41
#define NEWEST_MINOR 45

struct call {
    struct call *next;
    CURL *easy;
    struct curl_slist *headers;
    struct cr_buf answer;
    sbx_engine_on_answer on_answer;
    void *user;
    uint64_t tag;
    int deadline_ms;
    int64_t deadline_ns; /* of a streamed body */
    int body_fd;
    char name[96]; /* for texts: method and the beginning of the path */
};

struct sbx_engine {
    struct sbx_engine_address address;
    char version[16];
    CURLM *multi;
    int epoll_fd;
    int64_t timer_ns; /* INT64_MAX: none */
    struct call *calls;
};

/* ---- one call ---- */

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct call *call = user;

    return cr_buf_add(&call->answer, data, size * count) < 0 ? 0 : size * count;
}

/* The deadline of the whole call holds while the body is waited for. */
static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    const struct call *call = user;
    const int64_t left_ns = call->deadline_ns - cr_clock_mono_ns();
    struct pollfd body = {.fd = call->body_fd, .events = POLLIN};
    ssize_t n;

    if (left_ns <= 0 || poll(&body, 1, (int)(left_ns / CR_NS_PER_MS) + 1) != 1)
        return CURL_READFUNC_ABORT;
    n = read(call->body_fd, data, size * count);
    return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

static void free_call(struct call *call)
{
    curl_slist_free_all(call->headers);
    curl_easy_cleanup(call->easy);
    cr_buf_done(&call->answer);
    free(call);
}

static int add_headers(struct call *call, const struct sbx_engine_request *request)
{
    char type[128];
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"); /* no 100-continue */

    (void)snprintf(type, sizeof(type), "Content-Type: %s",
                   request->content_type ? request->content_type : "application/json");
    call->headers = list;
    list = list ? curl_slist_append(list, type) : NULL;
    if (!list)
        return -ENOMEM;
    call->headers = list;
    return 0;
}

static CURLcode set_body(struct call *call, const struct sbx_engine_request *request)
{
    CURL *easy = call->easy;

    if (request->is_streamed) {
        call->body_fd = request->body_fd;
        call->deadline_ns = cr_clock_mono_ns() + call->deadline_ms * CR_NS_PER_MS;
        (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body);
        (void)curl_easy_setopt(easy, CURLOPT_READDATA, call);
        return curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L); /* in chunks: nobody knows its size */
    }
    if (request->body) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
        return curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body);
    }
    if (strcmp(request->method, "POST") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
        return curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, "");
    }
    return curl_easy_setopt(easy, CURLOPT_NOBODY, strcmp(request->method, "HEAD") == 0 ? 1L : 0L);
}

/* Each setopt of a valid option can only fail for memory. */
static int set_options(const struct sbx_engine *engine, struct call *call,
                       const struct sbx_engine_request *request)
{
    char url[URL_MAX];
    CURL *easy = call->easy;
    CURLcode code;
    int n = snprintf(url, sizeof(url), "http://%s%s%s", sbx_engine_address_host(&engine->address),
                     engine->version, request->path);

    if (n < 0 || (size_t)n >= sizeof(url))
        return -ENAMETOOLONG;
    code = curl_easy_setopt(easy, CURLOPT_URL, url);
    if (code == CURLE_OK && !engine->address.is_tcp)
        code = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, engine->address.name);
    if (code == CURLE_OK)
        code = set_body(call, request);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    if (code != CURLE_OK)
        return -ENOMEM;
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)cr_patience_ms(CONNECT_MS));
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)call->deadline_ms);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    return 0;
}

/* The path without its query, and without most of an id. */
static void name_call(struct call *call, const struct sbx_engine_request *request)
{
    int size = (int)strcspn(request->path, "?");

    (void)snprintf(call->name, sizeof(call->name), "%s %.*s", request->method,
                   size < 80 ? size : 80, request->path);
}

static int new_call(const struct sbx_engine *engine, const struct sbx_engine_request *request,
                    struct call **ret_call)
{
    struct call *call = calloc(1, sizeof(*call));
    int r;

    if (!call)
        return -ENOMEM;
    cr_buf_init(&call->answer, ANSWER_MAX);
    call->easy = curl_easy_init();
    call->deadline_ms = cr_patience_ms(request->deadline_ms);
    name_call(call, request);
    r = call->easy ? add_headers(call, request) : -ENOMEM;
    if (r == 0)
        r = set_options(engine, call, request);
    if (r < 0) {
        free_call(call);
        return r;
    }
    *ret_call = call;
    return 0;
}

/* ---- what went wrong ---- */

static int explain_connect(const struct sbx_engine *engine, long os_error, char *text)
{
    switch (os_error) {
    case ENOENT:
        (void)snprintf(text, TEXT_MAX,
                       "the docker engine is absent: there is no socket '%s'; install and start "
                       "it, or name its socket with --docker-socket",
                       engine->address.name);
        return ENOENT;
    case ECONNREFUSED:
        (void)snprintf(text, TEXT_MAX,
                       "the docker engine is dead: nobody listens on '%s'; start it again",
                       engine->address.name);
        return ECONNREFUSED;
    case EACCES:
    case EPERM:
        (void)snprintf(text, TEXT_MAX,
                       "the docker engine's socket '%s' is forbidden to this user: sandboxd must "
                       "be root or in the group of the socket",
                       engine->address.name);
        return EACCES;
    default:
        (void)snprintf(text, TEXT_MAX, "cannot connect to the docker engine at '%s': %s",
                       engine->address.name,
                       os_error > 0 ? strerrordesc_np((int)os_error) : "unknown");
        return os_error > 0 ? (int)os_error : ECONNREFUSED;
    }
}

/* Returns the errno; *ret_is_gone when it is the engine and not this call. */
static int explain(const struct sbx_engine *engine, const struct call *call, CURLcode code,
                   char text[TEXT_MAX], bool *ret_is_gone)
{
    long os_error = 0;

    *ret_is_gone = false;
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        (void)curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &os_error);
        *ret_is_gone = true;
        return explain_connect(engine, os_error, text);
    case CURLE_ABORTED_BY_CALLBACK: /* of on_body() */
    case CURLE_OPERATION_TIMEDOUT:
        (void)snprintf(text, TEXT_MAX, "the docker engine did not answer %s within %d ms",
                       call->name, call->deadline_ms);
        return ETIMEDOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        (void)snprintf(text, TEXT_MAX, "the docker engine went away during %s", call->name);
        *ret_is_gone = true;
        return ECONNRESET;
    case CURLE_WRITE_ERROR:
        (void)snprintf(text, TEXT_MAX, "the docker engine's answer to %s is too long", call->name);
        return EMSGSIZE;
    default:
        (void)snprintf(text, TEXT_MAX, "call %s of the docker engine: %s", call->name,
                       curl_easy_strerror(code));
        return EPROTO;
    }
}

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
    struct call *call = NULL;
    char text[TEXT_MAX];
    bool is_gone;
    CURLcode code;
    int r = new_call(engine, request, &call);

    if (r < 0)
        return cr_err_sys(err, -r, "prepare a call of the docker engine");
    code = curl_easy_perform(call->easy);
    if (code != CURLE_OK) {
        r = cr_err_set(err, explain(engine, call, code, text, &is_gone), "%s", text);
    } else {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, ret_status);
        if (answer)
            r = cr_buf_add(answer, cr_buf_str(&call->answer), call->answer.size);
    }
    free_call(call);
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

    cr_buf_init(&answer, ANSWER_MAX);
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
    struct call *call = NULL;
    int r = new_call(engine, request, &call);

    if (r < 0)
        return r;
    call->on_answer = on_answer;
    call->user = user;
    call->tag = tag;
    if (curl_multi_add_handle(engine->multi, call->easy) != CURLM_OK) {
        free_call(call);
        return -ENOMEM;
    }
    call->next = engine->calls;
    engine->calls = call;
    return 0;
}

static void unlink_call(struct sbx_engine *engine, const struct call *call)
{
    for (struct call **at = &engine->calls; *at; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            return;
        }
    }
}

static void finish_call(struct sbx_engine *engine, struct call *call, CURLcode code)
{
    struct sbx_engine_answer answer = {.body = cr_buf_str(&call->answer)};
    char text[TEXT_MAX] = "";

    (void)curl_multi_remove_handle(engine->multi, call->easy);
    unlink_call(engine, call);
    if (code != CURLE_OK) {
        answer.error = explain(engine, call, code, text, &answer.is_gone);
    } else {
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &answer.status);
        if (answer.status >= 400)
            sbx_engine_message(answer.body, text, sizeof(text));
    }
    answer.text = text;
    call->on_answer(call->user, call->tag, &answer);
    free_call(call);
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
        finish_call(engine, (struct call *)(void *)call, code);
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
        struct call *call = engine->calls;

        engine->calls = call->next;
        (void)curl_multi_remove_handle(engine->multi, call->easy);
        free_call(call);
    }
    (void)curl_multi_cleanup(engine->multi);
    cr_close_fd(&engine->epoll_fd);
    free(engine);
    curl_global_cleanup();
    return NULL;
}
