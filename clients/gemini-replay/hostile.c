/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/hostile.h"

#include "clients/gemini-replay/hostile_connection.h"
#include "clients/gemini-replay/wire.h"
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include <sys/socket.h>

#define MAX_CONNECTIONS 256

struct server {
    const struct hostile_options *options;
    uint32_t *asked; /* requests for each case */
    struct hostile_connection connections[MAX_CONNECTIONS];
    size_t count;
};

static void play(struct hostile_connection *connection, const struct hostile_response *response,
                 const struct hostile_values *values, struct hostile_dice *dice)
{
    if (hostile_play_init(&connection->play, response, values, dice) < 0) {
        connection->phase = HOSTILE_GONE;
        return;
    }
    connection->after = response->after;
    connection->delay_ns = response->delay_ms * CR_NS_PER_MS;
    connection->phase = HOSTILE_PLAYING;
}

/* What is honest here: the list of the cases, the entry of one, and that there is no such thing. */
static void play_json(struct hostile_connection *connection, const char *status, char *json,
                      const struct hostile_values *values, struct hostile_dice *dice)
{
    const struct hostile_response response = {
        .status = status, .type = "application/json; charset=UTF-8", .body = json};

    if (json)
        play(connection, &response, values, dice);
    else
        connection->phase = HOSTILE_GONE;
    free(json);
}

static char *list_cases(void)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *models = cJSON_AddArrayToObject(root, "models");
    char *json;

    for (size_t i = 0; i < hostile_case_count; i++) {
        char name[96];
        cJSON *entry = cJSON_CreateObject();

        (void)snprintf(name, sizeof(name), "models/" HOSTILE_MODEL "%s", hostile_cases[i].name);
        cJSON_AddStringToObject(entry, "name", name);
        if (!cJSON_AddItemToArray(models, entry))
            cJSON_Delete(entry);
    }
    json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return json;
}

static const struct hostile_case *find_case(const struct hostile_request *request)
{
    static const size_t prefix = sizeof(HOSTILE_MODEL) - 1;

    if (!request->model || request->model_size < prefix ||
        memcmp(request->model, HOSTILE_MODEL, prefix) != 0)
        return NULL;
    return hostile_case_find(request->model + prefix, request->model_size - prefix);
}

static void answer(struct server *server, struct hostile_connection *connection)
{
    struct hostile_request request = {.is_post = false};
    bool is_known = hostile_connection_parse(connection, &request);
    const struct hostile_case *played = find_case(&request);
    const struct hostile_values values = {
        .name = played ? played->name : "", .key = request.key, .port = server->options->port};
    struct hostile_dice dice;

    hostile_dice_init(&dice, server->options->seed, values.name);
    if (played && request.is_post) {
        uint32_t *asked = &server->asked[played - hostile_cases];

        play(connection, &played->answers[*asked % played->answer_count], &values, &dice);
        ++*asked;
    } else if (played) {
        play_json(connection, NULL, replay_model(played->name), &values, &dice);
    } else if (is_known && !request.model && !request.is_post) {
        play_json(connection, NULL, list_cases(), &values, &dice);
    } else {
        play_json(connection, "404 Not Found",
                  replay_error(404, "NOT_FOUND", "no such case; GET /v1beta/models lists them",
                               NULL, NULL),
                  &values, &dice);
    }
}

static void take_connection(struct server *server)
{
    int fd = accept4(server->options->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        hostile_connection_init(&server->connections[server->count++], fd);
}

static void serve(struct server *server, struct hostile_connection *connection, short events)
{
    if (events & (POLLIN | POLLHUP | POLLERR) && hostile_connection_read(connection))
        answer(server, connection);
    if (connection->phase == HOSTILE_PLAYING && connection->due_ns <= cr_clock_mono_ns())
        hostile_connection_write(connection);
}

static void drop_gone(struct server *server)
{
    for (size_t i = 0; i < server->count;) {
        if (server->connections[i].phase != HOSTILE_GONE) {
            i++;
            continue;
        }
        hostile_connection_done(&server->connections[i]);
        server->connections[i] = server->connections[--server->count];
    }
}

/* Fills in what to wait for. Returns for how long, in ms. */
static int watch(const struct server *server, struct pollfd *fds, int stop_fd)
{
    int64_t now_ns = cr_clock_mono_ns();
    int64_t wait_ns = INT64_MAX;

    for (size_t i = 0; i < server->count; i++) {
        const struct hostile_connection *connection = &server->connections[i];
        bool is_due = connection->due_ns <= now_ns;

        fds[i] = (struct pollfd){.fd = connection->fd, .events = POLLIN};
        if (connection->phase != HOSTILE_PLAYING)
            continue;
        if (is_due)
            fds[i].events |= POLLOUT;
        else if (connection->due_ns - now_ns < wait_ns)
            wait_ns = connection->due_ns - now_ns;
    }
    fds[server->count] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
    fds[server->count + 1] = (struct pollfd){
        .fd = server->count < MAX_CONNECTIONS ? server->options->listen_fd : -1, .events = POLLIN};
    return wait_ns == INT64_MAX ? -1 : (int)((wait_ns + CR_NS_PER_MS - 1) / CR_NS_PER_MS);
}

static int run(struct server *server, int stop_fd, struct cr_err *err)
{
    struct pollfd fds[MAX_CONNECTIONS + 2];

    for (;;) {
        size_t count = server->count;
        int wait_ms = watch(server, fds, stop_fd);

        if (poll(fds, count + 2, wait_ms) < 0 && errno != EINTR)
            return cr_err_sys(err, errno, "wait for requests");
        if (fds[count].revents & POLLIN)
            return 0;
        for (size_t i = 0; i < count; i++)
            serve(server, &server->connections[i], fds[i].revents);
        if (fds[count + 1].revents & POLLIN)
            take_connection(server);
        drop_gone(server);
    }
}

int hostile_run(const struct hostile_options *options, int stop_fd, struct cr_err *err)
{
    struct server *server = calloc(1, sizeof(*server));
    int r;

    if (server)
        server->asked = calloc(hostile_case_count, sizeof(*server->asked));
    if (!server || !server->asked) {
        free(server);
        return cr_err_set(err, ENOMEM, "out of memory for the server");
    }
    server->options = options;
    r = run(server, stop_fd, err);
    for (size_t i = 0; i < server->count; i++)
        hostile_connection_done(&server->connections[i]);
    free(server->asked);
    free(server);
    return r;
}
