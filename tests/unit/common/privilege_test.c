/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/privilege.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

/* Counts lines of /proc/self/status that are exactly `line`. */
static int status_has(const char *line)
{
    FILE *file = fopen("/proc/self/status", "re");
    char text[256];
    int found = 0;

    while (file && fgets(text, sizeof(text), file))
        found += strcmp(text, line) == 0;
    if (file)
        (void)fclose(file);
    return found;
}

static int check_dropped(uid_t uid)
{
    static const char *const lines[] = {
        "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
        "CapBnd:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n",
    };

    if (cr_privilege_drop(uid, uid, NULL) != 0)
        return 1;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (status_has(lines[i]) != 1)
            return (int)i + 2;
    }
    if (getuid() != uid || getgid() != uid || getgroups(0, NULL) != 0)
        return 20;
    return uid == 0 || setuid(0) < 0 ? 0 : 21;
}

/* Exit code of `function` in a child, which may give up what the test still needs. */
static int in_child(int (*function)(uid_t uid), uid_t uid)
{
    const pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(function(uid));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void privilege_drop_leaves_nothing(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();

    assert_int_equal(in_child(check_dropped, 1000), 0);
}

static void privilege_drop_makes_user_zero_powerless(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();

    assert_int_equal(in_child(check_dropped, 0), 0);
}

/* Without a capability only the own ids can be asked for. */
static int drop_twice(uid_t uid)
{
    if (cr_privilege_drop(uid, geteuid() == 0 ? uid : getgid(), NULL) != 0)
        return 1;
    if (cr_privilege_drop(uid, getgid(), NULL) != 0)
        return 2;
    return cr_privilege_drop(uid + 1, getgid(), NULL) == -EPERM ? 0 : 3;
}

static void privilege_drop_does_not_change_ids_without_capabilities(void **state)
{
    (void)state;
    assert_int_equal(in_child(drop_twice, geteuid() == 0 ? 1000 : geteuid()), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(privilege_drop_leaves_nothing),
        cmocka_unit_test(privilege_drop_makes_user_zero_powerless),
        cmocka_unit_test(privilege_drop_does_not_change_ids_without_capabilities),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
