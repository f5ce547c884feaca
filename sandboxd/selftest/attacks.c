/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/attacks.h"

#include "common/auto.h"
#include "sandboxd/runtimes/table.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
/* What a busy machine may add to a limit of time. */
#define SLACK_US UINT64_C(5000000)

static uint64_t slack_us(const struct sbx_observed *observed)
{
    return SLACK_US * (observed->slowness > 0 ? observed->slowness : 1);
}

static bool was_counted(const struct sbx_observed *observed)
{
    return observed->process_limit_hits > 0 && observed->killed_leftovers > 50;
}

static bool was_oom_killed(const struct sbx_observed *observed)
{
    return observed->oom_kills >= 1 && observed->memory_peak_bytes <= 129 * MIB;
}

static bool got_its_share(const struct sbx_observed *observed)
{
    return observed->cpu_us <= observed->wall_us * 65 / 100;
}

static bool was_quick(const struct sbx_observed *observed)
{
    return observed->wall_us < slack_us(observed);
}

static bool lost_its_daemon(const struct sbx_observed *observed)
{
    return observed->killed_leftovers == 1 && was_quick(observed);
}

/* A wall limit of 300 ms. */
static bool ended_in_time(const struct sbx_observed *observed)
{
    return observed->wall_us >= 290000 && observed->wall_us < 300000 + slack_us(observed);
}

static bool claimed_nothing(const struct sbx_observed *observed)
{
    return !observed->has_hit && observed->oom_kills == 0;
}

static bool delivered_the_limit(const struct sbx_observed *observed)
{
    return observed->out_size == MIB && observed->err_size == 0;
}

static bool delivered_no_more_than_the_limit(const struct sbx_observed *observed)
{
    return observed->out_size <= MIB && observed->err_size <= MIB;
}

static bool is_given_name(const char *entry)
{
    for (const char *const *given = sbx_environment; *given; given++) {
        if (strcmp(*given, entry) == 0)
            return true;
    }
    return false;
}

/* Itself, by its number, "self" and "thread-self"; nobody else, and nothing of sandboxd's. */
static bool has_given_environment(const struct sbx_observed *observed)
{
    for (size_t at = 0; at < observed->out_size; at += strlen(observed->out + at) + 1) {
        if (!is_given_name(observed->out + at))
            return false;
    }
    return observed->out_size > 0;
}

static bool names_no_mount_of_the_host(const struct sbx_observed *observed)
{
    static const char *const forbidden[] = {"/home", "/root/", "overlay", "/var/lib"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(forbidden); i++) {
        if (strstr(observed->out, forbidden[i]))
            return false;
    }
    return strstr(observed->out, " /workspace ") != NULL;
}

static bool is_root_of_its_cgroup(const struct sbx_observed *observed)
{
    return (strstr(observed->out, ":memory:/\n") || strstr(observed->out, "0::/\n")) &&
           !strstr(observed->out, "crisol");
}

#define CONTROL(name) SBX_CONTROL_##name
#define VERDICT(name) SBX_VERDICT_##name
/* A program that claims an end that only the kernel can testify. */
#define CLAIM(title, how, number, result, code, signal_number)                                     \
    {                                                                                              \
        .id = "F05", .name = (title), .control = SBX_NO_CONTROL, .behaviour = (how),               \
        .argument = (number), .verdict = VERDICT(result), .exit_code = (code),                     \
        .signal = (signal_number), .judge = claimed_nothing                                        \
    }

