/* SPDX-License-Identifier: Apache-2.0 */

/* User namespaces of boxes, and the short-lived process that makes them. */
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/userns.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

static bool must_die; /* at the first file that is opened, when the namespace has been made */

int __wrap_openat(int dirfd, const char *path, int flags, ...);
int __real_openat(int dirfd, const char *path, int flags, ...);

int __wrap_openat(int dirfd, const char *path, int flags, ...)
{
    if (must_die)
        (void)kill(getpid(), SIGKILL);
    return __real_openat(dirfd, path, flags);
}

/* A process that this one has inherited, or -1. */
static pid_t heir(void)
{
    char path[64];
    char text[32] = "";
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    file = fopen(path, "re");
    if (!file)
        return -1;
    if (!fgets(text, sizeof(text), file))
        text[0] = '\0';
    (void)fclose(file);
    return text[0] ? (pid_t)strtol(text, NULL, 10) : -1;
}

/* It has copies of all that its maker held, whose end would go unseen. */
static void nobody_is_left_behind_when_the_maker_is_killed(void **state)
{
    const int64_t end_ns = cr_clock_mono_ns() + 30 * CR_NS_PER_S;
    int status = 0;
    pid_t left;
    pid_t maker;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    maker = fork();
    assert_true(maker >= 0);
    if (maker == 0) {
        int fd = -1;

        must_die = true;
        (void)sbx_userns_make(SBX_USERNS_DEFAULT_BASE, &fd, NULL);
        _exit(1); /* no namespaces here */
    }
    assert_int_equal(waitpid(maker, &status, 0), maker);
    if (!WIFSIGNALED(status))
        skip();
    do {
        left = waitpid(-1, &status, WNOHANG);
        if (left == 0)
            (void)poll(NULL, 0, 10);
    } while (left == 0 && cr_clock_mono_ns() < end_ns);
    if (left == 0) {
        left = heir();
        if (left > 0)
            (void)kill(left, SIGKILL);
        fail_msg("process %d is left", left);
    }
    if (left > 0)
        return;
    assert_int_equal(errno, ECHILD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_left_behind_when_the_maker_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
