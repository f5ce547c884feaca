/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/secrets.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/wire/lifeline.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#define FIRST "first 0123456789abcdef\n"
#define SECOND "second 0123456789abcdef\n"

/* A file of tokens, and the end of a front that the test plays. */
struct bench {
    char path[40];
    int file_fd;
    struct sbx_settings settings;
    struct sbx_secrets secrets;
    struct sbx_child front;
    int front_fd;
    int fds_before;
};

static void write_tokens(const struct bench *bench, const char *text)
{
    assert_int_equal(ftruncate(bench->file_fd, 0), 0);
    assert_int_equal(pwrite(bench->file_fd, text, strlen(text), 0), strlen(text));
}

static void set_up(struct bench *bench)
{
    int pair[2];

    *bench = (struct bench){.secrets = SBX_SECRETS_INIT, .fds_before = test_count_fds()};
    bench->file_fd = test_file_make(bench->path, sizeof(bench->path));
    write_tokens(bench, FIRST);
    bench->settings.token_file = bench->path;
    assert_int_equal(sbx_secrets_open(&bench->settings, &bench->secrets, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    bench->front = (struct sbx_child){.name = "front", .pid = getpid(), .lifeline_fd = pair[0]};
    bench->front_fd = pair[1];
}

static void tear_down(struct bench *bench)
{
    sbx_secrets_done(&bench->secrets);
    cr_close_fd(&bench->front.lifeline_fd);
    cr_close_fd(&bench->front_fd);
    assert_int_equal(unlink(bench->path), 0);
    cr_close_fd(&bench->file_fd);
    assert_int_equal(test_count_fds(), bench->fds_before);
}

static void look(struct bench *bench)
{
    sbx_secrets_reload(&bench->settings, &bench->secrets, &bench->front, false);
}

/* What the front is given: "" when nothing. */
static void expect_given(const struct bench *bench, const char *text)
{
    struct sbx_lifeline_msg msg = {.type = 0};
    char content[64] = "";
    CR_AUTO_CLOSE int fd = -1;

    if (sbx_lifeline_receive(bench->front_fd, &msg, &fd) == 0) {
        assert_int_equal(msg.type, SBX_LIFELINE_TOKENS);
        assert_true(pread(fd, content, sizeof(content) - 1, 0) > 0);
    }
    assert_string_equal(content, text);
}

static void secrets_are_given_once_they_change(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    look(&bench);
    expect_given(&bench, "");
    write_tokens(&bench, SECOND);
    look(&bench);
    expect_given(&bench, SECOND);
    sbx_secrets_taken(&bench.secrets, SBX_LIFELINE_TOKENS);
    look(&bench);
    expect_given(&bench, "");
    tear_down(&bench);
}

/* It would be started with the old ones, and keep them until they change again. */
static void secrets_that_change_while_the_front_restarts_are_given_to_the_next(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    bench.front.pid = 0;
    write_tokens(&bench, SECOND);
    look(&bench);
    expect_given(&bench, "");
    bench.front.pid = getpid();
    look(&bench);
    expect_given(&bench, SECOND);
    tear_down(&bench);
}

static void secrets_that_a_front_did_not_take_are_given_to_the_next(void **state)
{
    struct bench bench;

    (void)state;
    set_up(&bench);
    write_tokens(&bench, SECOND);
    look(&bench);
    expect_given(&bench, SECOND);
    sbx_secrets_front_ended(&bench.secrets);
    look(&bench);
    expect_given(&bench, SECOND);
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_are_given_once_they_change),
        cmocka_unit_test(secrets_that_change_while_the_front_restarts_are_given_to_the_next),
        cmocka_unit_test(secrets_that_a_front_did_not_take_are_given_to_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
