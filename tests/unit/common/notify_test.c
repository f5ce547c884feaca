/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/notify.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

/* A manager that listens on `name`, a path or '@' and an abstract name. */
static int manage(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size_t size = strlen(name);

    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static void expect_word(const char *name)
{
    struct cr_notify notify;
    int fd = manage(name);
    char text[64] = "";

    assert_int_equal(cr_notify_open(&notify, NULL), 0);
    cr_notify_send(&notify, "READY=1\nSTATUS=serving");
    assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), 22);
    assert_string_equal(text, "READY=1\nSTATUS=serving");
    cr_notify_close(&notify);
    cr_notify_close(&notify);
    (void)close(fd);
}

static void notify_reaches_a_path_and_an_abstract_name(void **state)
{
    int before = test_count_fds();
    char name[64];

    (void)state;
    (void)snprintf(name, sizeof(name), "/tmp/crisol-notify-%d", (int)getpid());
    expect_word(name);
    assert_int_equal(unlink(name), 0);
    (void)snprintf(name, sizeof(name), "@crisol-notify-%d", (int)getpid());
    expect_word(name);
    assert_int_equal(test_count_fds(), before);
}

static void notify_without_a_manager_does_nothing(void **state)
{
    struct cr_notify notify;

    (void)state;
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    assert_int_equal(cr_notify_open(&notify, NULL), 0);
    assert_int_equal(notify.fd, -1);
    cr_notify_send(&notify, "READY=1");
    cr_notify_close(&notify);
}

static void notify_refuses_what_is_no_socket(void **state)
{
    static const char *const bad[] = {"relative", "vsock:2:1", "/nowhere/notify"};
    struct cr_notify notify;

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", bad[i], 1), 0);
        assert_true(cr_notify_open(&notify, NULL) < 0);
        assert_int_equal(notify.fd, -1);
    }
}

/* What the manager hears of the end and of new settings. */
static void notify_tells_when_it_reloads_and_how_long_its_end_may_take(void **state)
{
    struct cr_notify notify;
    char name[64];
    char text[256];
    int64_t told_us = 0;
    int64_t before_us = cr_clock_mono_ns() / 1000;
    int fd;

    (void)state;
    (void)snprintf(name, sizeof(name), "@crisol-reload-%d", (int)getpid());
    fd = manage(name);
    assert_int_equal(cr_notify_open(&notify, NULL), 0);
    cr_notify_reloading(&notify);
    text[recv(fd, text, sizeof(text) - 1, 0)] = '\0';
    assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%" SCNd64, &told_us), 1);
    assert_in_range(told_us, before_us, cr_clock_mono_ns() / 1000);

    cr_notify_stopping(&notify, "runs in flight go on", 64000);
    text[recv(fd, text, sizeof(text) - 1, 0)] = '\0';
    assert_string_equal(text,
                        "STOPPING=1\nEXTEND_TIMEOUT_USEC=64000000\nSTATUS=runs in flight go on");
    cr_notify_close(&notify);
    cr_notify_reloading(&notify); /* to nobody */
    (void)close(fd);
}

static int64_t watchdog(const char *period, const char *pid)
{
    struct cr_notify notify;

    assert_int_equal(setenv("WATCHDOG_USEC", period, 1), 0);
    assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
    assert_int_equal(cr_notify_open(&notify, NULL), 0);
    cr_notify_close(&notify);
    return notify.watchdog_ns;
}

static void notify_hears_how_often_it_is_to_speak(void **state)
{
    char name[64];
    char own[16];
    int fd;

    (void)state;
    (void)snprintf(name, sizeof(name), "@crisol-watchdog-%d", (int)getpid());
    (void)snprintf(own, sizeof(own), "%d", (int)getpid());
    fd = manage(name);
    assert_int_equal(watchdog("30000000", own), 15 * CR_NS_PER_S);
    assert_int_equal(watchdog("30000000", ""), 15 * CR_NS_PER_S);
    assert_int_equal(watchdog("30000000", "1"), 0);
    assert_int_equal(watchdog("-1", own), 0);
    assert_int_equal(watchdog("1x", own), 0);
    assert_int_equal(watchdog("18446744073709551615", own), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notify_reaches_a_path_and_an_abstract_name),
        cmocka_unit_test(notify_without_a_manager_does_nothing),
        cmocka_unit_test(notify_refuses_what_is_no_socket),
        cmocka_unit_test(notify_tells_when_it_reloads_and_how_long_its_end_may_take),
        cmocka_unit_test(notify_hears_how_often_it_is_to_speak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
