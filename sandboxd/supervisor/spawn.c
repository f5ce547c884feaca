/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/spawn.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/child_args.h"

#include <errno.h>

#include <sys/socket.h>

/* Token, audit, runtimes, certificates, health: each a hole when it is missing. */
#define FRONT_EXTRAS 5

int sbx_spawn_pair(int ret_fds[2], struct cr_err *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fds) < 0)
        return cr_err_sys(err, errno, "make a socket pair");
    return 0;
}

/* Starts a child whose descriptors are: wire, lifeline, then `more`. */
static int spawn(struct sbx_child *child, const struct sbx_child_args *args, int wire_fd,
                 const int *more, size_t more_count, struct cr_err *err)
{
    int fds[2 + FRONT_EXTRAS + SBX_SPAWN_LISTEN_MAX + 1];
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    int pair[2];
    int r = sbx_spawn_pair(pair, err);

    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    fds[0] = wire_fd;
    fds[1] = theirs;
    for (size_t i = 0; i < more_count; i++)
        fds[2 + i] = more[i];
    r = sbx_child_start(child, cr_unconst(args->list), fds, 2 + more_count, err);
    if (r == 0)
        child->lifeline_fd = cr_take_fd(&ours);
    return r;
}

int sbx_spawn_backend(struct sbx_child *child, const struct sbx_child_args *args, int wire_fd,
                      int runtimes_fd, struct cr_err *err)
{
    return spawn(child, args, wire_fd, &runtimes_fd, 1, err);
}

int sbx_spawn_front(struct sbx_child *child, const struct sbx_child_args *args, int wire_fd,
                    const struct sbx_front_fds *fds, struct cr_err *err)
{
    int more[FRONT_EXTRAS + SBX_SPAWN_LISTEN_MAX + 1] = {fds->token, fds->audit, fds->runtimes,
                                                         fds->tls, fds->health};

    for (size_t i = 0; i < fds->listen_count; i++)
        more[FRONT_EXTRAS + i] = fds->listens[i];
    more[FRONT_EXTRAS + fds->listen_count] = fds->metrics;
    return spawn(child, args, wire_fd, more, FRONT_EXTRAS + fds->listen_count + 1, err);
}
