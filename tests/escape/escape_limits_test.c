/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The programs of sandboxd/selftest/attacks.c, over the wire: those that take
 * more than they may have (R of the catalogue), look around (L) or claim an
 * end that was not theirs (F). The self-test runs the same table by gRPC.
 */
#include "common/auto.h"
#include "common/unconst.h"
#include "sandboxd/selftest/attacks.h"
#include "tests/escape/box.h"
#include "tests/harness/test.h"

#include <string.h>

static void observe(const struct native_run *run, struct sbx_observed *ret_observed)
{
    *ret_observed = (struct sbx_observed){
        .verdict = run->result.verdict,
        .exit_code = run->result.exit_code,
        .signal = run->result.signal,
        .has_hit = run->result.has_hit != 0,
        .out = cr_buf_str(&run->out[0]),
        .out_size = run->out[0].size,
        .err_size = run->out[1].size,
        .wall_us = run->result.wall_us,
        .cpu_us = run->result.cpu_total_us,
        .memory_peak_bytes = run->result.memory_peak_bytes,
        .oom_kills = run->result.oom_kills,
        .process_limit_hits = run->result.process_limit_hits,
        .killed_leftovers = run->result.killed_leftovers,
        .slowness = test_slowness(),
    };
}

static void attack_ends_as_it_must(void **state)
{
    const struct sbx_attack *attack = *state;
    struct escape_spec spec = {.behaviour = attack->behaviour, .argument = attack->argument};
    struct sbx_observed observed;
    struct native_run run;
    char seen[256];
    char expected[64];

    memcpy(spec.limits, attack->limits, sizeof(spec.limits));
    escape_run(&spec, &run);

    observe(&run, &observed);
    sbx_attack_expected(attack, expected, sizeof(expected));
    if (!sbx_attack_judge(attack, &observed, seen, sizeof(seen)))
        fail_msg("%s %s: expected %s, seen %s", attack->id, attack->name, expected, seen);
    native_run_done(&run);
}

/* One cmocka test for each row; what the front has to stop is not for the wire. */
static size_t make_tests(struct CMUnitTest *tests)
{
    size_t count;
    const struct sbx_attack *attacks = sbx_attacks(&count);
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        if (attacks[i].needs_front)
            continue;
        tests[used++] = (struct CMUnitTest){
            .name = attacks[i].name,
            .test_func = attack_ends_as_it_must,
            .teardown_func = escape_check_next,
            .initial_state = cr_unconst(&attacks[i]),
        };
    }
    return used;
}

int main(void)
{
    static struct CMUnitTest tests[128];
    size_t count = make_tests(tests);

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return _cmocka_run_group_tests("attacks", tests, count, escape_start, escape_stop);
}
