/* SPDX-License-Identifier: Apache-2.0 */

/* Each allocation fails once, at its turn: nothing leaks (under ASan) and the caller is told. */
#include "common/buf.h"
#include "everything.pb-c.h"
#include "rpc/codec.h"
#include "rpc/guard.h"
#include "rpc/h2_frames.h"
#include "rpc/json.h"
#include "rpc/listener.h"
#include "rpc/quota.h"
#include "rpc/status.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

#define EVERYTHING (&crisol__test__v1__everything__descriptor)

static const char TEXT[] =
    "{\"strings\":[\"a\",\"b\",\"c\"],\"child\":{\"someBytes\":\"YWJj\"},"
    "\"stringMap\":{\"a\":\"1\",\"b\":\"2\"},\"children\":[{},{\"anInt32\":1}],"
    "\"chosenText\":\"x\"}";

static void json_is_read_or_not_at_all(void **state)
{
    int n = 0;
    int r;

    (void)state;
    do {
        struct rpc_status status = RPC_STATUS_INIT;
        ProtobufCMessage *message = NULL;

        test_fail_alloc(n++);
        r = rpc_json_read(EVERYTHING, TEXT, sizeof(TEXT) - 1, &message, &status);
        assert_true(r == 0 || (r == -ENOMEM && status.code == RPC_RESOURCE_EXHAUSTED));
        assert_int_equal(r == 0, message != NULL);
        if (message)
            protobuf_c_message_free_unpacked(message, NULL);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_true(n > 20);
}

static void json_is_written_or_not_at_all(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    int n = 0;
    int r;

    (void)state;
    assert_int_equal(rpc_json_read(EVERYTHING, TEXT, sizeof(TEXT) - 1, &message, &status), 0);
    do {
        CR_AUTO_BUF struct cr_buf buf = {0};

        cr_buf_init(&buf, 4096);
        test_fail_alloc(n++);
        r = rpc_json_write(message, NULL, &buf);
        assert_true(r == 0 || r == -ENOMEM);
        assert_int_equal(r == 0, buf.size > 0);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_true(n > 1);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void messages_are_unpacked_or_not_at_all(void **state)
{
    static const char BYTES[] = "\x72\x02hi\x92\x02\x01x\x8a\x01\x02\x08\x01";
    const ProtobufCMessage *message = NULL;
    int n = 0;

    (void)state;
    do {
        struct rpc_status status = RPC_STATUS_INIT;
        struct rpc_arena *arena;

        test_fail_alloc(n++);
        arena = rpc_arena_new(65536);
        if (!arena)
            continue;
        message = rpc_unpack(arena, EVERYTHING, BYTES, sizeof(BYTES) - 1, &status);
        assert_true(message || status.code == RPC_RESOURCE_EXHAUSTED);
        (void)rpc_arena_free(arena);
    } while (test_stop_alloc());
    assert_non_null(message);
    assert_true(n > 2);
}

static void quotas_count_only_whom_they_let_in(void **state)
{
    static const struct rpc_quota_limits LIMITS = {.max_connections = 1,
                                                   .accepts = {.per_s = 1, .burst = 100}};
    enum rpc_quota_verdict verdict = RPC_QUOTA_NO_MEMORY;
    int n = 0;

    (void)state;
    do {
        struct rpc_quotas *quotas;
        struct rpc_quota *quota = NULL;

        test_fail_alloc(n++);
        quotas = rpc_quotas_new(1);
        if (!quotas)
            continue;
        verdict = rpc_quotas_admit(quotas, "a", &LIMITS, 1, &quota);
        assert_int_equal(verdict == RPC_QUOTA_OK, quota != NULL);
        if (verdict == RPC_QUOTA_NO_MEMORY)
            assert_int_equal(rpc_quotas_admit(quotas, "a", &LIMITS, 1, &quota), RPC_QUOTA_OK);
        (void)rpc_quotas_free(quotas);
    } while (test_stop_alloc());
    assert_int_equal(verdict, RPC_QUOTA_OK);
    assert_int_equal(n, 3);
}

static void a_guard_that_is_not_made_leaves_the_socket_alone(void **state)
{
    struct rpc_guard_host host = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    const struct rpc_peer peer = {.is_unix = true};
    struct rpc_h2_budget budget = {0};
    struct rpc_guard *guard = NULL;
    int pipe_fds[2];

    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);

    test_fail_alloc(0);
    assert_int_equal(rpc_guard_new(&host, pipe_fds[0], &peer, &budget, 1, &guard, NULL), -ENOMEM);
    assert_int_equal(test_stop_alloc(), 1);

    assert_null(guard);
    assert_int_equal(close(pipe_fds[0]), 0);
    assert_int_equal(close(pipe_fds[1]), 0);
    assert_int_equal(close(host.epoll_fd), 0);
}

static void a_listener_is_made_or_not_at_all(void **state)
{
    int before = test_count_fds();
    int n = 0;
    int r;

    (void)state;
    do {
        struct rpc_listener *listener = NULL;

        test_fail_alloc(n++);
        r = rpc_listener_new(NULL, NULL, &listener, NULL);
        assert_true(r == 0 || r == -ENOMEM);
        assert_int_equal(r == 0, listener != NULL);
        assert_null(rpc_listener_free(listener));
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_int_equal(n, 3);
    assert_int_equal(test_count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_is_read_or_not_at_all),
        cmocka_unit_test(json_is_written_or_not_at_all),
        cmocka_unit_test(messages_are_unpacked_or_not_at_all),
        cmocka_unit_test(quotas_count_only_whom_they_let_in),
        cmocka_unit_test(a_guard_that_is_not_made_leaves_the_socket_alone),
        cmocka_unit_test(a_listener_is_made_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
