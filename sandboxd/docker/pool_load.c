/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/pool_parts.h"

#include <errno.h>
#include <string.h>

#include <sys/socket.h>

#define LOAD_DEADLINE_NS (60 * CR_NS_PER_S)
#define RETRY_DOUBLINGS_MAX 8U

/* Later each time, so that an image whose interpreter does not start keeps nobody busy. */
void sbx_docker_slot_give_up(struct sbx_docker *docker, struct sbx_docker_slot *slot,
                             const char *text)
{
    struct sbx_docker_pool *pool = &docker->pool;
    uint32_t doublings = pool->failures[slot->kind]++;

    if (doublings > RETRY_DOUBLINGS_MAX)
        doublings = RETRY_DOUBLINGS_MAX;
    pool->kind_retry_ns[slot->kind] = cr_clock_mono_ns() + (SBX_DOCKER_POOL_RETRY_NS << doublings);
    if (!docker->base.is_stopping)
        cr_log_error(
            "no interpreter waits in a box of the pool kind=%s container=%.12s error=\"%s\" "
            "words=\"%s\"",
            sbx_docker_kind_name(slot->kind), slot->box.container, text, slot->preload.words);
    sbx_docker_slot_discard(docker, slot);
}

/* The work of our own must not eat the program's share of the CPU, nor wait for it. */
static void lift_cpu(const struct sbx_docker *docker, const struct sbx_docker_slot *slot)
{
    struct sbx_limits limits = slot->box.limits;
    struct cr_err err = CR_ERR_INIT;

    limits.value[SBX_LIMIT_CPU_MILLICORES] =
        docker->base.link.maximum.value[SBX_LIMIT_CPU_MILLICORES];
    if (sbx_cgroup_limit_cpu(&slot->box.group, &limits, &err) < 0)
        cr_log_debug("an interpreter starts with the CPU share of a run error=\"%s\"", err.text);
}

void sbx_docker_slot_load(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    CR_AUTO_BUF struct cr_buf order;
    struct cr_err err = CR_ERR_INIT;
    int r;

    sbx_docker_slot_move(docker, slot, SBX_DOCKER_SLOT_LOADING,
                         cr_clock_mono_ns() + cr_patience_ns(LOAD_DEADLINE_NS));
    sbx_docker_preload_init(&slot->preload);
    lift_cpu(docker, slot);
    cr_buf_init(&order, SBX_DOCKER_PRELOAD_MAX);
    r = sbx_docker_preload_order(slot->kind, docker->filter_fd, &order, &err);
    /* Nothing was sent before, so that it fits into the buffer of the socket. */
    if (r == 0 && send(slot->box.attach_fd, order.data, order.size, MSG_NOSIGNAL | MSG_DONTWAIT) !=
                      (ssize_t)order.size)
        r = cr_err_set(&err, EIO, "the container does not take it");
    if (r < 0)
        sbx_docker_slot_give_up(docker, slot, err.text);
}

/*
 * What the interpreter needed to start is not the program's: neither CPU time
 * nor the peak of the memory. What it has now is what it would have as the
 * program's own.
 */
static void settle(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    struct cr_err err = CR_ERR_INIT;
    int r = sbx_cgroup_memory_bytes(&slot->box.group, &slot->idle_bytes);

    r = r < 0 ? cr_err_sys(&err, -r, "read the memory of a box")
              : sbx_cgroup_limit_cpu(&slot->box.group, &slot->box.limits, &err);
    if (r < 0) {
        sbx_docker_slot_give_up(docker, slot, err.text);
        return;
    }
    sbx_cgroup_forget_peak(&slot->box.group);
    docker->pool.failures[slot->kind] = 0;
    sbx_docker_slot_become_idle(docker, slot);
}

void sbx_docker_slot_hear(struct sbx_docker *docker, struct sbx_docker_slot *slot)
{
    uint8_t bytes[4096];
    ssize_t n = recv(slot->box.attach_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    struct sbx_docker_preload *preload = &slot->preload;
    int r;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    r = n <= 0 ? -EPIPE : sbx_docker_preload_feed(preload, bytes, (size_t)n);
    if (r == 1)
        settle(docker, slot);
    else if (r == -ECANCELED)
        sbx_docker_slot_give_up(docker, slot, strerrordesc_np(preload->last.error));
    else if (r < 0)
        sbx_docker_slot_give_up(docker, slot, strerrordesc_np(-r));
}
