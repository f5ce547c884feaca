/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/front/confine.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static int landlock_abi; /* of the child */
static int test_socket;  /* made before the child was confined */

static bool cannot_execute(void)
{
    char *const argv[] = {NULL};

    return execve("/usr/bin/true", argv, argv) == -1 && errno == EPERM;
}

static bool cannot_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};

    return connect(test_socket, (const struct sockaddr *)&address, sizeof(address)) == -1 &&
           errno == EPERM;
}

/* A datagram goes out without a connect. */
static bool cannot_make_sockets(void)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK};

    for (size_t i = 0; i < CR_ARRAY_SIZE(families); i++) {
        CR_AUTO_CLOSE int fd = socket(families[i], SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 || errno != EAFNOSUPPORT)
            return false;
    }
    return true;
}

static bool cannot_trace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == -1 && errno == EPERM;
}

static bool cannot_unshare(void)
{
    return unshare(CLONE_NEWUSER) == -1 && errno == EPERM;
}

static bool cannot_write_files(void)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    return landlock_abi == 0 || (fd == -1 && errno == EACCES);
}

static bool cannot_open_for_writing(void)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC);

    return landlock_abi == 0 || (fd == -1 && errno == EACCES);
}

static bool can_still_read(void)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);

    return fd >= 0;
}

static void *connect_in_thread(void *user)
{
    (void)user;
    return cannot_connect() ? &landlock_abi : NULL;
}

static bool threads_are_confined_too(void)
{
    pthread_t thread;
    void *result = NULL;

    return pthread_create(&thread, NULL, connect_in_thread, NULL) == 0 &&
           pthread_join(thread, &result) == 0 && result;
}

static bool can_still_pass_descriptors(void)
{
    int pair[2];

    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
           write(pair[0], "x", 1) == 1 && close(pair[0]) == 0 && close(pair[1]) == 0;
}

/* Runs one claim in a confined child of its own. */
static void assert_confined(bool (*claim)(void))
{
    pid_t pid = fork();
    int status = -1;

    assert_true(pid >= 0);
    if (pid == 0) {
        test_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (sbx_confine(&landlock_abi, NULL) < 0)
            _exit(2);
        _exit(claim() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void confined_process_cannot_do_what_an_attacker_needs(void **state)
{
    (void)state;
    assert_confined(cannot_execute);
    assert_confined(cannot_connect);
    assert_confined(cannot_make_sockets);
    assert_confined(cannot_trace);
    assert_confined(cannot_unshare);
    assert_confined(cannot_write_files);
    assert_confined(cannot_open_for_writing);
}

static void confined_process_still_serves(void **state)
{
    (void)state;
    assert_confined(can_still_read);
    assert_confined(can_still_pass_descriptors);
    assert_confined(threads_are_confined_too);
}

/* The same without confinement, so that the claims above are known to be able to fail. */
static void process_that_is_not_confined_can(void **state)
{
    (void)state;
    test_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_false(cannot_connect());
    assert_int_equal(close(test_socket), 0);
    assert_false(cannot_make_sockets());
    landlock_abi = 1;
    assert_false(cannot_open_for_writing());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confined_process_cannot_do_what_an_attacker_needs),
        cmocka_unit_test(confined_process_still_serves),
        cmocka_unit_test(process_that_is_not_confined_can),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
