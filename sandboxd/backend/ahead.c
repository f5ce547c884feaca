/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/ahead.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#define YOUNG_NS (5 * CR_NS_PER_MS)
#define LULL_NS (30 * CR_NS_PER_MS)
#define PATIENCE_NS (50 * CR_NS_PER_MS)
#define SMALL_PAYLOAD_BYTES (64 << 10)

static int find_kind(const char *const *kinds, size_t kind_count, const char *name, size_t size)
{
    for (size_t i = 0; i < kind_count; i++) {
        if (strlen(kinds[i]) == size && memcmp(kinds[i], name, size) == 0)
            return (int)i;
    }
    return -ENOENT;
}

static int refuse_item(const char *item, const char *const *kinds, size_t kind_count,
                       struct cr_err *err)
{
    char names[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < kind_count && used < sizeof(names); i++) {
        int size = snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", kinds[i]);

        used += size > 0 ? (size_t)size : 0;
    }
    return cr_err_set(err, EINVAL, "--pool: '%s' is neither 0 nor KIND=N with a KIND of: %s", item,
                      names);
}

/* One KIND=N. */
static int parse_item(const char *item, const char *const *kinds, size_t kind_count,
                      uint32_t *counts, struct cr_err *err)
{
    const char *equals = strchr(item, '=');
    int index = equals ? find_kind(kinds, kind_count, item, (size_t)(equals - item)) : -ENOENT;
    char *end = NULL;
    unsigned long count;

    if (index < 0)
        return refuse_item(item, kinds, kind_count, err);
    errno = 0;
    count = strtoul(equals + 1, &end, 10);
    if (errno != 0 || equals[1] < '0' || equals[1] > '9' || *end != '\0' || count > SBX_AHEAD_MAX)
        return cr_err_set(err, EINVAL, "--pool: '%s' needs a number from 0 to %u", item,
                          SBX_AHEAD_MAX);
    counts[index] = (uint32_t)count;
    return 0;
}

static int parse(const char *text, const char *const *kinds, size_t kind_count, uint32_t *counts,
                 struct cr_err *err)
{
    CR_AUTO_FREE char *copy = strdup(text);
    char *save = NULL;
    int r = 0;

    if (!copy)
        return cr_err_sys(err, ENOMEM, "read --pool");
    for (char *item = strtok_r(copy, ",", &save); r == 0 && item;
         item = strtok_r(NULL, ",", &save)) {
        if (strcmp(item, "0") == 0)
            memset(counts, 0, kind_count * sizeof(*counts));
        else
            r = parse_item(item, kinds, kind_count, counts, err);
    }
    return r;
}

int sbx_ahead_parse(const char *text, const char *const *kinds, size_t kind_count, uint32_t *counts,
                    struct cr_err *err)
{
    return text ? parse(text, kinds, kind_count, counts, err) : 0;
}

int64_t sbx_ahead_quiet_ns(const struct sbx_backend *backend)
{
    int64_t from_ns = 0;

    for (uint32_t i = 0; i < backend->slot_count; i++) {
        const struct sbx_job *job = backend->jobs[i];
        int64_t quiet_ns = job->received_ns + PATIENCE_NS;

        if (job->state == SBX_JOB_FREE)
            continue;
        if (job->state == SBX_JOB_RUNNING && job->go_ns + YOUNG_NS < quiet_ns)
            quiet_ns = job->go_ns + YOUNG_NS;
        from_ns = quiet_ns > from_ns ? quiet_ns : from_ns;
    }
    return from_ns;
}

int64_t sbx_ahead_room_ns(const struct sbx_backend *backend, uint32_t cores)
{
    int64_t now_ns = cr_clock_mono_ns();
    int64_t room_ns = INT64_MAX;
    uint32_t count = 0;

    for (uint32_t i = 0; i < backend->slot_count; i++) {
        const struct sbx_job *job = backend->jobs[i];
        int64_t until_ns = job->received_ns + PATIENCE_NS;

        if (job->state == SBX_JOB_FREE || until_ns <= now_ns)
            continue;
        count++;
        room_ns = until_ns < room_ns ? until_ns : room_ns;
    }
    return count >= cores ? room_ns : 0;
}

int64_t sbx_ahead_lull_ns(const struct sbx_backend *backend)
{
    int64_t from_ns = 0;

    for (uint32_t i = 0; i < backend->slot_count; i++)
        if (backend->jobs[i]->received_ns + LULL_NS > from_ns)
            from_ns = backend->jobs[i]->received_ns + LULL_NS;
    return from_ns;
}

bool sbx_ahead_is_small(const struct sbx_job *job)
{
    struct stat stat;

    return fstat(job->fds[0], &stat) == 0 && stat.st_size <= SMALL_PAYLOAD_BYTES;
}

void sbx_ahead_tell_ready(struct sbx_backend *backend)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, SBX_MSG_POOL, 0);
    msg.pool.ready = backend->pool_ready;
    sbx_backend_send(backend, &msg);
}

void sbx_ahead_tell_full(struct sbx_backend *backend)
{
    if (backend->was_pool_full || backend->pool_ready < backend->pool_slots)
        return;
    backend->was_pool_full = true;
    sbx_ahead_tell_ready(backend);
}
