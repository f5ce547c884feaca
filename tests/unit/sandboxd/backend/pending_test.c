/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/pending.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

#define STATUS(own, shared)                                                                        \
    "Name:\tinit\nSigQ:\t0/1\nSigPnd:\t" own "\nShdPnd:\t" shared "\nSigBlk:\t0000000000000100\n"

static void sigkill_is_the_ninth_bit_of_either_mask(void **state)
{
    static const struct {
        const char *text;
        int r;
        bool is_killed;
    } rows[] = {
        {STATUS("0000000000000000", "0000000000000000"), 0, false},
        {STATUS("0000000000000100", "0000000000000000"), 0, true},
        {STATUS("0000000000000000", "0000000000000100"), 0, true},
        {STATUS("0000000000000080", "ffffffff00020200"), 0, false},
        {STATUS("", "0000000000000000"), -EPROTO, false},
        {STATUS("0000000000000000", "killed"), -EPROTO, false},
        {"Name:\tinit\nSigPnd:\t0000000000000000", -EPROTO, false},
        {"", -EPROTO, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_killed = false;

        assert_int_equal(sbx_pending_parse(rows[i].text, &is_killed), rows[i].r);
        assert_int_equal(is_killed, rows[i].is_killed);
    }
}

/* As one that is frozen: what it was sent waits. Not SIGKILL, which nobody can hold back. */
static void a_process_that_lives_is_read(void **state)
{
    int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        for (;;)
            (void)pause();
    assert_true(pid > 0);
    assert_false(sbx_pending_has_kill(AT_FDCWD, pid));
    assert_false(sbx_pending_has_kill(proc_fd, pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(sbx_pending_has_kill(proc_fd, pid)); /* nobody has that number */
    assert_int_equal(close(proc_fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigkill_is_the_ninth_bit_of_either_mask),
        cmocka_unit_test(a_process_that_lives_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
