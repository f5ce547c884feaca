/* SPDX-License-Identifier: Apache-2.0 */

/* What runs of templates come to, and how long templates live. */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/runtimes/table.h"
#include "tests/integration/sandboxd/template_box.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>

/* ---- what comes out ---- */

static void python_runs_main(void **state)
{
    (void)state;
    template_run_text(SBX_TEMPLATE_PYTHON, "print(6 * 7)");

    template_assert_clean("42\n");
}

static void python_takes_arguments(void **state)
{
    (void)state;
    template_run(SBX_TEMPLATE_PYTHON,
                 &(struct template_spec){.file_name = "main.py",
                                         .file_text = "import sys; print(sys.argv)",
                                         .arg = "more"});

    template_assert_clean("['main.py', 'more']\n");
}

static void pytest_runs_tests(void **state)
{
    (void)state;
    template_run_text(SBX_TEMPLATE_PYTEST, "def test_a(): assert 1 == 2\ndef test_b(): pass\n");

    assert_int_equal(box.wait_status, 1 << 8);
    assert_non_null(strstr(box.output[0], "E   assert 1 == 2\n"));
    assert_non_null(strstr(box.output[0], "1 failed, 1 passed in "));
}

static void shallow_pytest_takes_arguments(void **state)
{
    (void)state;
    template_run(SBX_TEMPLATE_PYTEST_SHALLOW,
                 &(struct template_spec){.file_name = "test_main.py",
                                         .file_text = "def test_a(): pass\ndef test_b(): pass\n",
                                         .arg = "-ktest_b"});

    assert_int_equal(box.wait_status, 0);
    assert_non_null(strstr(box.output[0], "1 passed, 1 deselected in "));
}

/* What a template cannot do, its child executes: argv, environment, streams and rights as ever. */
static void an_environment_of_its_own_gets_an_interpreter_of_its_own(void **state)
{
    (void)state;
    template_run(SBX_TEMPLATE_PYTHON,
                 &(struct template_spec){
                     .file_name = "main.py",
                     .file_text = "import os, sys\n"
                                  "print(os.environ['NAME'], sys.argv, os.getuid())\n"
                                  "print(sorted(os.listdir('/proc/self/fd'))[:3])\n"
                                  "print(open('/proc/self/status').read().count('Seccomp:\\t2'))",
                     .env = "value"});

    template_assert_clean("value ['main.py'] 1000\n['0', '1', '2']\n1\n");
}

static void deep_pytest_with_arguments_gets_an_interpreter_of_its_own(void **state)
{
    (void)state;
    template_run(SBX_TEMPLATE_PYTEST,
                 &(struct template_spec){.file_name = "test_main.py",
                                         .file_text = "def test_a(): pass\ndef test_b(): pass\n",
                                         .arg = "-ktest_b"});

    assert_int_equal(box.wait_status, 0);
    assert_non_null(strstr(box.output[0], "1 passed, 1 deselected in "));
}

/* ---- the life of a template ---- */

static void boxes_outlive_their_template(void **state)
{
    struct sbx_template *template = template_get(SBX_TEMPLATE_PYTHON);
    struct pollfd watch = {.fd = template->fd, .events = POLLIN};
    struct sbx_template_event event;

    (void)state;
    template_box_make(SBX_TEMPLATE_PYTHON, 0, &box);
    assert_int_equal(kill(template->pid, SIGKILL), 0);
    assert_int_equal(poll(&watch, 1, TEMPLATE_DEADLINE_MS), 1);
    assert_int_equal(sbx_template_receive(template, &event), -EPIPE);
    sbx_template_stop(template);
    assert_int_equal(template->pid, -1);
    template_box_load(
        &box, &(struct template_spec){.file_name = "main.py", .file_text = "print('still here')"});
    template_box_go(&box);
    template_box_finish(&box);

    template_assert_clean("still here\n");
}

