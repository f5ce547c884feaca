/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/link.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MESSAGES_PER_ROUND 32

void sbx_link_send(const struct sbx_link *link, const union sbx_msg *msg)
{
    int r;

    if (link->fd < 0)
        return;
    r = sbx_msg_send(link->fd, msg, NULL, 0);
    if (r < 0) {
        cr_log_error("the front does not take a message error=%s", strerrordesc_np(-r));
        /* The EOF that follows stops us: not here, in the middle of a run's own step. */
        (void)shutdown(link->fd, SHUT_RDWR);
    }
}

/* The front checks these too and answers the caller; here they are enforced. */
static int check_run(const struct sbx_link *link, const struct sbx_msg_run *msg)
{
    size_t runtime_count;

    (void)sbx_runtimes(&runtime_count);
    if (msg->runtime >= runtime_count)
        return EINVAL;
    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (msg->limits.value[i] > link->maximum.value[i])
            return EINVAL;
    }
    return 0;
}

/*
 * A payload that nobody can change any more, and streams. A folder or a file
 * of the host handed in as "stdin" would be a door out of the box.
 */
static bool are_fds_legal(const int fds[SBX_RUN_FDS])
{
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int found = fcntl(fds[0], F_GET_SEALS);

    if (found < 0 || (found & seals) != seals)
        return false;
    for (int i = 1; i < SBX_RUN_FDS; i++) {
        struct stat stat;

        if (fstat(fds[i], &stat) < 0 || !(S_ISFIFO(stat.st_mode) || S_ISSOCK(stat.st_mode) ||
                                          (S_ISCHR(stat.st_mode) && stat.st_rdev == makedev(1, 3))))
            return false;
    }
    return true;
}

static void refuse(const struct sbx_link *link, uint64_t id, int error)
{
    union sbx_msg msg;

    cr_log_warn("refused a run run=%" PRIu64 " error=%s", id, strerrordesc_np(error));
    sbx_msg_init(&msg, SBX_MSG_RESULT, id);
    msg.result.verdict = SBX_VERDICT_SANDBOX_ERROR;
    msg.result.stage = SBX_STAGE_REFUSED;
    msg.result.stage_errno = error;
    msg.result.cgroup_version = link->cgroup_version;
    sbx_link_send(link, &msg);
}

static int on_run(struct sbx_link *link, const struct sbx_msg_run *msg, int fds[SBX_RUN_FDS])
{
    int error;

    if (link->ops->is_live(link->user, msg->header.run)) {
        cr_log_error("the front used the number of a live run again run=%" PRIu64, msg->header.run);
        return -EPROTO;
    }
    if (!are_fds_legal(fds)) {
        cr_log_error("a run came with fds that are no payload and streams run=%" PRIu64,
                     msg->header.run);
        return -EPROTO;
    }
    error = check_run(link, msg);
    if (error == 0)
        error = link->ops->begin(link->user, msg, fds);
    if (error != 0) {
        refuse(link, msg->header.run, error);
        return 0;
    }
    for (int i = 0; i < SBX_RUN_FDS; i++)
        fds[i] = -1;
    return 0;
}

static int on_open(const struct sbx_link *link, const struct sbx_msg_open *msg)
{
    union sbx_msg closed;
    int error = 0;

    for (int i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (msg->limits.value[i] > link->maximum.value[i])
            error = EINVAL;
    }
    if (error == 0)
        error = link->ops->open_session(link->user, msg);
    if (error == EEXIST) {
        cr_log_error("the front used the number of a live session again session=%" PRIu64,
                     msg->header.run);
        return -EPROTO;
    }
    if (error != 0) {
        cr_log_warn("refused a session session=%" PRIu64 " error=%s", msg->header.run,
                    strerrordesc_np(error));
        sbx_msg_init(&closed, SBX_MSG_CLOSED, msg->header.run);
        closed.closed.reason = SBX_CLOSED_FAILED;
        sbx_link_send(link, &closed);
    }
    return 0;
}

/*
 * Messages about a run that has just ended cross its RESULT on the way: they
 * are ignored. What no front may ever send is -EPROTO.
 */
static int on_message(struct sbx_link *link, const union sbx_msg *msg, int fds[SBX_RUN_FDS])
{
    bool is_live = link->ops->is_live(link->user, msg->header.run);

    switch (msg->header.type) {
    case SBX_MSG_RUN:
        return on_run(link, &msg->run, fds);
    case SBX_MSG_OPEN:
        return on_open(link, &msg->open);
    case SBX_MSG_CLOSE:
        link->ops->close_session(link->user, msg->header.run);
        return 0;
    case SBX_MSG_CANCEL:
        if (is_live)
            link->ops->cancel(link->user, msg->header.run);
        return 0;
    case SBX_MSG_OUTPUT_LIMIT:
        if (is_live)
            link->ops->output_limit(link->user, &msg->output_limit);
        return 0;
    case SBX_MSG_SIGNAL:
        if (is_live)
            link->ops->signal(link->user, &msg->signal);
        return 0;
    case SBX_MSG_RESIZE:
        if (is_live)
            link->ops->resize(link->user, &msg->resize);
        return 0;
    case SBX_MSG_DRAINED:
        return is_live ? link->ops->drained(link->user, &msg->drained) : 0;
    default:
        return -EPROTO;
    }
}

int sbx_link_read(struct sbx_link *link)
{
    for (int i = 0; i < MESSAGES_PER_ROUND && link->fd >= 0; i++) {
        struct cr_err err = CR_ERR_INIT;
        union sbx_msg msg;
        int fds[SBX_RUN_FDS] = {-1, -1, -1, -1, -1};
        size_t fd_count = 0;
        int r = sbx_msg_receive(link->fd, &msg, fds, &fd_count, &err);

        if (r == -EAGAIN)
            return 0;
        if (r == 0) {
            r = on_message(link, &msg, fds);
            for (int j = 0; j < SBX_RUN_FDS; j++)
                cr_close_fd(&fds[j]);
            if (r < 0)
                cr_log_error("illegal message of the front type=%u run=%" PRIu64,
                             (unsigned int)msg.header.type, msg.header.run);
        } else if (r != -EPIPE) {
            cr_log_error("illegal message of the front error=\"%s\"", err.text);
        }
        if (r < 0)
            return r;
    }
    return 0;
}
