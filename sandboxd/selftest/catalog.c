/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/catalog.h"

#include "common/auto.h"
#include "sandboxd/selftest/docker_answers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Reported by whoever stops the stack. */
static size_t count_after(void)
{
    return 2;
}

static void describe_after(size_t index, struct sbx_item *ret_item)
{
    static const struct sbx_item items[] = {
        {.id = "C27",
         .name = "the-stack-ends-well",
         .control = SBX_NO_CONTROL,
         .expected = "exit status 0"},
        {.id = "C26",
         .name = "no-process-is-left",
         .control = SBX_NO_CONTROL,
         .expected = "0 processes"},
    };

    *ret_item = items[index];
}

static void run_after(struct sbx_tester *tester, size_t first)
{
    (void)tester;
    (void)first;
}

static const struct sbx_group after = {count_after, describe_after, run_after};

static const struct sbx_group *const groups[] = {
    &sbx_group_calls,
    &sbx_group_places,
    &sbx_group_attacks,
    &sbx_group_outside,
    &sbx_group_files,
    &sbx_group_meetings,
    &after,
};

/*
 * ROOTFS is partial with one user id: who owns an input file that is read-only
 * is the program, which can remove it.
 */
static void answer_with_one_id(struct sbx_item *item)
{
    if (strcmp(item->name, "change-read-only-input") != 0)
        return;
    item->control = SBX_CONTROL_ROOTFS;
    (void)snprintf(item->weaker, sizeof(item->weaker), "none");
}

void sbx_catalog_load(struct sbx_catalog *catalog, enum sbx_answers answers)
{
    catalog->count = 0;
    for (size_t i = 0; i < CR_ARRAY_SIZE(groups); i++) {
        const size_t count = groups[i]->count();

        assert(catalog->count + count <= SBX_ITEMS_MAX);
        for (size_t j = 0; j < count; j++)
            groups[i]->describe(j, &catalog->items[catalog->count++]);
    }
    for (size_t i = 0; i < catalog->count; i++) {
        if (answers == SBX_ANSWERS_DOCKER)
            sbx_docker_answer(&catalog->items[i]);
        else if (answers == SBX_ANSWERS_ONE_ID)
            answer_with_one_id(&catalog->items[i]);
    }
}

void sbx_catalog_run(struct sbx_tester *tester)
{
    size_t first = 0;

    for (size_t i = 0; i < CR_ARRAY_SIZE(groups); i++) {
        groups[i]->run(tester, first);
        first += groups[i]->count();
    }
}

size_t sbx_catalog_after_stop(void)
{
    size_t first = 0;

    for (size_t i = 0; groups[i] != &after; i++)
        first += groups[i]->count();
    return first;
}
