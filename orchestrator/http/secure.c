/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/secure.h"

#include "orchestrator/http/private.h"
#include "tls/relay.h"
#include "tls/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/un.h>

/* Of one address at one time; pages open several connections at once. */
#define SOURCE_HANDSHAKES 16
#define ALL_HANDSHAKES 64
#define HANDSHAKE_MS 5000

/* A plain end on its way to libmicrohttpd, or given to it and not opened yet. */
struct agt_arrival {
    struct agt_arrival *next;
    int fd;
    bool is_certified;
    char caller[AGT_CALLER_SIZE];
};

/* The relay's thread. */
static void on_open(void *user, int fd, const char *source, const char *name)
{
    struct agt_http *http = user;
    struct agt_arrival *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        (void)close(fd);
        return;
    }
    arrival->fd = fd;
    arrival->is_certified = name[0] != '\0';
    if (arrival->is_certified)
        tls_stream_caller(name, arrival->caller, sizeof(arrival->caller));
    else
        (void)snprintf(arrival->caller, sizeof(arrival->caller), "%s", source);
    (void)pthread_mutex_lock(&http->arrivals_lock);
    arrival->next = http->arrivals;
    http->arrivals = arrival;
    (void)pthread_mutex_unlock(&http->arrivals_lock);
    agt_http_wake(http);
}

int agt_secure_start(struct agt_http *http, struct cr_err *err)
{
    const struct tls_relay_options options = {
        .context = http->options.tls,
        .max_connections = http->options.max_connections + AGT_SURPLUS,
        .max_handshakes = ALL_HANDSHAKES,
        .max_source_handshakes = SOURCE_HANDSHAKES,
        .handshake_ms = HANDSHAKE_MS,
        .stuck_ms = 2 * http->options.write_timeout_ms, /* the server gives it up before us */
        .on_open = on_open,
        .user = http,
    };

    return http->options.tls ? tls_relay_new(&options, &http->relay, err) : 0;
}

static void drop_all(struct agt_arrival **list, bool must_close)
{
    while (*list) {
        struct agt_arrival *arrival = *list;

        *list = arrival->next;
        if (must_close)
            (void)close(arrival->fd);
        free(arrival);
    }
}

void agt_secure_stop(struct agt_http *http)
{
    http->relay = tls_relay_free(http->relay);
    drop_all(&http->arrivals, true);
    drop_all(&http->handed, false); /* libmicrohttpd has them */
}

static struct agt_arrival *take_all(struct agt_http *http)
{
    struct agt_arrival *list;

    (void)pthread_mutex_lock(&http->arrivals_lock);
    list = http->arrivals;
    http->arrivals = NULL;
    (void)pthread_mutex_unlock(&http->arrivals_lock);
    return list;
}

/* Takes the one of this socket out of those that were handed over; NULL when there is none. */
static struct agt_arrival *find(struct agt_http *http, int fd)
{
    for (struct agt_arrival **at = &http->handed; *at; at = &(*at)->next) {
        struct agt_arrival *arrival = *at;

        if (arrival->fd != fd)
            continue;
        *at = arrival->next;
        return arrival;
    }
    return NULL;
}

void agt_secure_take(struct agt_http *http)
{
    static const struct sockaddr_un nowhere = {.sun_family = AF_UNIX};
    struct agt_arrival *next;

    if (!http->relay)
        return;
    for (struct agt_arrival *at = take_all(http); at; at = next) {
        next = at->next;
        free(find(http, at->fd)); /* one that was closed before it was opened */
        at->next = http->handed;
        http->handed = at;
        /* Closes it on failure, and may open it before it returns. */
        (void)MHD_add_connection(http->daemon, at->fd, (const struct sockaddr *)&nowhere,
                                 sizeof(nowhere));
    }
}

bool agt_secure_claim(struct agt_http *http, int fd, char caller[AGT_CALLER_SIZE],
                      bool *ret_is_certified)
{
    struct agt_arrival *arrival = find(http, fd);

    if (!arrival)
        return false;
    memcpy(caller, arrival->caller, AGT_CALLER_SIZE);
    *ret_is_certified = arrival->is_certified;
    free(arrival);
    return true;
}