/* The arguments bound what is tried, so that a box without the control does no harm. */
static const struct sbx_attack attacks[] = {
    {.id = "R01",
     .name = "fork-bomb",
     .control = CONTROL(PIDS),
     .behaviour = "fork-bomb",
     .argument = "200",
     .verdict = VERDICT(OK),
     .reason = "EAGAIN",
     .least = 55,
     .most = 63,
     .judge = was_counted,
     .shows_red = true}, /* 64 with itself and pid 1 */
    {.id = "R02",
     .name = "thread-bomb",
     .control = CONTROL(PIDS),
     .behaviour = "thread-bomb",
     .argument = "200",
     .verdict = VERDICT(OK),
     .reason = "EAGAIN",
     .least = 55,
     .most = 63},
    {.id = "R03",
     .name = "orphan-storm",
     .control = CONTROL(PIDS),
     .behaviour = "orphan-storm",
     .argument = "400",
     .limits[SBX_LIMIT_CPU_MILLICORES] = 2000,
     .verdict = VERDICT(OK)},
    {.id = "R05",
     .name = "eat-memory",
     .control = CONTROL(MEMORY),
     .behaviour = "eat-memory",
     .argument = "268435456",
     .verdict = VERDICT(MEMORY_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = was_oom_killed,
     .shows_red = true},
    {.id = "R06",
     .name = "eat-memory-in-child",
     .control = CONTROL(MEMORY),
     .behaviour = "eat-memory-in-child",
     .argument = "268435456",
     .verdict = VERDICT(MEMORY_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = was_oom_killed},
    {.id = "R07",
     .name = "fill-bytes",
     .control = CONTROL(TMPFS),
     .behaviour = "fill-bytes",
     .argument = "67108864",
     .limits[SBX_LIMIT_WORKSPACE_BYTES] = 16 * MIB,
     .verdict = VERDICT(OK),
     .reason = "ENOSPC",
     .least = 12 * MIB,
     .most = 16 * MIB,
     .shows_red = true},
    {.id = "R08",
     .name = "fill-inodes",
     .control = CONTROL(TMPFS),
     .behaviour = "fill-inodes",
     .argument = "6000",
     .verdict = VERDICT(OK),
     .reason = "ENOSPC",
     .least = 4000,
     .most = 4096,
     .docker_least = 3000},
    {.id = "R13",
     .name = "deep-stack",
     .control = CONTROL(RLIMITS),
     .behaviour = "recurse",
     .argument = "1000000",
     .verdict = VERDICT(SIGNALED),
     .signal = SIGSEGV},
    {.id = "R14",
     .name = "grow-file",
     .control = CONTROL(RLIMITS),
     .behaviour = "grow-file",
     .argument = "1099511627776",
     .verdict = VERDICT(FILE_SIZE_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .shows_red = true},
    {.id = "R17",
     .name = "open-files",
     .control = CONTROL(RLIMITS),
     .behaviour = "open-files",
     .argument = "5000",
     .verdict = VERDICT(OK),
     .reason = "EMFILE",
     .least = 1024,
     .most = 1024},
    {.id = "R20",
     .name = "spin-share",
     .control = CONTROL(CPU),
     .behaviour = "spin",
     .limits[SBX_LIMIT_WALL_TIME] = 1000,
     .verdict = VERDICT(WALL_TIME_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = got_its_share},
    {.id = "R20",
     .name = "spin-cpu-time",
     .control = CONTROL(CPU_TIME),
     .behaviour = "spin",
     .limits[SBX_LIMIT_CPU_TIME] = 200,
     .limits[SBX_LIMIT_WALL_TIME] = 20000, /* a busy host gives it little of a core */
     .verdict = VERDICT(CPU_TIME_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .shows_red = true},
    {.id = "R21",
     .name = "deaf",
     .control = CONTROL(WALL_TIME),
     .behaviour = "sleep-deaf",
     .limits[SBX_LIMIT_WALL_TIME] = 300,
     .verdict = VERDICT(WALL_TIME_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = ended_in_time,
     .shows_red = true},
    {.id = "R22",
     .name = "stopped",
     .control = CONTROL(WALL_TIME),
     .behaviour = "stop-self",
     .limits[SBX_LIMIT_WALL_TIME] = 300,
     .verdict = VERDICT(WALL_TIME_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = ended_in_time},
    {.id = "R28",
     .name = "close-and-exit",
     .control = CONTROL(WALL_TIME),
     .behaviour = "close-and-exit",
     .argument = "3",
     .verdict = VERDICT(NONZERO_EXIT),
     .exit_code = 3,
     .judge = was_quick},
    {.id = "R29",
     .name = "leave-daemon",
     .control = CONTROL(WALL_TIME),
     .behaviour = "leave-daemon",
     .verdict = VERDICT(OK),
     .judge = lost_its_daemon},
    {.id = "C23",
     .name = "leave-runners",
     .control = CONTROL(PIDS),
     .behaviour = "leave-runners",
     .verdict = VERDICT(OK),
     .judge = was_quick},
    {.id = "L01",
     .name = "environments",
     .control = CONTROL(PROC),
     .behaviour = "print-environments",
     .verdict = VERDICT(OK),
     .judge = has_given_environment},
    {.id = "L07",
     .name = "mount-table",
     .control = CONTROL(PROC),
     .behaviour = "print",
     .argument = "/proc/self/mountinfo",
     .verdict = VERDICT(OK),
     .judge = names_no_mount_of_the_host},
    {.id = "L07",
     .name = "own-cgroup",
     .control = CONTROL(PROC),
     .behaviour = "print",
     .argument = "/proc/self/cgroup",
     .verdict = VERDICT(OK),
     .judge = is_root_of_its_cgroup},
    {.id = "L09",
     .name = "count-processes",
     .control = CONTROL(PROC),
     .behaviour = "count-processes",
     .verdict = VERDICT(OK),
     .text = "1 none\n"},
    {.id = "R24",
     .name = "flood-stdout",
     .control = CONTROL(OUTPUT),
     .behaviour = "flood",
     .argument = "1 8388608",
     .verdict = VERDICT(OUTPUT_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = delivered_no_more_than_the_limit,
     .needs_front = true,
     .shows_red = true},
    {.id = "R25",
     .name = "flood-stderr",
     .control = CONTROL(OUTPUT),
     .behaviour = "flood",
     .argument = "2 8388608",
     .verdict = VERDICT(OUTPUT_LIMIT),
     .exit_code = -1,
     .signal = -1,
     .judge = delivered_no_more_than_the_limit,
     .needs_front = true},
    {.id = "R24",
     .name = "write-the-limit",
     .control = CONTROL(OUTPUT),
     .behaviour = "flood",
     .argument = "1 1048576",
     .verdict = VERDICT(OK),
     .judge = delivered_the_limit,
     .needs_front = true},
    {.id = "F04",
     .name = "forge-a-result",
     .control = SBX_NO_CONTROL,
     .behaviour = "forge",
     .verdict = VERDICT(NONZERO_EXIT),
     .exit_code = 1}, /* 99: it found an fd to write to */
    CLAIM("claim-kill", "die", "9", SIGNALED, 0, SIGKILL),
    CLAIM("claim-cpu-limit", "die", "24", SIGNALED, 0, SIGXCPU),
    CLAIM("claim-segv", "die", "11", SIGNALED, 0, SIGSEGV),
    CLAIM("claim-abort", "die", "6", SIGNALED, 0, SIGABRT),
    CLAIM("claim-real-time-signal", "die", "40", SIGNALED, 0, 40),
    CLAIM("claim-exit-137", "exit", "137", NONZERO_EXIT, 137, 0),
    CLAIM("claim-exit-124", "exit", "124", NONZERO_EXIT, 124, 0),
    CLAIM("claim-exit-255", "exit", "255", NONZERO_EXIT, 255, 0),
    CLAIM("claim-exit-256", "exit", "256", OK, 0, 0),
    CLAIM("claim-exit-1", "exit", "1", NONZERO_EXIT, 1, 0),
};

const struct sbx_attack *sbx_attacks(size_t *ret_count)
{
    *ret_count = CR_ARRAY_SIZE(attacks);
    return attacks;
}

/* Splits "count reason\n" of the program. */
static bool has_reached(const struct sbx_attack *attack, const char *out, bool is_docker)
{
    const uint64_t least =
        is_docker && attack->docker_least > 0 ? attack->docker_least : attack->least;
    char *end;
    const unsigned long long count = strtoull(out, &end, 10);
    const size_t size = strlen(attack->reason);

    return *end == ' ' && strncmp(end + 1, attack->reason, size) == 0 && end[1 + size] == '\n' &&
           count >= least && count <= attack->most;
}

/* -1: whatever the kernel made of it. */
static bool is_number(int expected, int seen)
{
    return expected < 0 || expected == seen;
}

bool sbx_attack_judge(const struct sbx_attack *attack, const struct sbx_observed *observed,
                      char *ret_seen, size_t size)
{
    (void)snprintf(ret_seen, size, "%s, exit %d, signal %d, %" PRIu64 " ms, '%.*s'",
                   sbx_verdict_name(observed->verdict), observed->exit_code, observed->signal,
                   observed->wall_us / 1000, (int)strcspn(observed->out, "\n"), observed->out);
    return observed->verdict == (uint32_t)attack->verdict &&
           is_number(attack->exit_code, observed->exit_code) &&
           is_number(attack->signal, observed->signal) &&
           (!attack->reason || has_reached(attack, observed->out, observed->is_docker)) &&
           (!attack->text || strcmp(attack->text, observed->out) == 0) &&
           (!attack->judge || attack->judge(observed));
}

void sbx_attack_expected(const struct sbx_attack *attack, char *ret_text, size_t size)
{
    if (attack->reason)
        (void)snprintf(ret_text, size, "%s after %" PRIu64 " to %" PRIu64, attack->reason,
                       attack->least, attack->most);
    else if (attack->text)
        (void)snprintf(ret_text, size, "'%.*s'", (int)strcspn(attack->text, "\n"), attack->text);
    else if (attack->exit_code > 0)
        (void)snprintf(ret_text, size, "%s, exit %d", sbx_verdict_name(attack->verdict),
                       attack->exit_code);
    else
        (void)snprintf(ret_text, size, "%s", sbx_verdict_name(attack->verdict));
}
