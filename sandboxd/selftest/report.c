/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/report.h"

#include "common/err.h"

#include <stdio.h>
#include <string.h>

#include <sys/utsname.h>

static const char *const status_names[] = {
    [SBX_PROBE_PASS] = "PASS", [SBX_PROBE_FAIL] = "FAIL",   [SBX_PROBE_GAP] = "GAP",
    [SBX_PROBE_SKIP] = "SKIP", [SBX_PROBE_ERROR] = "ERROR",
};

static const char *class_of(const char *id)
{
    switch (id[0]) {
    case 'E':
        return "escape";
    case 'R':
        return "resources";
    case 'L':
        return "leaks";
    case 'F':
        return "forged results";
    default:
        return "files and leftovers";
    }
}

static bool is_in(uint32_t bits, uint32_t control)
{
    return control < SBX_CONTROL_COUNT && (bits & (UINT32_C(1) << control)) != 0;
}

/* ---- what is accepted ---- */

uint32_t sbx_report_find_control(const char *name, size_t size)
{
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        const char *known = sbx_control_name(i);

        if (strlen(known) == size && memcmp(known, name, size) == 0)
            return i;
    }
    return SBX_NO_CONTROL;
}

/* Accepts one name. Several probes may share it: one of them would be no use. */
static bool accept_name(struct sbx_report *report, const char *name, size_t size)
{
    const uint32_t control = sbx_report_find_control(name, size);
    bool is_known = control != SBX_NO_CONTROL;

    if (is_known)
        report->accepted |= UINT32_C(1) << control;
    for (size_t i = 0; i < report->catalog.count; i++) {
        const char *known = report->catalog.items[i].name;

        if (strlen(known) != size || memcmp(known, name, size) != 0)
            continue;
        report->is_accepted[i] = true;
        is_known = true;
    }
    return is_known;
}

int sbx_report_accept(struct sbx_report *report, const char *names, struct cr_err *err)
{
    for (const char *at = names; at && *at;) {
        const size_t size = strcspn(at, ",");

        if (!accept_name(report, at, size))
            return cr_err_set(err, EINVAL,
                              "--accept: '%.*s' is neither a control nor a probe; the lines of the "
                              "report begin with both names",
                              (int)size, at);
        at += size + (at[size] == ',');
    }
    return 0;
}

bool sbx_report_accepts(const struct sbx_report *report, size_t index)
{
    return report->is_accepted[index] ||
           is_in(report->accepted, report->catalog.items[index].control);
}

void sbx_report_settle(struct sbx_report *report)
{
    for (size_t i = 0; i < report->catalog.count; i++) {
        const uint32_t control = report->catalog.items[i].control;

        if (report->status[i] == SBX_PROBE_FAIL && is_in(report->gaps, control) &&
            control != report->weakened)
            report->status[i] = SBX_PROBE_GAP;
    }
}

static uint32_t count_exactly(const struct sbx_report *report, uint32_t control,
                              enum sbx_status status)
{
    uint32_t count = 0;

    for (size_t i = 0; i < report->catalog.count; i++)
        count += (control == SBX_NO_CONTROL || report->catalog.items[i].control == control) &&
                 report->status[i] == (uint32_t)status;
    return count;
}

uint32_t sbx_report_count(const struct sbx_report *report, uint32_t control, enum sbx_status status)
{
    const uint32_t count = count_exactly(report, control, status);

    return status == SBX_PROBE_ERROR ? count + count_exactly(report, control, SBX_PROBE_NONE)
                                     : count;
}

/* They have one line together: there may be as many as probes. */
static uint32_t count_unanswered(const struct sbx_report *report)
{
    return count_exactly(report, SBX_NO_CONTROL, SBX_PROBE_NONE);
}

static uint32_t count_executed(const struct sbx_report *report, uint32_t control)
{
    return sbx_report_count(report, control, SBX_PROBE_PASS) +
           sbx_report_count(report, control, SBX_PROBE_FAIL) +
           sbx_report_count(report, control, SBX_PROBE_GAP);
}

