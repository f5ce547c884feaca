/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/server.h"

#include "clients/gemini-replay/chat.h"
#include "clients/gemini-replay/path.h"
#include "clients/gemini-replay/script.h"
#include "clients/gemini-replay/sleepers.h"
#include "clients/gemini-replay/wire.h"
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/hash.h"
#include "common/log.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include <microhttpd.h>

#include <sys/resource.h>

static const size_t MAX_REQUEST = 8U << 20;
static const unsigned MAX_CONNECTIONS = 20000;
static const rlim_t FD_RESERVE = 32;
static const unsigned CONNECTION_TIMEOUT_S = 60;

struct replay_server {
    struct MHD_Daemon *daemon;
    struct replay_server_options options;
    struct replay_sleepers sleepers; /* they think, or wait for their next chunk */
    bool is_closing;
};

/* A body being sent, chunk by chunk. */
struct stream {
    struct replay_server *server; /* borrowed: outlives every stream */
    struct MHD_Connection *connection;
    struct replay_body body;
    size_t released; /* chunks that may be sent by now */
};

/* One request while its body is read. */
struct request {
    struct cr_buf body;
    bool is_too_large;
    bool has_thought;
};

static enum MHD_Result send_json(struct MHD_Connection *connection, unsigned status, char *json)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    if (!json)
        return MHD_NO;
    response = MHD_create_response_from_buffer(strlen(json), json, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(json);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "application/json; charset=UTF-8");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_error(struct MHD_Connection *connection, unsigned status,
                                  const char *name, const char *message, const char *reason)
{
    return send_json(connection, status, replay_error((int)status, name, message, reason, NULL));
}

static enum MHD_Result send_not_found(struct MHD_Connection *connection, const char *model)
{
    char message[320];

    (void)snprintf(message, sizeof(message),
                   "models/%.100s is not found for API version v1beta, or is not supported for "
                   "generateContent. Call ListModels to see the list of available models and their "
                   "supported methods.",
                   model);
    return send_error(connection, MHD_HTTP_NOT_FOUND, "NOT_FOUND", message, NULL);
}

/* With a stream, the next chunk is released then. False: there is no room for one more. */
static bool fall_asleep(struct replay_server *server, struct MHD_Connection *connection,
                        uint32_t ms, struct stream *stream)
{
    const struct replay_sleeper sleeper = {
        .due_ns = cr_clock_mono_ns() + (int64_t)ms * CR_NS_PER_MS,
        .connection = connection,
        .counter = stream ? &stream->released : NULL,
    };

    if (replay_sleepers_add(&server->sleepers, &sleeper, MAX_CONNECTIONS) < 0)
        return false;
    MHD_suspend_connection(connection);
    return true;
}

/* Gives out what is due; with nothing due the connection sleeps until the loop wakes it. */
static ssize_t read_stream(void *user, uint64_t position, char *buffer, size_t room)
{
    struct stream *stream = user;
    struct replay_server *server = stream->server;
    size_t end;
    size_t take;

    if (position >= stream->body.size)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (server->is_closing)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    end = stream->body.ends[stream->released - 1];
    if (position >= end)
        return fall_asleep(server, stream->connection, server->options.delay_ms, stream)
                   ? 0
                   : MHD_CONTENT_READER_END_WITH_ERROR;
    take = end - (size_t)position < room ? end - (size_t)position : room;
    memcpy(buffer, stream->body.bytes + position, take);
    return (ssize_t)take;
}

static void free_stream(void *user)
{
    struct stream *stream = user;

    replay_body_done(&stream->body);
    free(stream);
}

