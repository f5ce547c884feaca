/* SPDX-License-Identifier: Apache-2.0 */

/* The single attempts of probes_calls.c and probes_places.c: one box each, a child per attempt.
 * Those whose right answer ends the run have a box each. */
#include "sandboxd/selftest/probes.h"
#include "sandboxd/selftest/run.h"
#include "sandboxd/selftest/tester.h"

#include <stdio.h>
#include <string.h>

typedef const struct probe *(*table_fn)(size_t *ret_count);

static size_t count_of(table_fn table)
{
    size_t count;

    (void)table(&count);
    return count;
}

static void describe_of(table_fn table, size_t index, struct sbx_item *ret_item)
{
    size_t count;
    const struct probe *probe = &table(&count)[index];

    *ret_item = (struct sbx_item){.id = probe->id, .name = probe->name, .control = probe->control};
    (void)snprintf(ret_item->expected, sizeof(ret_item->expected), "%s", probe->expected);
}

/* The result of `name` in lines of "name result\n"; "" when it is missing. */
static void find_result(const char *lines, const char *name, char *ret_result, size_t size)
{
    const size_t length = strlen(name);

    ret_result[0] = '\0';
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, length) != 0 || line[length] != ' ')
            continue;
        (void)snprintf(ret_result, size, "%.*s", (int)strcspn(line + length + 1, "\n"),
                       line + length + 1);
        return;
    }
}

static bool is_wanted(const struct sbx_tester *tester, table_fn table)
{
    size_t count;
    const struct probe *probes = table(&count);

    /* With the network of the host these would call addresses that do exist. */
    if (tester->only == SBX_CONTROL_NETWORK)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (sbx_tester_wants(tester, probes[i].control))
            return true;
    }
    return false;
}

static void judge(struct sbx_tester *tester, table_fn table, size_t first, const char *lines)
{
    size_t count;
    const struct probe *probes = table(&count);

    for (size_t i = 0; i < count; i++) {
        char seen[64];

        if (!sbx_tester_wants(tester, probes[i].control) || probe_is_deadly(&probes[i]))
            continue;
        find_result(lines, probes[i].name, seen, sizeof(seen));
        if (seen[0])
            sbx_tester_compare(tester, first + i, seen);
        else
            sbx_tester_report(tester, first + i, SBX_PROBE_ERROR, "the program did not say");
    }
}

static void run_of(struct sbx_tester *tester, table_fn table, const char *what, size_t first)
{
    char control[16];
    struct sbx_spec spec = {.behaviour = what};
    struct sbx_reply reply;
    size_t count;
    const struct probe *probes = table(&count);
    char problem[96];

    if (!is_wanted(tester, table))
        return;
    (void)snprintf(control, sizeof(control), "%u", tester->only);
    if (tester->only != SBX_EVERY_CONTROL)
        spec.argument = control;
    if (sbx_run(tester, &spec, &reply, problem, sizeof(problem)) < 0) {
        for (size_t i = 0; i < count; i++) {
            if (!probe_is_deadly(&probes[i]))
                sbx_tester_report(tester, first + i, SBX_PROBE_ERROR, "%s", problem);
        }
        return;
    }
    judge(tester, table, first, reply.observed.out);
    sbx_reply_done(&reply);
}

/* The verdict is the answer; a program that goes on tells it itself. */
static void run_deadly(struct sbx_tester *tester, const struct probe *probe, size_t index)
{
    struct sbx_spec spec = {.behaviour = "call", .argument = probe->name};
    struct sbx_reply reply;
    char problem[96];
    char seen[64];

    if (sbx_run(tester, &spec, &reply, problem, sizeof(problem)) < 0) {
        sbx_tester_report(tester, index, SBX_PROBE_ERROR, "%s", problem);
        return;
    }
    if (reply.result->verdict->code ==
        CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SECURITY_VIOLATION)
        (void)snprintf(seen, sizeof(seen), "SIGSYS");
    else
        find_result(reply.observed.out, probe->name, seen, sizeof(seen));
    if (seen[0])
        sbx_tester_compare(tester, index, seen);
    else
        sbx_tester_report(tester, index, SBX_PROBE_ERROR, "the program did not say");
    sbx_reply_done(&reply);
}

static size_t count_calls(void)
{
    return count_of(probes_calls);
}

static void describe_call(size_t index, struct sbx_item *ret_item)
{
    describe_of(probes_calls, index, ret_item);
}

static void run_calls(struct sbx_tester *tester, size_t first)
{
    size_t count;
    const struct probe *probes = probes_calls(&count);

    run_of(tester, probes_calls, "calls", first);
    for (size_t i = 0; i < count; i++) {
        if (probe_is_deadly(&probes[i]) && tester->only != SBX_CONTROL_NETWORK &&
            sbx_tester_wants(tester, probes[i].control))
            run_deadly(tester, &probes[i], first + i);
    }
}

static size_t count_places(void)
{
    return count_of(probes_places);
}

static void describe_place(size_t index, struct sbx_item *ret_item)
{
    describe_of(probes_places, index, ret_item);
}

static void run_places(struct sbx_tester *tester, size_t first)
{
    run_of(tester, probes_places, "places", first);
}

const struct sbx_group sbx_group_calls = {count_calls, describe_call, run_calls};
const struct sbx_group sbx_group_places = {count_places, describe_place, run_places};
