/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/hostile_connection.h"

#include "common/auto.h"
#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static const size_t MAX_REQUEST = 8U << 20;
static const uint8_t TLS_HANDSHAKE = 0x16;

void hostile_connection_init(struct hostile_connection *connection, int take_fd)
{
    const int one = 1;

    *connection = (struct hostile_connection){.fd = take_fd, .phase = HOSTILE_READING};
    cr_buf_init(&connection->request, MAX_REQUEST);
    /* Writes are meant to arrive as they were made. */
    (void)setsockopt(take_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void hostile_connection_done(struct hostile_connection *connection)
{
    const struct linger reset = {.l_onoff = 1};

    if (connection->after == HOSTILE_RESET)
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    cr_close_fd(&connection->fd);
    cr_buf_done(&connection->request);
    hostile_play_done(&connection->play);
    connection->phase = HOSTILE_GONE;
}

/* The value of a header up to its line's end; NULL: it did not come. */
static const char *find_header(const char *head, const char *name)
{
    const char *found = strcasestr(head, name);

    if (!found)
        return NULL;
    found += strlen(name);
    return found + strspn(found, " ");
}

static bool is_whole(const struct cr_buf *request)
{
    const char *text = cr_buf_str(request);
    const char *blank = strstr(text, "\r\n\r\n");
    const char *length = blank ? find_header(text, "\r\nContent-Length:") : NULL;
    size_t head_size;

    if (!blank)
        return false;
    head_size = (size_t)(blank - text) + 4;
    return request->size - head_size >= (length ? strtoull(length, NULL, 10) : 0);
}

bool hostile_connection_read(struct hostile_connection *connection)
{
    char block[16384];
    ssize_t size = recv(connection->fd, block, sizeof(block), 0);

    if (size < 0 && errno == EAGAIN)
        return false;
    if (size <= 0 || cr_buf_add(&connection->request, block, (size_t)size) < 0) {
        connection->phase = HOSTILE_GONE;
        return false;
    }
    if (connection->phase != HOSTILE_READING)
        return false;
    if (connection->request.data[0] == TLS_HANDSHAKE) {
        connection->phase = HOSTILE_HOLDING;
        return false;
    }
    return is_whole(&connection->request);
}

/* Sends a piece; true when all of it is gone. */
static bool send_piece(struct hostile_connection *connection, const struct cr_buf *buf, size_t end)
{
    ssize_t sent =
        send(connection->fd, buf->data + connection->at, end - connection->at, MSG_NOSIGNAL);

    if (sent < 0) {
        if (errno != EAGAIN)
            connection->phase = HOSTILE_GONE;
        return false;
    }
    connection->at += (size_t)sent;
    return connection->at == end;
}

static void end(struct hostile_connection *connection)
{
    connection->phase = connection->after == HOSTILE_HOLD ? HOSTILE_HOLDING : HOSTILE_GONE;
}

void hostile_connection_write(struct hostile_connection *connection)
{
    struct hostile_play *play = &connection->play;

    if (connection->cut < play->cut_count) {
        if (!send_piece(connection, &play->start, play->cuts[connection->cut]))
            return;
        connection->cut++;
        connection->due_ns = cr_clock_mono_ns() + connection->delay_ns;
        if (connection->cut == play->cut_count)
            connection->at = 0;
    } else if (connection->filled < play->fill_count) {
        if (!send_piece(connection, &play->fill, play->fill.size))
            return;
        connection->filled++;
        connection->at = 0;
    } else if (connection->at < play->tail.size) {
        (void)send_piece(connection, &play->tail, play->tail.size);
    } else {
        end(connection);
    }
}

static void read_key(const char *head, struct hostile_request *request)
{
    const char *key = find_header(head, "\r\nx-goog-api-key:");

    if (!key)
        key = find_header(head, "\r\nAuthorization: Bearer");
    if (key)
        (void)snprintf(request->key, sizeof(request->key), "%.*s", (int)strcspn(key, "\r"), key);
}

bool hostile_connection_parse(const struct hostile_connection *connection,
                              struct hostile_request *ret_request)
{
    const char *text = cr_buf_str(&connection->request);
    size_t line = strcspn(text, "\r");
    const char *models = memmem(text, line, "/models", 7);
    struct hostile_request request = {.is_post = strncmp(text, "POST ", 5) == 0};

    if (!models)
        return false;
    read_key(text, &request);
    models += 7;
    if (*models == '/') {
        request.model = models + 1;
        request.model_size = strcspn(request.model, ":? \r");
    } else if (*models != ' ' && *models != '?') {
        return false;
    }
    *ret_request = request;
    return true;
}
