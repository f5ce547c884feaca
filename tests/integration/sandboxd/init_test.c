/* SPDX-License-Identifier: Apache-2.0 */

/* What pid 1 of a box does; of one that is made ahead, init_ahead_test.c. */
#include "common/auto.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/init_box.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include <sys/stat.h>
#include <sys/wait.h>

#define BOX_TEST(function) cmocka_unit_test_setup_teardown(function, init_box_make, init_box_remove)

static void init_starts_the_program_as_nobody_in_particular(void **state)
{
    struct init_box *box = *state;

    init_box_add_shell(box, "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|SigBlk|SigIgn):' "
                            "/proc/self/status; umask; pwd");

    init_assert_exited(init_box_run(box), 0);

    assert_string_equal(init_box_output(box), "Uid:\t1000\t1000\t1000\t1000\n"
                                              "Gid:\t1000\t1000\t1000\t1000\n"
                                              "Groups:\t \n"
                                              "SigBlk:\t0000000000000000\n"
                                              "SigIgn:\t0000000000000000\n"
                                              "CapInh:\t0000000000000000\n"
                                              "CapPrm:\t0000000000000000\n"
                                              "CapEff:\t0000000000000000\n"
                                              "CapBnd:\t0000000000000000\n"
                                              "CapAmb:\t0000000000000000\n"
                                              "NoNewPrivs:\t1\n"
                                              "Seccomp:\t2\n"
                                              "0022\n"
                                              "/workspace\n");
}

static void init_passes_argv_and_environment_exactly(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_ENV, "B", "2");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/env");
    init_box_add(box, SBX_PAYLOAD_ENV, "A", "");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/printf");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "%s|");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "a b\n");

    init_assert_exited(init_box_run(box), 0);

    assert_string_equal(init_box_output(box), "|a b\n|");
}

static void init_passes_the_environment_in_order(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/env");
    init_box_add(box, SBX_PAYLOAD_ENV, "B", "2");
    init_box_add(box, SBX_PAYLOAD_ENV, "A", "1=1");

    init_assert_exited(init_box_run(box), 0);

    assert_string_equal(init_box_output(box), "B=2\nA=1=1\n");
}

static void init_leaves_the_program_three_fds(void **state)
{
    struct init_box *box = *state;

    /* 3 is the folder that ls itself reads. */
    init_box_add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/ls");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "/proc/self/fd");

    init_assert_exited(init_box_run(box), 0);

    assert_string_equal(init_box_output(box), "0\n1\n2\n3\n");
}

static void init_puts_files_in_place(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_FILE, "d/hello", "hello\n");
    init_box_add_shell(box, "cat d/hello && echo more >> d/hello && stat -c '%u %g %a' d d/hello");

    init_assert_exited(init_box_run(box), 0);

    assert_string_equal(init_box_output(box), "hello\n1000 1000 755\n1000 1000 644\n");
}

static void init_protects_read_only_files(void **state)
{
    struct init_box *box = *state;

    init_box_add_read_only(box, "t/deep/fixed", "fixed\n");
    init_box_add_read_only(box, "top", "top\n");
    init_box_add(box, SBX_PAYLOAD_FILE, "t/free", "free\n");
    init_box_add_shell(box,
                       "exec 2>&-\n"
                       "(echo x > top) && echo wrote\n"
                       "(: >> t/deep/fixed) && echo appended\n"
                       "chmod 777 top && echo chmod\n"
                       "rm -f top && echo removed\n"
                       "rm -rf t/deep && echo removed folder\n"
                       "mv top other && echo moved\n"
                       "mv t other && echo moved folder\n"
                       "mv t/deep other && echo moved deep folder\n"
                       "chmod 777 . t t/deep && echo chmod folder\n"
                       "mv t/free top && echo replaced\n"
                       "ln -sf /dev/null top && echo linked\n"
                       "cat top t/deep/fixed\n"
                       "echo new > t/new && echo new > new && rm t/new new && mkdir t/deep/d && "
                       "echo more >> t/free && rm t/free && echo can work");

    init_assert_exited(init_box_run(box), 0);

    assert_string_equal(init_box_output(box), "top\nfixed\ncan work\n");
}

static void init_reports_what_cannot_be_executed(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/no-such-program");

    init_assert_failed(init_box_run(box), SBX_STAGE_EXEC, ENOENT);
}

static void init_reports_a_file_without_the_right_to_execute(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_ARG, "", "/workspace/plain");
    init_box_add(box, SBX_PAYLOAD_FILE, "plain", "#!/bin/sh\n");

    init_assert_failed(init_box_run(box), SBX_STAGE_EXEC, EACCES);
}

