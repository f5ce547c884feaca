/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/wreck.h"

#include "common/clock.h"
#include "common/log.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REMOVE_MS 20000
#define AGAIN_NS (100 * CR_NS_PER_MS) /* the engine removes it itself just now */
#define RETRY_NS (2 * CR_NS_PER_S)
#define RETRY_MAX_NS (60 * CR_NS_PER_S)
#define QUARANTINE_ATTEMPTS 3
#define SPARE 64U /* runs in flight always find a place */

bool sbx_wreckage_is_full(const struct sbx_wreckage *wreckage)
{
    return wreckage->count + SPARE >= SBX_WRECKS_MAX;
}

static void drop(struct sbx_wreckage *wreckage, uint32_t i)
{
    if (wreckage->wrecks[i].attempts >= QUARANTINE_ATTEMPTS) {
        wreckage->quarantined--;
        cr_log_info("a container is out of quarantine container=%.12s quarantined=%" PRIu32,
                    wreckage->wrecks[i].id, wreckage->quarantined);
    }
    wreckage->wrecks[i] = wreckage->wrecks[--wreckage->count];
}

static void note_failure(struct sbx_docker *docker, struct sbx_wreck *wreck,
                         const struct sbx_engine_answer *answer)
{
    int64_t wait_ns = RETRY_NS << (wreck->attempts < 5 ? wreck->attempts : 5);

    wreck->attempts++;
    wreck->retry_ns = cr_clock_mono_ns() + (wait_ns < RETRY_MAX_NS ? wait_ns : RETRY_MAX_NS);
    if (wreck->attempts != QUARANTINE_ATTEMPTS)
        return;
    docker->wreckage.quarantined++;
    cr_log_error("a container is wedged, in quarantine until the engine removes it container=%.12s "
                 "quarantined=%" PRIu32 " error=\"%s\"",
                 wreck->id, docker->wreckage.quarantined, answer->text);
}

/* The tag is the beginning of the id: places in the list move. */
static uint64_t tag_of(const char *id)
{
    uint64_t tag;

    memcpy(&tag, id, sizeof(tag));
    return tag;
}

static void on_removed(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_wreckage *wreckage = &docker->wreckage;
    uint32_t i = 0;

    while (i < wreckage->count && tag_of(wreckage->wrecks[i].id) != tag)
        i++;
    if (i == wreckage->count)
        return;
    wreckage->wrecks[i].is_asked = false;
    if (answer->error != 0 && answer->is_gone)
        sbx_docker_lose_engine(docker, answer->text);
    else if (answer->error == 0 && (answer->status == 204 || answer->status == 404))
        drop(wreckage, i);
    else if (answer->error == 0 && answer->status == 409)
        wreckage->wrecks[i].retry_ns = cr_clock_mono_ns() + AGAIN_NS;
    else
        note_failure(docker, &wreckage->wrecks[i], answer);
}

static void ask(struct sbx_docker *docker, struct sbx_wreck *wreck)
{
    char path[128];
    const struct sbx_engine_request request = {
        .method = "DELETE", .path = path, .deadline_ms = REMOVE_MS};

    (void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", wreck->id);
    wreck->retry_ns = cr_clock_mono_ns() + RETRY_NS;
    wreck->is_asked =
        sbx_engine_call(docker->engine, &request, on_removed, docker, tag_of(wreck->id)) == 0;
}

void sbx_wreckage_add(struct sbx_docker *docker, const char *id)
{
    struct sbx_wreckage *wreckage = &docker->wreckage;
    struct sbx_wreck *wreck;

    if (wreckage->count == SBX_WRECKS_MAX) { /* the sweep of the next start takes it */
        cr_log_error("too many containers wait for their removal, forgetting one container=%.12s",
                     id);
        return;
    }
    wreck = &wreckage->wrecks[wreckage->count++];
    *wreck = (struct sbx_wreck){0};
    memcpy(wreck->id, id, sizeof(wreck->id));
    ask(docker, wreck);
}

int64_t sbx_wreckage_next_ns(const struct sbx_wreckage *wreckage)
{
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < wreckage->count; i++) {
        if (!wreckage->wrecks[i].is_asked && wreckage->wrecks[i].retry_ns < next)
            next = wreckage->wrecks[i].retry_ns;
    }
    return next;
}

void sbx_wreckage_on_time(struct sbx_docker *docker, int64_t now_ns)
{
    for (uint32_t i = 0; i < docker->wreckage.count; i++) {
        struct sbx_wreck *wreck = &docker->wreckage.wrecks[i];

        if (!wreck->is_asked && wreck->retry_ns <= now_ns)
            ask(docker, wreck);
    }
}
