/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/peers.h"

#include "rpc/server.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rpc_peers {
    pthread_mutex_t lock;   /* guards everything below */
    struct rpc_peer **rows; /* by fd; NULL where none was set */
    size_t room;
};

struct rpc_peers *rpc_peers_new(void)
{
    struct rpc_peers *peers = calloc(1, sizeof(*peers));

    if (peers)
        (void)pthread_mutex_init(&peers->lock, NULL); /* cannot fail with default attributes */
    return peers;
}

struct rpc_peers *rpc_peers_free(struct rpc_peers *peers)
{
    if (!peers)
        return NULL;
    for (size_t i = 0; i < peers->room; i++)
        free(peers->rows[i]);
    free(peers->rows);
    (void)pthread_mutex_destroy(&peers->lock);
    free(peers);
    return NULL;
}

static int make_room(struct rpc_peers *peers, size_t index)
{
    size_t room = peers->room > 0 ? peers->room : 64;
    struct rpc_peer **rows;

    if (index < peers->room)
        return 0;
    while (room <= index)
        room *= 2;
    rows = reallocarray(peers->rows, room, sizeof(struct rpc_peer *));
    if (!rows)
        return -ENOMEM;
    memset(rows + peers->room, 0, (room - peers->room) * sizeof(struct rpc_peer *));
    peers->rows = rows;
    peers->room = room;
    return 0;
}

static int set_row(struct rpc_peers *peers, size_t index, const struct rpc_peer *peer)
{
    int r = make_room(peers, index);

    if (r < 0)
        return r;
    if (!peers->rows[index])
        peers->rows[index] = malloc(sizeof(*peer));
    if (!peers->rows[index])
        return -ENOMEM;
    *peers->rows[index] = *peer;
    return 0;
}

int rpc_peers_set(struct rpc_peers *peers, int fd, const struct rpc_peer *peer)
{
    int r;

    if (fd < 0 || fd >= RPC_PEERS_MAX)
        return -EMFILE;
    (void)pthread_mutex_lock(&peers->lock);
    r = set_row(peers, (size_t)fd, peer);
    (void)pthread_mutex_unlock(&peers->lock);
    return r;
}

static bool parse_name(const char *name, size_t *ret_fd)
{
    unsigned long fd;
    char *end;

    if (strncmp(name, "fd:", 3) != 0 || name[3] < '0' || name[3] > '9')
        return false;
    fd = strtoul(name + 3, &end, 10);
    *ret_fd = fd;
    return *end == '\0' && fd < RPC_PEERS_MAX;
}

bool rpc_peers_find(struct rpc_peers *peers, const char *name, struct rpc_peer *ret_peer)
{
    bool is_found;
    size_t fd;

    if (!parse_name(name, &fd))
        return false;
    (void)pthread_mutex_lock(&peers->lock);
    is_found = fd < peers->room && peers->rows[fd];
    if (is_found)
        *ret_peer = *peers->rows[fd];
    (void)pthread_mutex_unlock(&peers->lock);
    return is_found;
}