static enum MHD_Result send_stream(struct replay_server *server, struct MHD_Connection *connection,
                                   struct replay_body *body, const char *content_type)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    struct MHD_Response *response;
    enum MHD_Result result;

    if (!stream) {
        replay_body_done(body);
        return MHD_NO;
    }
    *stream =
        (struct stream){.server = server, .connection = connection, .body = *body, .released = 1};
    if (server->options.delay_ms == 0)
        stream->released = stream->body.chunks;
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, stream, free_stream);
    if (!response) {
        free_stream(stream);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static enum replay_framing framing_of(struct MHD_Connection *connection, enum replay_action action)
{
    const char *alt = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "alt");

    if (action != REPLAY_ACTION_STREAM)
        return REPLAY_UNARY;
    return alt && strcmp(alt, "sse") == 0 ? REPLAY_SSE : REPLAY_ARRAY;
}

static enum MHD_Result send_answer(struct replay_server *server, struct MHD_Connection *connection,
                                   enum replay_framing framing, const struct replay_answer *answer,
                                   uint32_t prompt_tokens)
{
    bool is_stream = framing == REPLAY_SSE || framing == REPLAY_CHAT_STREAM;
    struct replay_body body;

    if (answer->error_code)
        return send_json(connection, (unsigned)answer->error_code,
                         replay_error(answer->error_code, answer->error_status,
                                      answer->error_message, NULL, answer->retry_delay));
    if (replay_body_render(answer, framing, prompt_tokens, &body) < 0)
        return MHD_NO;
    return send_stream(server, connection, &body,
                       is_stream ? "text/event-stream" : "application/json; charset=UTF-8");
}

/* Servers of local models take anybody; one with a key wants it as a bearer's. */
static bool is_bearer_good(const struct replay_server *server, struct MHD_Connection *connection)
{
    static const char bearer[] = "Bearer ";
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");

    if (!server->options.key)
        return true;
    return value && strncmp(value, bearer, sizeof(bearer) - 1) == 0 &&
           strcmp(value + sizeof(bearer) - 1, server->options.key) == 0;
}

/* The same request always thinks as long. */
static uint32_t thinking_ms(const struct replay_server_options *options, const struct cr_buf *body)
{
    uint32_t span = options->think_max_ms - options->think_min_ms;
    uint64_t hash = cr_hash(CR_HASH_START, body->data, body->size);

    return options->think_min_ms + (uint32_t)((hash >> 16) % (span + UINT64_C(1)));
}

/* Once per request: then it is asked about again. */
static bool must_think(struct replay_server *server, struct MHD_Connection *connection,
                       struct request *request)
{
    if (server->options.think_max_ms == 0 || request->has_thought || server->is_closing)
        return false;
    request->has_thought = true;
    return fall_asleep(server, connection, thinking_ms(&server->options, &request->body), NULL);
}

/* POST /v1/chat/completions. */
static enum MHD_Result answer_chat(struct replay_server *server, struct MHD_Connection *connection,
                                   struct request *request)
{
    CR_AUTO_BUF struct cr_buf text;
    const struct replay_answer *answer;
    bool is_stream = false;
    int r;

    cr_buf_init(&text, 2 * MAX_REQUEST);
    if (!is_bearer_good(server, connection))
        return send_json(connection, MHD_HTTP_UNAUTHORIZED,
                         replay_chat_error("Incorrect API key provided.", "invalid_request_error",
                                           "invalid_api_key"));
    if (request->is_too_large)
        return send_json(
            connection, MHD_HTTP_CONTENT_TOO_LARGE,
            replay_chat_error("The request has more than 8 MiB.", "invalid_request_error", NULL));
    if (must_think(server, connection, request))
        return MHD_YES;
    r = replay_chat_text(cr_buf_str(&request->body), request->body.size, &text, &is_stream);
    if (r < 0 && r != -EBADMSG)
        return MHD_NO;
    answer = r == 0 ? replay_scripts_find(server->options.scripts, cr_buf_str(&text)) : NULL;
    if (!answer)
        return send_json(connection, MHD_HTTP_BAD_REQUEST,
                         replay_chat_error(r == 0
                                               ? "gemini-replay only plays its scripts, and none "
                                                 "of them has an answer to this request."
                                               : "messages are missing",
                                           "invalid_request_error", NULL));
    return send_answer(server, connection, is_stream ? REPLAY_CHAT_STREAM : REPLAY_CHAT, answer,
                       replay_count_tokens(cr_buf_str(&text)));
}

