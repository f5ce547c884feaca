/* SPDX-License-Identifier: Apache-2.0 */

/* What pid 1 of a box does that is made ahead of its run: everything that the run is about comes
 * later. The rest is in init_test.c. */
#include "common/auto.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/init_box.h"

#include <errno.h>

#include <sys/socket.h>
#include <sys/wait.h>

#define BOX_TEST(function) cmocka_unit_test_setup_teardown(function, init_box_make, init_box_remove)

static struct init_box *waiting_box(void **state, bool is_go_along)
{
    struct init_box *box = *state;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    box->is_go_along = is_go_along;
    return box;
}

static void assert_runs_what_comes(struct init_box *box)
{
    init_box_add(box, SBX_PAYLOAD_FILE, "hello", "hello\n");
    init_box_add_shell(box, "cat hello; ls /proc/self/fd; exit 3");

    init_assert_exited(init_box_run(box), 3 << 8);

    assert_string_equal(init_box_output(box), "hello\n0\n1\n2\n3\n");
}

static void waiting_init_runs_what_comes_with_load(void **state)
{
    assert_runs_what_comes(waiting_box(state, false));
}

static void waiting_init_goes_at_once_when_it_is_told_so(void **state)
{
    assert_runs_what_comes(waiting_box(state, true));
}

/* They are another process' work, and the program a second one's. */
static void waiting_init_puts_read_only_files_in_place(void **state)
{
    struct init_box *box = waiting_box(state, false);

    init_box_add_read_only(box, "fixed", "fixed\n");
    init_box_add(box, SBX_PAYLOAD_FILE, "hello", "hello\n");
    init_box_add_shell(box, "cat fixed hello; rm -f fixed 2>/dev/null; cat fixed; exit 4");

    init_assert_exited(init_box_run(box), 4 << 8);

    assert_string_equal(init_box_output(box), "fixed\nhello\nfixed\n");
}

static void waiting_init_never_goes_at_once_with_read_only_files(void **state)
{
    struct init_box *box = waiting_box(state, true);

    init_box_add_read_only(box, "fixed", "fixed\n");
    init_box_add_shell(box, "exit 0");

    init_assert_failed(init_box_run(box), SBX_STAGE_PAYLOAD, EPROTO);
}

/* Only what has made none is as good as new; the calls themselves work as ever. */
static void init_tells_whether_a_socket_was_made(void **state)
{
    static const struct {
        const char *code;
        bool has_none;
    } rows[] = {
        {"pass", true},
        {"import socket; socket.socket().close()", false},
        {"import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'",
         false},
        {"import os, socket\nif os.fork() == 0:\n    socket.socket(socket.AF_UNIX)\n"
         "    os._exit(0)\nos.wait()",
         false},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct init_box *box;
        struct sbx_init_msg msg;

        assert_int_equal(init_box_make(state), 0);
        box = *state;
        init_box_add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/python3");
        init_box_add(box, SBX_PAYLOAD_ARG, "", "-ISc");
        init_box_add(box, SBX_PAYLOAD_ARG, "", rows[i].code);
        msg = init_box_run(box);
        init_assert_exited(msg, 0);
        if (msg.detail & SBX_INIT_WATCHED) /* else the kernel has no listener for us */
            assert_int_equal((msg.detail & SBX_INIT_NO_SOCKET) != 0, rows[i].has_none);
        (void)init_box_remove(state);
    }
    assert_int_equal(init_box_make(state), 0);
}

static void waiting_init_that_goes_at_once_reports_what_cannot_be_executed(void **state)
{
    struct init_box *box = waiting_box(state, true);
    struct sbx_init_msg msg;

    init_box_add(box, SBX_PAYLOAD_ARG, "", "/no/such/program");
    init_box_start(box);
    init_box_receive(box, &msg);
    init_box_load(box);
    init_box_receive(box, &msg);

    init_assert_failed(msg, SBX_STAGE_EXEC, ENOENT);
}

