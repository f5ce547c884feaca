/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/ahead.h"
#include "sandboxd/native/pool.h"

#include <errno.h>
#include <unistd.h>

/* The first that serves a run is taken: the more special ones come first. */
static const struct sbx_starter *const starters[] = {
    &sbx_starter_python,
    &sbx_starter_pytest,
    &sbx_starter_pytest_shallow,
    &sbx_starter_plain,
};

_Static_assert(CR_ARRAY_SIZE(starters) <= SBX_STARTERS_MAX, "room for each kind");

int sbx_pool_init(struct sbx_pool *pool, const char *text, bool has_templates, struct cr_err *err)
{
    const char *kinds[CR_ARRAY_SIZE(starters)];
    uint32_t counts[CR_ARRAY_SIZE(starters)];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    *pool = (struct sbx_pool){.starting_most = cores > 0 ? (uint32_t)cores : 1};
    for (size_t i = 0; i < CR_ARRAY_SIZE(starters); i++) {
        kinds[i] = starters[i]->name;
        counts[i] = starters[i]->standard;
    }
    r = sbx_ahead_parse(text, kinds, CR_ARRAY_SIZE(starters), counts, err);
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(starters); i++) {
        if (starters[i]->needs_templates && !has_templates)
            continue;
        if (counts[i] > SBX_POOL_MAX - pool->slot_count)
            return cr_err_set(err, EINVAL, "--pool: more than %u slots in all", SBX_POOL_MAX);
        for (uint32_t j = 0; j < counts[i]; j++)
            pool->slots[pool->slot_count++] =
                (struct sbx_pool_slot){.starter = starters[i], .cell = SBX_CELL_INIT};
    }
    return r;
}
