/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/tester.h"

#include "sandboxd/selftest/catalog.h"
#include "sandboxd/selftest/probes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool sbx_tester_wants(const struct sbx_tester *tester, uint32_t control)
{
    return tester->only == SBX_EVERY_CONTROL || tester->only == control;
}

void sbx_tester_report(struct sbx_tester *tester, size_t index, enum sbx_status status,
                       const char *format, ...)
{
    struct sbx_outcome outcome = {.index = (uint32_t)index, .status = (uint32_t)status};
    va_list values;

    va_start(values, format);
    (void)vsnprintf(outcome.seen, sizeof(outcome.seen), format, values);
    va_end(values);
    /* Less than PIPE_BUF: whole or not at all. A reader that is gone has ended us already. */
    (void)!write(tester->outcome_fd, &outcome, sizeof(outcome));
}

void sbx_tester_compare(struct sbx_tester *tester, size_t index, const char *seen)
{
    const struct sbx_item *item = &tester->catalog->items[index];
    enum sbx_status status = SBX_PROBE_FAIL;

    if (probe_fits(item->expected, seen))
        status = SBX_PROBE_PASS;
    else if (item->weaker[0] && probe_fits(item->weaker, seen))
        status = SBX_PROBE_GAP;
    sbx_tester_report(tester, index, status, "%s", seen);
}
