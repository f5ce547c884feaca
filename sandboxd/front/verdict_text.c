/* SPDX-License-Identifier: Apache-2.0 */
#include "common/signal_name.h"
#include "sandboxd/front/forbidden_call.h"
#include "sandboxd/front/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHORT_TEXT_MAX 160
#define BYTES_TEXT_MAX 32

static uint64_t ms(uint64_t us)
{
    return us / 1000;
}

/* "8.1 MiB", "128 MiB", "512 bytes". */
static void format_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, size,
                   unit == 0 || value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value,
                   units[unit]);
}

static void message_of_wall_limit(const struct sbx_verdict_facts *facts, char *text, size_t size)
{
    uint64_t wall_ms = facts->limits->value[SBX_LIMIT_WALL_TIME];
    uint64_t throttled_ms = ms(facts->wire->cpu_throttled_us);

    /* A third of the time held back is what a person has to know before raising the wall limit. */
    if (throttled_ms >= wall_ms / 3)
        (void)snprintf(text, size,
                       "killed after %" PRIu64 " ms of wall time, for %" PRIu64
                       " ms of which cpu_millicores held the program back",
                       wall_ms, throttled_ms);
    else
        (void)snprintf(text, size, "killed after %" PRIu64 " ms of wall time", wall_ms);
}

static void message_of_limit(const struct sbx_verdict_facts *facts, char *text, size_t size)
{
    const uint64_t *limit = facts->limits->value;

    switch (facts->wire->verdict) {
    case SBX_VERDICT_WALL_TIME_LIMIT:
        message_of_wall_limit(facts, text, size);
        break;
    case SBX_VERDICT_CPU_TIME_LIMIT:
        (void)snprintf(text, size, "used more than %" PRIu64 " ms of CPU time",
                       limit[SBX_LIMIT_CPU_TIME]);
        break;
    case SBX_VERDICT_MEMORY_LIMIT:
        (void)snprintf(text, size, "killed by the kernel at the memory limit of %" PRIu64 " bytes",
                       limit[SBX_LIMIT_MEMORY]);
        break;
    case SBX_VERDICT_PROCESS_LIMIT:
        (void)snprintf(text, size,
                       "hit the limit of %" PRIu64 " processes and threads %" PRIu32
                       " times and failed",
                       limit[SBX_LIMIT_PROCESSES], facts->wire->process_limit_hits);
        break;
    case SBX_VERDICT_OUTPUT_LIMIT:
        (void)snprintf(text, size, "%s passed the limit of %" PRIu64 " bytes",
                       facts->outputs[0]->dropped > 0 ? "stdout" : "stderr",
                       limit[SBX_LIMIT_OUTPUT]);
        break;
    case SBX_VERDICT_FILE_SIZE_LIMIT:
        (void)snprintf(text, size, "a file passed the limit of %" PRIu64 " bytes",
                       limit[SBX_LIMIT_FILE_SIZE]);
        break;
    default:
        (void)snprintf(text, size,
                       "the workspace of %" PRIu64 " bytes and %" PRIu64
                       " inodes was full and the program failed",
                       limit[SBX_LIMIT_WORKSPACE_BYTES], limit[SBX_LIMIT_WORKSPACE_INODES]);
        break;
    }
}

static void message_of_failure(const struct sbx_verdict_facts *facts, char *text, size_t size)
{
    const struct sbx_msg_result *wire = facts->wire;
    const char *reason = strerrordesc_np(wire->stage_errno);

    if (wire->verdict == SBX_VERDICT_EXEC_FAILED)
        (void)snprintf(text, size, "the program could not be started: %s",
                       reason ? reason : "unknown error");
    else if (wire->verdict == SBX_VERDICT_SANDBOX_LOST)
        (void)snprintf(text, size, "the sandbox vanished in mid-run; the program is dead");
    else if (wire->stage_errno != 0)
        (void)snprintf(text, size, "the sandbox failed, not the program (step %s: %s)",
                       sbx_stage_name(wire->stage), reason ? reason : "unknown error");
    else
        (void)snprintf(text, size, "the sandbox failed, not the program (step %s)",
                       sbx_stage_name(wire->stage));
}

static void message_of_violation(const struct sbx_msg_result *wire, char *text, size_t size)
{
    char call[SHORT_TEXT_MAX];

    if (!wire->has_forbidden_call) {
        (void)snprintf(text, size, "the program made a system call that only an attack makes");
        return;
    }
    sbx_forbidden_call_name(wire->forbidden_call, call, sizeof(call));
    (void)snprintf(text, size, "the program made a system call that only an attack makes: %s",
                   call);
}

