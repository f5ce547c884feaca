/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue of single attacks: each inside a box, and those that only a filter or a mount
 * stops outside as well, so that a probe that could never succeed is found out. */
#include "common/auto.h"
#include "common/privilege.h"
#include "sandboxd/selftest/probes.h"
#include "sandboxd/wire/boxctl.h"
#include "tests/escape/box.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>
#include <sys/wait.h>

#define OUTSIDER 1000
#define OUTPUT_MAX 65536

/* The result of `name` in lines of "name result\n"; "" when it is missing. */
static const char *result_of(const char *lines, const char *name)
{
    static char result[64];
    const size_t size = strlen(name);

    result[0] = 0;
    for (const char *line = lines; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, size) == 0 && line[size] == ' ') {
            (void)snprintf(result, sizeof(result), "%.*s", (int)strcspn(line + size + 1, "\n"),
                           line + size + 1);
            break;
        }
    }
    return result;
}

static void assert_results(const struct probe *probes, size_t count, const char *lines)
{
    int wrong = 0;

    for (size_t i = 0; i < count; i++) {
        const char *got = result_of(lines, probes[i].name);

        if (probe_is_deadly(&probes[i]))
            continue; /* has a run of its own */
        if (probe_fits(probes[i].expected, got))
            continue;
        print_error("%s %s: '%s', expected %s\n", probes[i].id, probes[i].name, got,
                    probes[i].expected);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void run_probes(const char *what, struct native_run *ret_run)
{
    escape_run(&(struct escape_spec){.behaviour = what}, ret_run);
    escape_assert_verdict(ret_run, SBX_VERDICT_OK);
}

static void every_call_is_answered_as_the_policy_says(void **state)
{
    struct native_run run;
    size_t count;
    const struct probe *probes = probes_calls(&count);

    (void)state;
    run_probes("calls", &run);

    assert_results(probes, count, cr_buf_str(&run.out[0]));
    native_run_done(&run);
}

static void every_call_that_only_an_attack_makes_ends_the_run_by_name(void **state)
{
    size_t count;
    const struct probe *probes = probes_calls(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct native_run run;

        if (!probe_is_deadly(&probes[i]))
            continue;
        escape_run(&(struct escape_spec){.behaviour = "call", .argument = probes[i].name}, &run);
        escape_assert_verdict(&run, SBX_VERDICT_SECURITY_VIOLATION);
        if (!run.result.has_forbidden_call || run.result.forbidden_call == SBX_CALL_UNKNOWN)
            fail_msg("%s %s: the call is not named", probes[i].id, probes[i].name);
        assert_int_equal(run.result.signal, SIGSYS);
        native_run_done(&run);
    }
}

static void nothing_is_where_it_should_not_be(void **state)
{
    struct native_run run;
    size_t count;
    const struct probe *probes = probes_places(&count);

    (void)state;
    run_probes("places", &run);

    assert_results(probes, count, cr_buf_str(&run.out[0]));
    native_run_done(&run);
}

_Noreturn static void become_outsider(const char *what, const char *name, int out_fd)
{
    const int probe_fd = open(escape_probe_path(), O_RDONLY | O_CLOEXEC);
    char *const argv[] = {(char[]){"sbprobe"}, strdup(what), name ? strdup(name) : NULL, NULL};
    char *const envp[] = {NULL};
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(null_fd, 2) < 0 ||
        cr_privilege_drop(OUTSIDER, OUTSIDER, NULL) < 0)
        _exit(126);
    (void)fexecve(probe_fd, argv, envp);
    _exit(127);
}

/* An unprivileged user without any box, where the attacks are as harmless. Appends to `text`. */
static void run_outside(const char *what, const char *name, char *text)
{
    size_t size = strlen(text);
    int ends[2];
    int status;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0)
        become_outsider(what, name, ends[1]);
    (void)close(ends[1]);
    while ((got = read(ends[0], text + size, OUTPUT_MAX - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = 0;
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void assert_differs(const struct probe *probes, size_t count, const char *lines)
{
    size_t equal = 0;
    size_t compared = 0;

    for (size_t i = 0; i < count; i++) {
        if (!probes[i].differs_outside)
            continue;
        compared++;
        if (probe_fits(probes[i].expected, result_of(lines, probes[i].name))) {
            print_message("%s %s: %s outside too, on this host\n", probes[i].id, probes[i].name,
                          probes[i].expected);
            equal++;
        }
    }
    /* A hardened host refuses some to everybody; most must show the difference. */
    assert_true(compared > 5 && equal * 4 <= compared);
}

static void the_probes_can_tell_a_box_from_no_box(void **state)
{
    static char text[OUTPUT_MAX];
    size_t count;
    const struct probe *probes = probes_calls(&count);

    (void)state;
    run_outside("calls", NULL, text);
    for (size_t i = 0; i < count; i++) {
        if (probe_is_deadly(&probes[i]))
            run_outside("call", probes[i].name, text);
    }
    assert_differs(probes, count, text);

    probes = probes_places(&count);
    text[0] = 0;
    run_outside("places", NULL, text);
    assert_differs(probes, count, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_call_is_answered_as_the_policy_says, escape_check_next),
        cmocka_unit_test_teardown(every_call_that_only_an_attack_makes_ends_the_run_by_name,
                                  escape_check_next),
        cmocka_unit_test_teardown(nothing_is_where_it_should_not_be, escape_check_next),
        cmocka_unit_test(the_probes_can_tell_a_box_from_no_box),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, escape_start, escape_stop);
}
