/* SPDX-License-Identifier: Apache-2.0 */

/* The programs of attacks.c, a box each, judged by the result. */
#include "common/patience.h"
#include "sandboxd/selftest/attacks.h"
#include "sandboxd/selftest/catalog.h"
#include "sandboxd/selftest/run.h"
#include "sandboxd/selftest/tester.h"

#include <errno.h>
#include <string.h>

/* A program without its limit is not waited for longer than this, and a little more on slow hosts.
 */
#define RED_DEADLINE_MS 6000
#define RED_DEADLINE_SLOW_MS 2000

static size_t count_attacks(void)
{
    size_t count;

    (void)sbx_attacks(&count);
    return count;
}

static void describe(size_t index, struct sbx_item *ret_item)
{
    size_t count;
    const struct sbx_attack *attack = &sbx_attacks(&count)[index];

    *ret_item =
        (struct sbx_item){.id = attack->id, .name = attack->name, .control = attack->control};
    sbx_attack_expected(attack, ret_item->expected, sizeof(ret_item->expected));
}

/* A whole output is compared as a whole; of a longer one something in it tells. */
static bool is_weaker(const struct sbx_item *item, const struct sbx_attack *attack,
                      const struct sbx_observed *observed)
{
    const size_t size = strlen(item->weaker);

    if (size == 0 || observed->verdict != (uint32_t)attack->verdict)
        return false;
    if (!attack->text)
        return strstr(observed->out, item->weaker) != NULL;
    return strncmp(observed->out, item->weaker, size) == 0 &&
           strcmp(observed->out + size, "\n") == 0;
}

static void run_one(struct sbx_tester *tester, const struct sbx_attack *attack, size_t index)
{
    const struct sbx_spec spec = {
        .behaviour = attack->behaviour,
        .argument = attack->argument,
        .limits = attack->limits,
        .deadline_ms = tester->only == SBX_EVERY_CONTROL
                           ? 0
                           : RED_DEADLINE_MS + RED_DEADLINE_SLOW_MS * (int)cr_patience(),
    };
    struct sbx_reply reply;
    char seen[112];
    int r = sbx_run(tester, &spec, &reply, seen, sizeof(seen));

    if (r < 0) {
        sbx_tester_report(tester, index, r == -ETIMEDOUT ? SBX_PROBE_FAIL : SBX_PROBE_ERROR, "%s",
                          r == -ETIMEDOUT ? "it does not end" : seen);
        return;
    }
    reply.observed.slowness = cr_patience();
    reply.observed.is_docker = tester->is_docker;
    if (sbx_attack_judge(attack, &reply.observed, seen, sizeof(seen)))
        sbx_tester_report(tester, index, SBX_PROBE_PASS, "%s", seen);
    else if (is_weaker(&tester->catalog->items[index], attack, &reply.observed))
        sbx_tester_report(tester, index, SBX_PROBE_GAP, "%s", tester->catalog->items[index].weaker);
    else
        sbx_tester_report(tester, index, SBX_PROBE_FAIL, "%s", seen);
    sbx_reply_done(&reply);
}

static void run_attacks(struct sbx_tester *tester, size_t first)
{
    size_t count;
    const struct sbx_attack *attacks = sbx_attacks(&count);

    for (size_t i = 0; i < count; i++) {
        if (sbx_tester_wants(tester, attacks[i].control) &&
            (tester->only == SBX_EVERY_CONTROL || attacks[i].shows_red))
            run_one(tester, &attacks[i], first + i);
    }
}

const struct sbx_group sbx_group_attacks = {count_attacks, describe, run_attacks};
