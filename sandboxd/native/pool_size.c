/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/native/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first that serves a run is taken: the more special ones come first. */
static const struct sbx_starter *const starters[] = {
    &sbx_starter_python,
    &sbx_starter_pytest,
    &sbx_starter_pytest_shallow,
    &sbx_starter_plain,
};

_Static_assert(CR_ARRAY_SIZE(starters) <= SBX_STARTERS_MAX, "room for each kind");

static int find_starter(const char *name, size_t size)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(starters); i++) {
        if (strlen(starters[i]->name) == size && memcmp(starters[i]->name, name, size) == 0)
            return (int)i;
    }
    return -ENOENT;
}

/* One NAME=N. */
static int parse_item(const char *item, uint32_t *counts, struct cr_err *err)
{
    const char *equals = strchr(item, '=');
    int index = equals ? find_starter(item, (size_t)(equals - item)) : -ENOENT;
    char *end = NULL;
    unsigned long count;

    if (index < 0)
        return cr_err_set(err, EINVAL,
                          "--pool: '%s' is neither 0 nor KIND=N with the kind of a slot ('%s')",
                          item, starters[CR_ARRAY_SIZE(starters) - 1]->name);
    errno = 0;
    count = strtoul(equals + 1, &end, 10);
    if (errno != 0 || equals[1] < '0' || equals[1] > '9' || *end != '\0' || count > SBX_POOL_MAX)
        return cr_err_set(err, EINVAL, "--pool: '%s' needs a number from 0 to %u", item,
                          SBX_POOL_MAX);
    counts[index] = (uint32_t)count;
    return 0;
}

static int parse(const char *text, uint32_t *counts, struct cr_err *err)
{
    CR_AUTO_FREE char *copy = strdup(text);
    char *save = NULL;
    int r = 0;

    if (!copy)
        return cr_err_sys(err, ENOMEM, "read --pool");
    for (char *item = strtok_r(copy, ",", &save); r == 0 && item;
         item = strtok_r(NULL, ",", &save)) {
        if (strcmp(item, "0") == 0)
            memset(counts, 0, CR_ARRAY_SIZE(starters) * sizeof(*counts));
        else
            r = parse_item(item, counts, err);
    }
    return r;
}

int sbx_pool_init(struct sbx_pool *pool, const char *text, bool has_templates, struct cr_err *err)
{
    uint32_t counts[CR_ARRAY_SIZE(starters)];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int r;

    *pool = (struct sbx_pool){.starting_most = cores > 0 ? (uint32_t)cores : 1};
    for (size_t i = 0; i < CR_ARRAY_SIZE(starters); i++)
        counts[i] = starters[i]->standard;
    r = text ? parse(text, counts, err) : 0;
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
