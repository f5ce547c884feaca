/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/front/result.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static const struct {
    struct sbx_msg_result wire;
    const char *summary;
    const char *message; /* part of it */
} rows[] = {
    {{.verdict = SBX_VERDICT_OK, .wall_us = 12345, .memory_peak_bytes = 8493465},
     "OK: exit 0 in 12 ms, 8.1 MiB",
     "exited with 0"},
    {{.verdict = SBX_VERDICT_NONZERO_EXIT, .exit_code = 3, .wall_us = 5000},
     "NONZERO_EXIT: exit 3 in 5 ms",
     "exited with 3"},
    {{.verdict = SBX_VERDICT_NONZERO_EXIT, .exit_code = 137, .wall_us = 5000},
     "NONZERO_EXIT: exit 137 in 5 ms",
     "exited with 137"},
    {{.verdict = SBX_VERDICT_SIGNALED,
      .signal = SIGSEGV,
      .wall_us = 7000,
      .memory_peak_bytes = 1U << 20},
     "SIGNALED: signal 11 (SIGSEGV) after 7 ms, 1 MiB",
     "SIGSEGV"},
    {{.verdict = SBX_VERDICT_SIGNALED, .signal = 64, .wall_us = 7000},
     "SIGNALED: signal 64 (SIGRTMAX) after 7 ms",
     "of signal 64 (SIGRTMAX)"},
    {{.verdict = SBX_VERDICT_WALL_TIME_LIMIT, .signal = SIGKILL, .wall_us = 10001000},
     "WALL_TIME_LIMIT: killed after 10001 ms",
     "10000 ms of wall time"},
    {{.verdict = SBX_VERDICT_WALL_TIME_LIMIT, .wall_us = 10001000, .cpu_throttled_us = 4900000},
     "WALL_TIME_LIMIT: killed after 10001 ms",
     "4900 ms of which cpu_millicores held"},
    {{.verdict = SBX_VERDICT_CPU_TIME_LIMIT, .wall_us = 9000000},
     "CPU_TIME_LIMIT: killed after 9000 ms",
     "10000 ms of CPU"},
    {{.verdict = SBX_VERDICT_MEMORY_LIMIT, .wall_us = 340000, .memory_peak_bytes = 128U << 20},
     "MEMORY_LIMIT: killed at 128 MiB after 340 ms",
     "134217728 bytes"},
    {{.verdict = SBX_VERDICT_PROCESS_LIMIT, .wall_us = 9000, .process_limit_hits = 12},
     "PROCESS_LIMIT: 64 processes, failed after 9 ms",
     "12 times"},
    {{.verdict = SBX_VERDICT_OUTPUT_LIMIT, .wall_us = 9000},
     "OUTPUT_LIMIT: killed at 1 MiB of output after 9 ms",
     "stderr passed the limit of 1048576 bytes"},
    {{.verdict = SBX_VERDICT_FILE_SIZE_LIMIT, .wall_us = 1000},
     "FILE_SIZE_LIMIT: after 1 ms",
     "67108864"},
    {{.verdict = SBX_VERDICT_DISK_LIMIT, .wall_us = 1000}, "DISK_LIMIT: after 1 ms", "was full"},
    {{.verdict = SBX_VERDICT_SECURITY_VIOLATION, .signal = SIGSYS, .wall_us = 1000},
     "SECURITY_VIOLATION: signal 31 (SIGSYS) after 1 ms",
     "attack"},
    {{.verdict = SBX_VERDICT_EXEC_FAILED, .stage = SBX_STAGE_EXEC, .stage_errno = ENOENT},
     "EXEC_FAILED: the program could not be started: No such file or directory",
     "No such file"},
    {{.verdict = SBX_VERDICT_COLLECT_FAILED, .wall_us = 2000},
     "COLLECT_FAILED: exit 0 in 2 ms",
     "'out.txt'"},
    {{.verdict = SBX_VERDICT_CANCELLED}, "CANCELLED: cancelled by the caller", "cancelled"},
    {{.verdict = SBX_VERDICT_SANDBOX_ERROR, .stage = SBX_STAGE_MOUNT, .stage_errno = EPERM},
     "SANDBOX_ERROR: the sandbox failed, not the program (step mount: Operation not permitted)",
     "step mount"},
    {{.verdict = SBX_VERDICT_SANDBOX_LOST},
     "SANDBOX_LOST: the sandbox vanished in mid-run; the program is dead",
     "vanished"},
};

static void texts_say_what_happened_for_every_verdict(void **state)
{
    struct sbx_output outputs[2] = {{.dropped = 0}, {.dropped = 1}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct sbx_verdict_facts facts = {
            .wire = &rows[i].wire,
            .limits = &sbx_default_limits,
            .outputs = {&outputs[0], &outputs[1]},
            .missing_file = "out.txt",
        };
        char text[SBX_RESULT_TEXT_MAX];

        sbx_verdict_summary(&facts, text, sizeof(text));
        assert_string_equal(text, rows[i].summary);
        sbx_verdict_message(&facts, text, sizeof(text));
        if (!strstr(text, rows[i].message))
            fail_msg("'%s' is not in '%s'", rows[i].message, text);
    }
}

static void summary_counts_tests(void **state)
{
    Crisol__Sandbox__V1__TestReport report = CRISOL__SANDBOX__V1__TEST_REPORT__INIT;
    struct sbx_msg_result wire = {.verdict = SBX_VERDICT_NONZERO_EXIT, .exit_code = 1};
    struct sbx_verdict_facts facts = {
        .wire = &wire, .limits = &sbx_default_limits, .report = &report};
    char text[SBX_RESULT_TEXT_MAX];

    (void)state;
    report.is_present = true;
    report.tests = 3;
    report.passed = 2;
    report.failed = 1;
    sbx_verdict_summary(&facts, text, sizeof(text));
    assert_string_equal(text,
                        "NONZERO_EXIT: exit 1 in 0 ms; 3 tests: 2 passed, 1 failed, 0 errors, "
                        "0 skipped");
}

static void summary_is_cut_to_its_room(void **state)
{
    struct sbx_msg_result wire = {.verdict = SBX_VERDICT_OK, .memory_peak_bytes = 1};
    struct sbx_verdict_facts facts = {.wire = &wire, .limits = &sbx_default_limits};
    char text[8];

    (void)state;
    sbx_verdict_summary(&facts, text, sizeof(text));
    assert_string_equal(text, "OK: exi");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_say_what_happened_for_every_verdict),
        cmocka_unit_test(summary_counts_tests),
        cmocka_unit_test(summary_is_cut_to_its_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