void sbx_verdict_message(const struct sbx_verdict_facts *facts, char *text, size_t size)
{
    const struct sbx_msg_result *wire = facts->wire;
    char signal[CR_SIGNAL_NAME_SIZE];

    switch (wire->verdict) {
    case SBX_VERDICT_OK:
    case SBX_VERDICT_NONZERO_EXIT:
        (void)snprintf(text, size, "the program exited with %" PRId32, wire->exit_code);
        break;
    case SBX_VERDICT_SIGNALED:
        (void)snprintf(text, size, "the program died of signal %" PRId32 " (%s)", wire->signal,
                       cr_signal_name(wire->signal, signal));
        break;
    case SBX_VERDICT_SECURITY_VIOLATION:
        message_of_violation(wire, text, size);
        break;
    case SBX_VERDICT_COLLECT_FAILED:
        (void)snprintf(text, size, "the required file '%.128s' could not be collected",
                       facts->missing_file ? facts->missing_file : "");
        break;
    case SBX_VERDICT_CANCELLED:
        (void)snprintf(text, size, "cancelled by the caller");
        break;
    case SBX_VERDICT_EXEC_FAILED:
    case SBX_VERDICT_SANDBOX_ERROR:
    case SBX_VERDICT_SANDBOX_LOST:
        message_of_failure(facts, text, size);
        break;
    default:
        message_of_limit(facts, text, size);
        break;
    }
}

/* What stands between the colon and the usage. */
static void describe_end(const struct sbx_verdict_facts *facts, char *text, size_t size)
{
    const struct sbx_msg_result *wire = facts->wire;
    char bytes[BYTES_TEXT_MAX];
    char signal[CR_SIGNAL_NAME_SIZE];

    switch (wire->verdict) {
    case SBX_VERDICT_OK:
    case SBX_VERDICT_NONZERO_EXIT:
    case SBX_VERDICT_COLLECT_FAILED:
        (void)snprintf(text, size, "exit %" PRId32 " in %" PRIu64 " ms", wire->exit_code,
                       ms(wire->wall_us));
        break;
    case SBX_VERDICT_SIGNALED:
    case SBX_VERDICT_SECURITY_VIOLATION:
        (void)snprintf(text, size, "signal %" PRId32 " (%s) after %" PRIu64 " ms", wire->signal,
                       cr_signal_name(wire->signal, signal), ms(wire->wall_us));
        break;
    case SBX_VERDICT_MEMORY_LIMIT:
        format_bytes(facts->limits->value[SBX_LIMIT_MEMORY], bytes, sizeof(bytes));
        (void)snprintf(text, size, "killed at %s after %" PRIu64 " ms", bytes, ms(wire->wall_us));
        break;
    case SBX_VERDICT_PROCESS_LIMIT:
        (void)snprintf(text, size, "%" PRIu64 " processes, failed after %" PRIu64 " ms",
                       facts->limits->value[SBX_LIMIT_PROCESSES], ms(wire->wall_us));
        break;
    case SBX_VERDICT_OUTPUT_LIMIT:
        format_bytes(facts->limits->value[SBX_LIMIT_OUTPUT], bytes, sizeof(bytes));
        (void)snprintf(text, size, "killed at %s of output after %" PRIu64 " ms", bytes,
                       ms(wire->wall_us));
        break;
    case SBX_VERDICT_WALL_TIME_LIMIT:
    case SBX_VERDICT_CPU_TIME_LIMIT:
        (void)snprintf(text, size, "killed after %" PRIu64 " ms", ms(wire->wall_us));
        break;
    default:
        (void)snprintf(text, size, "after %" PRIu64 " ms", ms(wire->wall_us));
        break;
    }
}

/* Cuts what does not fit. Returns the new length. */
static size_t append(char *text, size_t size, size_t used, const char *more)
{
    while (*more && used + 1 < size)
        text[used++] = *more++;
    text[used] = '\0';
    return used;
}

void sbx_verdict_summary(const struct sbx_verdict_facts *facts, char *text, size_t size)
{
    const struct sbx_msg_result *wire = facts->wire;
    char part[SHORT_TEXT_MAX];
    char bytes[BYTES_TEXT_MAX];
    size_t used = append(text, size, 0, sbx_verdict_name(wire->verdict));

    used = append(text, size, used, ": ");
    if (wire->verdict == SBX_VERDICT_CANCELLED || wire->verdict == SBX_VERDICT_SANDBOX_ERROR ||
        wire->verdict == SBX_VERDICT_SANDBOX_LOST || wire->verdict == SBX_VERDICT_EXEC_FAILED) {
        sbx_verdict_message(facts, text + used, size - used);
        return;
    }
    describe_end(facts, part, sizeof(part));
    used = append(text, size, used, part);
    if (wire->memory_peak_bytes > 0 && wire->verdict != SBX_VERDICT_MEMORY_LIMIT) {
        format_bytes(wire->memory_peak_bytes, bytes, sizeof(bytes));
        used = append(text, size, used, ", ");
        used = append(text, size, used, bytes);
    }
    if (facts->report && facts->report->is_present) {
        (void)snprintf(part, sizeof(part),
                       "; %" PRIu32 " tests: %" PRIu32 " passed, %" PRIu32 " failed, %" PRIu32
                       " errors, %" PRIu32 " skipped",
                       facts->report->tests, facts->report->passed, facts->report->failed,
                       facts->report->errors, facts->report->skipped);
        (void)append(text, size, used, part);
    }
}