static enum MHD_Result answer_post(struct replay_server *server, struct MHD_Connection *connection,
                                   enum replay_action action, const struct request *request)
{
    CR_AUTO_BUF struct cr_buf text;
    const struct replay_answer *answer;
    uint32_t tokens;
    int r;

    cr_buf_init(&text, 2 * MAX_REQUEST);
    r = replay_request_text(cr_buf_str(&request->body), request->body.size, &text);
    if (r == -EBADMSG)
        return send_error(connection, MHD_HTTP_BAD_REQUEST, "INVALID_ARGUMENT",
                          "* GenerateContentRequest.contents: contents is not specified\n", NULL);
    if (r < 0)
        return MHD_NO;
    tokens = replay_count_tokens(cr_buf_str(&text));
    if (action == REPLAY_ACTION_COUNT)
        return send_json(connection, MHD_HTTP_OK, replay_token_count(tokens));
    answer = replay_scripts_find(server->options.scripts, cr_buf_str(&text));
    if (!answer)
        return send_error(connection, MHD_HTTP_BAD_REQUEST, "INVALID_ARGUMENT",
                          "gemini-replay only plays its scripts, and none of them has an answer to "
                          "this request. Another task needs a model: set GEMINI_API_KEY.",
                          NULL);
    return send_answer(server, connection, framing_of(connection, action), answer, tokens);
}

static bool is_key_good(const struct replay_server *server, struct MHD_Connection *connection)
{
    const char *key = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "x-goog-api-key");

    if (!key || !*key)
        return false;
    return !server->options.key || strcmp(key, server->options.key) == 0;
}

static enum MHD_Result answer_request(struct replay_server *server,
                                      struct MHD_Connection *connection, const char *method,
                                      const char *path, struct request *request)
{
    char model[128];
    enum replay_action action = replay_path_parse(method, path, model, sizeof(model));

    if (strcmp(path, "/v1/chat/completions") == 0 && strcmp(method, MHD_HTTP_METHOD_POST) == 0)
        return answer_chat(server, connection, request);
    /* Both interfaces have this path; Gemini's clients send their key in its header. */
    if (action == REPLAY_ACTION_LIST && strncmp(path, "/v1/", 4) == 0 &&
        is_bearer_good(server, connection) &&
        !MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "x-goog-api-key"))
        return send_json(connection, MHD_HTTP_OK, replay_chat_model_list());
    if (!is_key_good(server, connection))
        return send_error(connection, MHD_HTTP_BAD_REQUEST, "INVALID_ARGUMENT",
                          "API key not valid. Please pass a valid API key.", "API_KEY_INVALID");
    if (request->is_too_large)
        return send_error(connection, MHD_HTTP_CONTENT_TOO_LARGE, "INVALID_ARGUMENT",
                          "Request payload size exceeds the limit.", NULL);
    if (action == REPLAY_ACTION_NONE)
        return send_error(connection, MHD_HTTP_NOT_FOUND, "NOT_FOUND",
                          "Requested entity was not found.", NULL);
    if (action == REPLAY_ACTION_LIST)
        return send_json(connection, MHD_HTTP_OK, replay_model_list());
    if (!replay_model_exists(model))
        return send_not_found(connection, model);
    if (action == REPLAY_ACTION_GET)
        return send_json(connection, MHD_HTTP_OK, replay_model(model));
    if (action != REPLAY_ACTION_COUNT && must_think(server, connection, request))
        return MHD_YES;
    return answer_post(server, connection, action, request);
}

/* First call: the head; then the body in pieces; last with no data: the answer. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context)
{
    struct request *request = *context;

    (void)version;
    if (!request) {
        request = calloc(1, sizeof(*request));
        if (!request)
            return MHD_NO;
        cr_buf_init(&request->body, MAX_REQUEST);
        *context = request;
        return MHD_YES;
    }
    if (*size > 0) {
        if (cr_buf_add(&request->body, data, *size) < 0)
            request->is_too_large = true;
        *size = 0;
        return MHD_YES;
    }
    return answer_request(user, connection, method, url, request);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *context;

    (void)user;
    (void)connection;
    (void)code;
    if (request)
        cr_buf_done(&request->body);
    free(request);
    *context = NULL;
}

/* libmicrohttpd tells of every client that leaves; nothing of interest for us. */
static void on_log(void *user, const char *format, va_list args)
{
    (void)user;
    (void)format;
    (void)args;
}