static void init_refuses_a_payload_without_a_program(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_ARG, "", "relative");

    init_assert_failed(init_box_run(box), SBX_STAGE_PAYLOAD, EPROTO);
}

static void init_refuses_a_malformed_payload(void **state)
{
    struct init_box *box = *state;

    init_box_add(box, SBX_PAYLOAD_ARG, "", "/bin/true");
    init_box_add(box, SBX_PAYLOAD_FILE, "../escape", "x");

    init_assert_failed(init_box_run(box), SBX_STAGE_PAYLOAD, EPROTO);
}

static void init_reports_files_that_do_not_fit(void **state)
{
    static char text[200 * 1024];
    struct init_box *box = *state;

    box->workspace_options = "size=64k,mode=0755,uid=201000,gid=201000";
    memset(text, 'x', sizeof(text) - 1);
    init_box_add(box, SBX_PAYLOAD_ARG, "", "/bin/true");
    init_box_add(box, SBX_PAYLOAD_FILE, "large", text);

    init_assert_failed(init_box_run(box), SBX_STAGE_PAYLOAD, ENOSPC);
}

static void init_reports_the_raw_status(void **state)
{
    struct init_box *box = *state;

    init_box_add_shell(box, "kill -SEGV $$");

    init_assert_exited(init_box_run(box), SIGSEGV);
}

static void init_kills_and_counts_leftovers(void **state)
{
    struct init_box *box = *state;
    struct sbx_init_msg msg;

    init_box_add_shell(box, "sleep 1000 & setsid sleep 1000 & true & wait $!; exit 4");

    msg = init_box_run(box);

    init_assert_exited(msg, 4 << 8);
    assert_int_equal(msg.leftovers, 2);
    assert_string_equal(init_box_output(box), "");
}

static void init_adopts_and_reaps_orphans(void **state)
{
    struct init_box *box = *state;
    struct sbx_init_msg msg;

    /* The inner shells end at once; their children become those of pid 1, and a zombie that it
     * does not reap stays in /proc, where else there is only the leader. */
    init_box_add_shell(box, "for i in 1 2 3 4 5; do (true &); done;"
                            "until set -- /proc/[0-9]*; [ $# -eq 1 ]; do :; done; exit 6");

    msg = init_box_run(box);

    init_assert_exited(msg, 6 << 8);
    assert_int_equal(msg.leftovers, 0);
}

static void init_cannot_be_reached_by_the_program(void **state)
{
    struct init_box *box = *state;

    init_box_add_shell(box, "exec 2>&-; kill -9 1 && echo killed; kill -STOP 1 && echo stopped;"
                            "ls /proc/1/fd && echo seen; cat /proc/1/environ && echo read; exit 5");

    init_assert_exited(init_box_run(box), 5 << 8);

    assert_string_equal(init_box_output(box), "");
}

static void init_does_not_start_anything_without_the_backend(void **state)
{
    struct init_box *box = *state;
    struct sbx_init_msg msg;
    int status;

    init_box_add_shell(box, "echo started");
    init_box_start(box);
    init_box_receive(box, &msg);
    assert_int_equal(msg.event, SBX_INIT_READY);

    cr_close_fd(&box->control_fd);

    assert_int_equal(waitpid(box->pid, &status, 0), box->pid);
    box->pid = 0;
    assert_int_equal(status, 1 << 8);
    assert_string_equal(init_box_output(box), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(init_starts_the_program_as_nobody_in_particular),
        BOX_TEST(init_passes_argv_and_environment_exactly),
        BOX_TEST(init_passes_the_environment_in_order),
        BOX_TEST(init_leaves_the_program_three_fds),
        BOX_TEST(init_puts_files_in_place),
        BOX_TEST(init_protects_read_only_files),
        BOX_TEST(init_reports_what_cannot_be_executed),
        BOX_TEST(init_reports_a_file_without_the_right_to_execute),
        BOX_TEST(init_refuses_a_payload_without_a_program),
        BOX_TEST(init_refuses_a_malformed_payload),
        BOX_TEST(init_reports_files_that_do_not_fit),
        BOX_TEST(init_reports_the_raw_status),
        BOX_TEST(init_kills_and_counts_leftovers),
        BOX_TEST(init_adopts_and_reaps_orphans),
        BOX_TEST(init_cannot_be_reached_by_the_program),
        BOX_TEST(init_does_not_start_anything_without_the_backend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
