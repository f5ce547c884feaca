/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/verdict.h"
#include "tests/harness/test.h"

#define CODE(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

static const struct {
    int code;
    int exit_code;
    int signal;
    const char *exec_error;
    int expected;
    bool is_own;
} cases[] = {
    {CODE(OK), 0, 0, "", 0, true},
    {CODE(NONZERO_EXIT), 137, 0, "", 137, true}, /* an exit, not a signal */
    {CODE(SIGNALED), 0, 11, "", 139, true},
    {CODE(WALL_TIME_LIMIT), 0, 9, "", 124, false},
    {CODE(CPU_TIME_LIMIT), 0, 9, "", 124, false},
    {CODE(MEMORY_LIMIT), 0, 9, "", 124, false},
    {CODE(PROCESS_LIMIT), 1, 0, "", 124, false},
    {CODE(OUTPUT_LIMIT), 0, 9, "", 124, false},
    {CODE(FILE_SIZE_LIMIT), 0, 25, "", 124, false},
    {CODE(DISK_LIMIT), 1, 0, "", 124, false},
    {CODE(SECURITY_VIOLATION), 0, 31, "", 124, false},
    {CODE(EXEC_FAILED), 0, 0, "execve: No such file or directory", 127, false},
    {CODE(EXEC_FAILED), 0, 0, "execve: Permission denied", 126, false},
    {CODE(COLLECT_FAILED), 0, 0, "", 1, false},
    {CODE(CANCELLED), 0, 9, "", 130, false},
    {CODE(SANDBOX_ERROR), 0, 0, "", 125, false},
    {CODE(SANDBOX_LOST), 0, 0, "", 125, false},
    {9999, 0, 0, "", 125, false},
};

static void exit_code_follows_the_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
        Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;

        verdict.code = (Crisol__Sandbox__V1__VerdictCode)cases[i].code;
        result.verdict = &verdict;
        result.exit_code = cases[i].exit_code;
        result.signal = cases[i].signal;
        result.exec_error = (char *)(uintptr_t)cases[i].exec_error;

        assert_int_equal(cli_verdict_exit_code(&result), cases[i].expected);
        assert_int_equal(cli_verdict_is_programs_own(&result), cases[i].is_own);
    }
}

static void a_missing_result_is_the_fault_of_the_service(void **state)
{
    Crisol__Sandbox__V1__ExecuteResult empty = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;

    (void)state;
    assert_int_equal(cli_verdict_exit_code(NULL), 125);
    assert_int_equal(cli_verdict_exit_code(&empty), 125);
}

static void verdict_names_lose_their_prefix(void **state)
{
    (void)state;
    assert_string_equal(cli_verdict_name(CODE(MEMORY_LIMIT)), "MEMORY_LIMIT");
    assert_string_equal(cli_verdict_name(9999), "UNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_code_follows_the_verdict),
        cmocka_unit_test(a_missing_result_is_the_fault_of_the_service),
        cmocka_unit_test(verdict_names_lose_their_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