/* Raises the limit of open files as far as it goes; every connection needs one. */
static unsigned max_connections(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return MAX_CONNECTIONS;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur > MAX_CONNECTIONS + FD_RESERVE)
        return MAX_CONNECTIONS;
    return limit.rlim_cur > 2 * FD_RESERVE ? (unsigned)(limit.rlim_cur - FD_RESERVE) : 1;
}

int replay_server_new(const struct replay_server_options *options,
                      struct replay_server **ret_server, struct cr_err *err)
{
    struct replay_server *server = calloc(1, sizeof(*server));
    int listen_fd;

    if (!server)
        return cr_err_set(err, ENOMEM, "out of memory for the server");
    server->options = *options;
    /* The daemon closes the one that it gets. */
    listen_fd = fcntl(options->listen_fd, F_DUPFD_CLOEXEC, 3);
    if (listen_fd < 0) {
        free(server);
        return cr_err_sys(err, errno, "duplicate the listening socket");
    }
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request,
        server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT,
        max_connections(), MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_TIMEOUT_S, MHD_OPTION_END);
    if (!server->daemon) {
        (void)close(listen_fd);
        free(server);
        return cr_err_set(err, EIO, "start the HTTP server");
    }
    *ret_server = server;
    return 0;
}

/* Wakes those whose time has come, or all of them when closing. */
static void wake_sleepers(struct replay_server *server)
{
    int64_t now_ns = server->is_closing ? INT64_MAX - 1 : cr_clock_mono_ns();

    while (replay_sleepers_due_ns(&server->sleepers) <= now_ns) {
        struct replay_sleeper sleeper = replay_sleepers_take(&server->sleepers);

        if (sleeper.counter)
            (*sleeper.counter)++;
        MHD_resume_connection(sleeper.connection);
    }
}

static int next_timeout_ms(const struct replay_server *server)
{
    int64_t wait_ms = INT32_MAX;
    MHD_UNSIGNED_LONG_LONG daemon_ms;

    if (MHD_get_timeout(server->daemon, &daemon_ms) == MHD_YES && daemon_ms < INT32_MAX)
        wait_ms = (int64_t)daemon_ms;
    if (server->sleepers.count > 0) {
        int64_t due_ns = replay_sleepers_due_ns(&server->sleepers) - cr_clock_mono_ns();
        int64_t due_ms = due_ns < 0 ? 0 : (due_ns + CR_NS_PER_MS - 1) / CR_NS_PER_MS;

        if (due_ms < wait_ms)
            wait_ms = due_ms;
    }
    return wait_ms == INT32_MAX ? -1 : (int)wait_ms;
}

int replay_server_run(struct replay_server *server, int stop_fd, struct cr_err *err)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = stop_fd, .events = POLLIN}};

    while (!(fds[1].revents & POLLIN)) {
        if (poll(fds, CR_ARRAY_SIZE(fds), next_timeout_ms(server)) < 0 && errno != EINTR)
            return cr_err_sys(err, errno, "wait for requests");
        wake_sleepers(server);
        if (MHD_run(server->daemon) != MHD_YES)
            return cr_err_set(err, EIO, "serve requests");
    }
    return 0;
}

struct replay_server *replay_server_free(struct replay_server *server)
{
    if (!server)
        return NULL;
    /* A daemon must not be stopped while connections are suspended. */
    server->is_closing = true;
    wake_sleepers(server);
    (void)MHD_run(server->daemon);
    MHD_stop_daemon(server->daemon);
    replay_sleepers_done(&server->sleepers);
    free(server);
    return NULL;
}