/* One that was never loaded has no output. */
static void kill_waiting(struct template_box *of)
{
    assert_int_equal(kill(of->pid, SIGKILL), 0);
    template_box_remove(of);
}

static void a_place_that_is_none_is_refused(void **state)
{
    struct sbx_template *template = template_get(SBX_TEMPLATE_PYTHON);
    struct sbx_template_event event;
    struct cr_err err = CR_ERR_INIT;
    int control_fd = -1;

    (void)state;
    template_box_make(SBX_TEMPLATE_PYTHON, 0, &box);
    template_assert_ok(sbx_template_ask(template,
                                        &(struct sbx_template_box){.group = &box.group,
                                                                   .limits = &sbx_default_limits,
                                                                   .workspace_fd = box.workspace_fd,
                                                                   .place = TEMPLATE_PLACES,
                                                                   .id = 77},
                                        &control_fd, &err),
                       &err);
    event = template_await(template);
    (void)close(control_fd);
    kill_waiting(&box);

    assert_int_equal(event.kind, SBX_TEMPLATE_EVENT_NO_BOX);
    assert_int_equal(event.id, 77);
    assert_int_equal(event.error, EPROTO);
}

static void a_template_gets_old(void **state)
{
    struct sbx_template *template = template_get(SBX_TEMPLATE_PYTHON);
    uint64_t packages = template->packages;

    (void)state;
    assert_false(sbx_template_is_stale(template, template->boxes + 1, INT64_MAX));
    assert_true(sbx_template_is_stale(template, template->boxes, INT64_MAX));
    assert_true(sbx_template_is_stale(template, UINT32_MAX, 1));
    template->packages = ~packages; /* as if one had been installed since */
    assert_true(sbx_template_is_stale(template, UINT32_MAX, INT64_MAX));
    template->packages = packages;
}

/* As a package manager that is at its own modules does, when it has the program already. */
static void other_modules_of_the_interpreter_are_a_change(void **state)
{
    const uint64_t before = sbx_template_packages(SBX_TEMPLATE_PYTHON);
    char path[PATH_MAX] = "/usr/lib/";
    const size_t used = strlen(path);
    ssize_t n = readlink("/usr/bin/python3", path + used, sizeof(path) - used - 1);
    uint64_t after;

    (void)state;
    assert_true(n > 0);
    assert_return_code(mount("other", path, "tmpfs", 0, NULL), errno);
    after = sbx_template_packages(SBX_TEMPLATE_PYTHON);
    assert_return_code(umount2(path, MNT_DETACH), errno);

    assert_int_not_equal(after, before);
    assert_int_equal(sbx_template_packages(SBX_TEMPLATE_PYTHON), before);
}

/* There is no /proc here to list them. */
static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void templates_and_boxes_leave_no_descriptors(void **state)
{
    int before;

    (void)state;
    template_run_text(SBX_TEMPLATE_PYTHON, "pass");
    template_stop(SBX_TEMPLATE_PYTHON);
    before = count_fds();
    template_run_text(SBX_TEMPLATE_PYTHON, "pass");
    template_stop(SBX_TEMPLATE_PYTHON);

    assert_int_equal(count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_runs_main),
        cmocka_unit_test(python_takes_arguments),
        cmocka_unit_test(pytest_runs_tests),
        cmocka_unit_test(shallow_pytest_takes_arguments),
        cmocka_unit_test(an_environment_of_its_own_gets_an_interpreter_of_its_own),
        cmocka_unit_test(deep_pytest_with_arguments_gets_an_interpreter_of_its_own),
        cmocka_unit_test(boxes_outlive_their_template),
        cmocka_unit_test(a_place_that_is_none_is_refused),
        cmocka_unit_test(a_template_gets_old),
        cmocka_unit_test(other_modules_of_the_interpreter_are_a_change),
        cmocka_unit_test(templates_and_boxes_leave_no_descriptors),
    };

    if (geteuid() != 0) {
        (void)fprintf(stderr, "needs root for namespaces and control groups\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, template_set_up, template_tear_down);
}