static void waiting_init_ends_with_its_backend(void **state)
{
    struct init_box *box = waiting_box(state, false);
    struct sbx_init_msg msg;

    init_box_add_shell(box, "exit 0");
    init_box_start(box);
    init_box_receive(box, &msg);
    cr_close_fd(&box->control_fd);

    assert_int_equal(waitpid(box->pid, NULL, 0), box->pid);
    box->pid = 0;
}

static void waiting_init_refuses_go_before_load(void **state)
{
    struct init_box *box = waiting_box(state, false);
    struct sbx_init_msg msg;

    init_box_add_shell(box, "exit 0");
    init_box_start(box);
    init_box_receive(box, &msg);
    init_box_go(box);
    init_box_receive(box, &msg);

    init_assert_failed(msg, SBX_STAGE_INIT, EPROTO);
}

/* What the program of a template does, in short. */
_Noreturn static void be_adopted(int channel_fd, bool is_willing)
{
    const struct sbx_adopt_hello hello = {.version = SBX_ADOPT_VERSION};
    const struct sbx_adopt_failure failure = {.stage = SBX_STAGE_EXEC, .error = ENOEXEC};
    struct sbx_adopt_go go;
    int fds[SBX_INIT_LOAD_FDS];

    if (sbx_fds_send(channel_fd, &hello, sizeof(hello), NULL, 0) < 0 ||
        sbx_fds_receive(channel_fd, &go, sizeof(go), fds, SBX_INIT_LOAD_FDS, 0) !=
            SBX_INIT_LOAD_FDS)
        _exit(92);
    if (!is_willing)
        (void)sbx_fds_send(channel_fd, &failure, sizeof(failure), NULL, 0);
    (void)close(channel_fd);
    (void)dprintf(fds[2], "%d %d\n", getpid() == SBX_INIT_ADOPTED_PID, getppid());
    _exit(4);
}

static void fork_adopted(bool is_willing)
{
    int pair[2];
    pid_t first = fork(); /* as where files are unpacked: the program is the second */

    if (first == 0)
        _exit(0);
    (void)waitpid(first, NULL, 0);
    (void)socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
    if (fork() == 0) {
        (void)close(pair[0]);
        be_adopted(pair[1], is_willing);
    }
    (void)dup2(pair[0], SBX_INIT_FD_ADOPTED);
    (void)close(pair[1]);
}

static void fork_willing(void)
{
    fork_adopted(true);
}

static void fork_unwilling(void)
{
    fork_adopted(false);
}

static void init_adopts_a_program_that_exists(void **state)
{
    struct init_box *box = *state;

    box->argument = SBX_INIT_ADOPT_ARGUMENT;
    box->before_exec = fork_willing;
    init_box_add_shell(box, "exit 0");

    init_assert_exited(init_box_run(box), 4 << 8);

    assert_string_equal(init_box_output(box), "1 1\n");
}

static void init_reports_a_program_that_cannot_be_adopted(void **state)
{
    struct init_box *box = *state;

    box->argument = SBX_INIT_ADOPT_ARGUMENT;
    box->before_exec = fork_unwilling;
    init_box_add_shell(box, "exit 0");

    init_assert_failed(init_box_run(box), SBX_STAGE_EXEC, ENOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(waiting_init_runs_what_comes_with_load),
        BOX_TEST(init_tells_whether_a_socket_was_made),
        BOX_TEST(waiting_init_goes_at_once_when_it_is_told_so),
        BOX_TEST(waiting_init_puts_read_only_files_in_place),
        BOX_TEST(waiting_init_never_goes_at_once_with_read_only_files),
        BOX_TEST(waiting_init_that_goes_at_once_reports_what_cannot_be_executed),
        BOX_TEST(waiting_init_ends_with_its_backend),
        BOX_TEST(waiting_init_refuses_go_before_load),
        BOX_TEST(init_adopts_a_program_that_exists),
        BOX_TEST(init_reports_a_program_that_cannot_be_adopted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