static uint32_t count_red(const struct sbx_report *report)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++)
        count += report->red[i] > 0;
    return count;
}

/* Probes of `control` (SBX_NO_CONTROL: of all) whose gap nobody accepted. */
static uint32_t count_unaccepted(const struct sbx_report *report, uint32_t control)
{
    uint32_t count = 0;

    for (size_t i = 0; i < report->catalog.count; i++)
        count += (control == SBX_NO_CONTROL || report->catalog.items[i].control == control) &&
                 report->status[i] == SBX_PROBE_GAP && !sbx_report_accepts(report, i);
    return count;
}

static uint32_t unaccepted_gaps(const struct sbx_report *report)
{
    uint32_t gaps = report->gaps & ~report->accepted;

    return report->weakened < SBX_CONTROL_COUNT ? gaps & ~(UINT32_C(1) << report->weakened) : gaps;
}

bool sbx_report_is_good(const struct sbx_report *report)
{
    return !report->problem[0] && sbx_report_count(report, SBX_NO_CONTROL, SBX_PROBE_FAIL) == 0 &&
           sbx_report_count(report, SBX_NO_CONTROL, SBX_PROBE_ERROR) == 0 &&
           unaccepted_gaps(report) == 0 && count_unaccepted(report, SBX_NO_CONTROL) == 0 &&
           count_red(report) == SBX_CONTROL_COUNT;
}

/* ---- text ---- */

static void print_controls(const struct sbx_report *report)
{
    (void)printf("%-16s %7s %6s   %s\n", "control", "probes", "held", "left out on purpose");
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        const char *name = sbx_control_name(i);
        const char *gap = "";

        if (is_in(unaccepted_gaps(report), i))
            gap = "  GAP: this host cannot enforce it";
        else if (is_in(report->gaps, i) && i != report->weakened)
            gap = "  GAP, accepted";
        else if (sbx_report_count(report, i, SBX_PROBE_GAP) > 0)
            gap = count_unaccepted(report, i) > 0
                      ? "  PARTIAL on this backend: the lines below say how"
                      : "  PARTIAL on this backend, accepted";
        (void)printf("%-16s %7u %6u   ", name, count_executed(report, i),
                     sbx_report_count(report, i, SBX_PROBE_PASS));
        if (report->red[i] > 0)
            (void)printf("%u probes fail, as they must%s\n", report->red[i], gap);
        else
            (void)printf("NO PROBE FAILS %s%s\n", report->red_problem[i], gap);
    }
}

/* What is said of a probe behind what it saw. */
static const char *acceptance(const struct sbx_report *report, size_t index)
{
    if (report->status[index] != SBX_PROBE_GAP)
        return "";
    return sbx_report_accepts(report, index) ? "; accepted" : "; not accepted (--accept=NAME)";
}

static void print_probes(const struct sbx_report *report)
{
    for (size_t i = 0; i < report->catalog.count; i++) {
        const struct sbx_item *item = &report->catalog.items[i];

        if (report->status[i] != SBX_PROBE_PASS && report->status[i] != SBX_PROBE_NONE)
            (void)printf("%-5s %s %s (%s): expected %s, seen %s%s\n",
                         status_names[report->status[i]], item->id, item->name,
                         item->control < SBX_CONTROL_COUNT ? sbx_control_name(item->control)
                                                           : "no single control",
                         item->expected, report->seen[i], acceptance(report, i));
    }
    if (count_unanswered(report) > 0)
        (void)printf("ERROR %u probes have no answer\n", count_unanswered(report));
}

void sbx_report_print_text(const struct sbx_report *report)
{
    if (count_executed(report, SBX_NO_CONTROL) > 0)
        print_controls(report);
    print_probes(report);
    if (report->problem[0])
        (void)printf("ERROR %s\n", report->problem);
    (void)printf(
        "%u probes executed: %u PASS, %u FAIL, %u GAP (%u not accepted), %u ERROR; %u of %u "
        "controls seen to fail when left out\n",
        count_executed(report, SBX_NO_CONTROL),
        sbx_report_count(report, SBX_NO_CONTROL, SBX_PROBE_PASS),
        sbx_report_count(report, SBX_NO_CONTROL, SBX_PROBE_FAIL),
        sbx_report_count(report, SBX_NO_CONTROL, SBX_PROBE_GAP),
        count_unaccepted(report, SBX_NO_CONTROL),
        sbx_report_count(report, SBX_NO_CONTROL, SBX_PROBE_ERROR), count_red(report),
        (unsigned int)SBX_CONTROL_COUNT);
}

/* ---- JSON ---- */

/* What a program wrote is among it: everything that is not plain ASCII goes as \u00XX. */
static void print_string(const char *text)
{
    (void)putchar('"');
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;

        if (byte == '"' || byte == '\\')
            (void)printf("\\%c", byte);
        else if (byte < 0x20 || byte >= 0x7f)
            (void)printf("\\u%04x", byte);
        else
            (void)putchar(byte);
    }
    (void)putchar('"');
}

static void print_member(const char *key, const char *text, const char *behind)
{
    (void)printf("\"%s\":", key);
    print_string(text);
    (void)fputs(behind, stdout);
}

static void print_probe(const struct sbx_report *report, size_t index)
{
    const struct sbx_item *item = &report->catalog.items[index];

    (void)putchar('{');
    print_member("id", item->id, ",");
    print_member("name", item->name, ",");
    print_member("class", class_of(item->id), ",");
    print_member("status", status_names[report->status[index]], ",");
    print_member("expected", item->expected, ",");
    print_member("seen", report->seen[index], ",");
    if (report->status[index] == SBX_PROBE_GAP)
        (void)printf("\"is_accepted\":%s,", sbx_report_accepts(report, index) ? "true" : "false");
    if (item->control < SBX_CONTROL_COUNT)
        print_member("control", sbx_control_name(item->control), "}");
    else
        (void)printf("\"control\":null}");
}

static void print_control(const struct sbx_report *report, uint32_t control)
{
    (void)printf("%s{", control > 0 ? ",\n  " : "\n  ");
    print_member("name", sbx_control_name(control), ",");
    (void)printf("\"probes\":%u,\"held\":%u,\"weaker\":%u,\"not_accepted\":%u,\"is_gap\":%s,"
                 "\"is_accepted\":%s,\"red_seen\":%s,\"red_probes\":%u,",
                 count_executed(report, control), sbx_report_count(report, control, SBX_PROBE_PASS),
                 sbx_report_count(report, control, SBX_PROBE_GAP),
                 count_unaccepted(report, control), is_in(report->gaps, control) ? "true" : "false",
                 is_in(report->accepted, control) ? "true" : "false",
                 report->red[control] > 0 ? "true" : "false", report->red[control]);
    print_member("red_problem", report->red_problem[control], "}");
}

void sbx_report_print_json(const struct sbx_report *report)
{
    const char *separator = "\n  ";
    struct utsname host = {0};

    (void)uname(&host);
    (void)printf("{\"host\":{");
    print_member("kernel", host.release, ",");
    print_member("machine", host.machine, "},");
    (void)printf("\n \"backend\":\"%s\",\n \"is_good\":%s,\n \"probes\":[", report->backend,
                 sbx_report_is_good(report) ? "true" : "false");
    for (size_t i = 0; i < report->catalog.count; i++) {
        if (report->status[i] == SBX_PROBE_NONE)
            continue;
        (void)fputs(separator, stdout);
        separator = ",\n  ";
        print_probe(report, i);
    }
    (void)printf("],\n \"unanswered\":%u,\n \"controls\":[", count_unanswered(report));
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++)
        print_control(report, i);
    (void)printf("],\n ");
    print_member("problem", report->problem, "}\n");
}
