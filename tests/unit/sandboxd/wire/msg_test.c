/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/wire/msg.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/socket.h>

static void set_limits(struct sbx_limits *limits)
{
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++)
        limits->value[i] = i + 1;
}

static bool is_about_no_run(enum sbx_msg_type type)
{
    return type == SBX_MSG_HELLO || type == SBX_MSG_POOL || type == SBX_MSG_COUNTS;
}

/* A legal message of every type. */
static union sbx_msg legal_msg(enum sbx_msg_type type)
{
    union sbx_msg msg;

    sbx_msg_init(&msg, type, is_about_no_run(type) ? 0 : 7);
    if (type == SBX_MSG_HELLO) {
        msg.hello.backend = 1;
        msg.hello.slots = 4;
        msg.hello.runtime_count = 3;
        msg.hello.cgroup_version = 1;
        set_limits(&msg.hello.maximum);
        memset(msg.hello.controls, SBX_ENFORCED, sizeof(msg.hello.controls));
    }
    if (type == SBX_MSG_RUN)
        set_limits(&msg.run.limits);
    if (type == SBX_MSG_OPEN) {
        set_limits(&msg.open.limits);
        msg.open.idle_ms = 1000;
        msg.open.life_ms = 2000;
    }
    if (type == SBX_MSG_SIGNAL)
        msg.signal.number = 2;
    if (type == SBX_MSG_RESIZE)
        msg.resize.columns = msg.resize.rows = 1;
    if (type == SBX_MSG_CLOSED)
        msg.closed.reason = SBX_CLOSED_IDLE;
    if (type == SBX_MSG_OUTPUT_LIMIT)
        msg.output_limit.stream = 2;
    if (type == SBX_MSG_RESULT)
        msg.result.verdict = SBX_VERDICT_OK;
    return msg;
}

static void msg_parse_takes_every_legal_type(void **state)
{
    (void)state;

    for (int type = SBX_MSG_HELLO; type < SBX_MSG_TYPE_END; type++) {
        const union sbx_msg msg = legal_msg((enum sbx_msg_type)type);
        union sbx_msg parsed;

        assert_int_equal(sbx_msg_parse(&msg, sbx_msg_size((uint16_t)type), &parsed, NULL), 0);
        assert_memory_equal(&parsed, &msg, sbx_msg_size((uint16_t)type));
    }
}

static void msg_parse_wants_the_exact_size(void **state)
{
    (void)state;

    for (int type = SBX_MSG_HELLO; type < SBX_MSG_TYPE_END; type++) {
        const union sbx_msg msg = legal_msg((enum sbx_msg_type)type);
        union sbx_msg parsed;

        for (size_t size = 0; size <= sizeof(msg); size++) {
            if (size != sbx_msg_size((uint16_t)type))
                assert_int_equal(sbx_msg_parse(&msg, size, &parsed, NULL), -EPROTO);
        }
    }
}

static void msg_parse_says_what_is_wrong(void **state)
{
    union sbx_msg msg = legal_msg(SBX_MSG_RUN);
    union sbx_msg parsed;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    msg.header.version = 9;

    assert_int_equal(sbx_msg_parse(&msg, sizeof(msg.run), &parsed, &err), -EPROTO);
    assert_string_equal(err.text, "wire version 9, expected 1");
}

static void assert_refused(const union sbx_msg *msg)
{
    union sbx_msg parsed;

    assert_int_equal(sbx_msg_parse(msg, msg->header.size, &parsed, NULL), -EPROTO);
}

#define FIELD(type, field, bad_value)                                                              \
    {                                                                                              \
        type, offsetof(union sbx_msg, field), sizeof(((union sbx_msg *)0)->field), bad_value       \
    }

static void msg_parse_refuses_fields_out_of_range(void **state)
{
    static const struct {
        enum sbx_msg_type type;
        size_t offset;
        size_t size;
        int64_t bad_value;
    } cases[] = {
        FIELD(SBX_MSG_HELLO, header.run, 1),
        FIELD(SBX_MSG_HELLO, hello.backend, 0),
        FIELD(SBX_MSG_HELLO, hello.backend, 3),
        FIELD(SBX_MSG_HELLO, hello.slots, 0),
        FIELD(SBX_MSG_HELLO, hello.cgroup_version, 3),
        FIELD(SBX_MSG_HELLO, hello.controls[SBX_CONTROL_COUNT - 1], 0),
        FIELD(SBX_MSG_HELLO, hello.controls[0], 4),
        FIELD(SBX_MSG_HELLO, hello.sessions, 1),
        FIELD(SBX_MSG_HELLO, hello.is_image_root, 2),
        FIELD(SBX_MSG_HELLO, hello.session_life_ms, 1),
        FIELD(SBX_MSG_RUN, header.run, 0),
        FIELD(SBX_MSG_HELLO, hello.features, SBX_FEATURES + 1),
        FIELD(SBX_MSG_HELLO, hello.reserved, 1),
        FIELD(SBX_MSG_SIGNAL, header.run, 0),
        FIELD(SBX_MSG_SIGNAL, signal.number, 0),
        FIELD(SBX_MSG_SIGNAL, signal.number, SBX_SIGNAL_MAX + 1),
        FIELD(SBX_MSG_SIGNAL, signal.reserved, 1),
        FIELD(SBX_MSG_RESIZE, resize.columns, 0),
        FIELD(SBX_MSG_RESIZE, resize.rows, 0),
        FIELD(SBX_MSG_RESIZE, resize.reserved, 1),
        FIELD(SBX_MSG_RUN, run.flags, SBX_RUN_HAS_TERMINAL), /* of no size */
        FIELD(SBX_MSG_RUN, run.columns, 1),                  /* of no terminal */
        FIELD(SBX_MSG_RUN, run.rows, 1),
        FIELD(SBX_MSG_RUN, run.reserved, 1),
        FIELD(SBX_MSG_RUN, run.flags, SBX_RUN_STOPS_EARLY), /* without arguments */
        FIELD(SBX_MSG_RUN, run.flags, SBX_RUN_FLAGS + 1),
        FIELD(SBX_MSG_RUN, run.flags, SBX_RUN_HAS_CELL), /* without a session */
        FIELD(SBX_MSG_RUN, run.flags, SBX_RUN_NO_PROGRAM),
        FIELD(SBX_MSG_OPEN, header.run, 0),
        FIELD(SBX_MSG_OPEN, open.idle_ms, 0),
        FIELD(SBX_MSG_OPEN, open.life_ms, 0),
        FIELD(SBX_MSG_OPEN, open.limits.value[SBX_LIMIT_MEMORY], 0),
        FIELD(SBX_MSG_CLOSE, header.run, 0),
        FIELD(SBX_MSG_CLOSED, closed.reason, 0),
        FIELD(SBX_MSG_CLOSED, closed.reason, SBX_CLOSED_END),
        FIELD(SBX_MSG_CLOSED, closed.reserved, 1),
        FIELD(SBX_MSG_RESULT, result.kept, SBX_KEPT_ALL + 1),
        FIELD(SBX_MSG_RESULT, result.reserved, 1),
        FIELD(SBX_MSG_RUN, run.limits.value[SBX_LIMIT_OUTPUT], 0),
        FIELD(SBX_MSG_OUTPUT_LIMIT, output_limit.stream, 0),
        FIELD(SBX_MSG_OUTPUT_LIMIT, output_limit.stream, 3),
        FIELD(SBX_MSG_OUTPUT_LIMIT, output_limit.reserved, 1),
        FIELD(SBX_MSG_DRAINED, drained.overflow_stream, 3),
        FIELD(SBX_MSG_DRAINED, drained.collect_failed, 2),
        FIELD(SBX_MSG_RESULT, result.verdict, SBX_VERDICT_NONE),
        FIELD(SBX_MSG_RESULT, result.verdict, 30),
        FIELD(SBX_MSG_RESULT, result.exit_code, 256),
        FIELD(SBX_MSG_RESULT, result.exit_code, -1),
        FIELD(SBX_MSG_RESULT, result.signal, 65),
        FIELD(SBX_MSG_RESULT, result.stage, SBX_STAGE_COUNT),
        FIELD(SBX_MSG_RESULT, result.stage_errno, -2),
        FIELD(SBX_MSG_RESULT, result.has_hit, 2),
        FIELD(SBX_MSG_RESULT, result.hit.limit, SBX_LIMIT_COUNT),
        FIELD(SBX_MSG_RESULT, result.hit.killed_by, 4),
        FIELD(SBX_MSG_RESULT, result.other_hit_count, SBX_OTHER_HITS_MAX + 1),
        FIELD(SBX_MSG_RESULT, result.is_pool_hit, 2),
        FIELD(SBX_MSG_RESULT, result.is_inferred, 2),
        FIELD(SBX_MSG_POOL, header.run, 1),
        FIELD(SBX_MSG_COUNTS, header.run, 1),
        FIELD(SBX_MSG_RESULT, result.has_forbidden_call, 2),
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        union sbx_msg msg = legal_msg(cases[i].type);

        memcpy((uint8_t *)&msg + cases[i].offset, &cases[i].bad_value, cases[i].size);
        assert_refused(&msg);
    }
}

static void msg_parse_takes_one_kind_of_run_in_a_session(void **state)
{
    static const struct {
        uint32_t flags;
        int expected;
    } cases[] = {
        {0, 0},
        {SBX_RUN_HAS_CELL, 0},
        {SBX_RUN_NO_PROGRAM, 0},
        {SBX_RUN_HAS_CELL | SBX_RUN_NO_PROGRAM, -EPROTO},
    };
    union sbx_msg msg = legal_msg(SBX_MSG_RUN);
    union sbx_msg parsed;

    (void)state;
    msg.run.session = 9;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        msg.run.flags = cases[i].flags;
        assert_int_equal(sbx_msg_parse(&msg, sizeof(msg.run), &parsed, NULL), cases[i].expected);
    }
}

static void msg_parse_checks_each_counted_hit(void **state)
{
    union sbx_msg msg = legal_msg(SBX_MSG_RESULT);
    union sbx_msg parsed;

    (void)state;
    msg.result.other_hits[1].limit = SBX_LIMIT_COUNT;

    msg.result.other_hit_count = 1;
    assert_int_equal(sbx_msg_parse(&msg, sizeof(msg.result), &parsed, NULL), 0);
    msg.result.other_hit_count = 2;
    assert_refused(&msg);
}

static void open_pair(int ret_pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_pair), 0);
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(close(fds[i]), 0);
}

static void msg_run_travels_with_its_fds(void **state)
{
    const int fds_before = test_count_fds();
    const union sbx_msg msg = legal_msg(SBX_MSG_RUN);
    const int sent[SBX_RUN_FDS] = {0, 1, 2, 1, 0};
    union sbx_msg received;
    int fds[SBX_RUN_FDS];
    size_t fd_count = 0;
    int pair[2];

    (void)state;
    open_pair(pair);

    assert_int_equal(sbx_msg_send(pair[0], &msg, sent, SBX_RUN_FDS), 0);
    assert_int_equal(sbx_msg_receive(pair[1], &received, fds, &fd_count, NULL), 0);

    assert_int_equal(fd_count, SBX_RUN_FDS);
    assert_memory_equal(&received, &msg, sizeof(msg.run));
    for (size_t i = 0; i < fd_count; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close_all(fds, fd_count);
    close_all(pair, 2);
    assert_int_equal(test_count_fds(), fds_before);
}

static void msg_receive_closes_fds_that_do_not_belong(void **state)
{
    static const struct {
        enum sbx_msg_type type;
        size_t fd_count;
    } cases[] = {{SBX_MSG_CANCEL, 1}, {SBX_MSG_RUN, 0}, {SBX_MSG_RUN, 4}, {SBX_MSG_EXITED, 5}};

    const int fds_before = test_count_fds();
    const int sent[SBX_RUN_FDS] = {0, 1, 2, 1, 0};
    int pair[2];

    (void)state;
    open_pair(pair);

    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        const union sbx_msg msg = legal_msg(cases[i].type);
        union sbx_msg received;
        int fds[SBX_RUN_FDS];
        size_t fd_count = 0;

        assert_int_equal(sbx_msg_send(pair[0], &msg, sent, cases[i].fd_count), 0);
        assert_int_equal(sbx_msg_receive(pair[1], &received, fds, &fd_count, NULL), -EPROTO);
    }
    close_all(pair, 2);
    assert_int_equal(test_count_fds(), fds_before);
}

/* As a hostile peer does, past the limits of sbx_msg_send(). */
static void send_raw(int fd, const void *data, size_t size, size_t fd_count)
{
    union {
        struct cmsghdr header;
        char data[CMSG_SPACE(64 * sizeof(int))];
    } control = {0};
    union sbx_msg copy[2] = {0};
    struct iovec iov = {.iov_base = copy, .iov_len = size};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.data,
                            .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};

    memcpy(copy, data, size);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    assert_int_equal(sendmsg(fd, &header, 0), size);
}

static void msg_receive_closes_what_was_cut_off(void **state)
{
    static const size_t fd_counts[] = {6, 8, 9, 64};
    const int fds_before = test_count_fds();
    const union sbx_msg msg[2] = {legal_msg(SBX_MSG_RUN), legal_msg(SBX_MSG_RUN)};
    union sbx_msg received;
    int fds[SBX_RUN_FDS];
    size_t fd_count = 0;
    int pair[2];

    (void)state;
    open_pair(pair);

    for (size_t i = 0; i < CR_ARRAY_SIZE(fd_counts); i++) {
        send_raw(pair[0], msg, sizeof(msg[0].run), fd_counts[i]);
        assert_int_equal(sbx_msg_receive(pair[1], &received, fds, &fd_count, NULL), -EPROTO);
    }
    send_raw(pair[0], msg, sizeof(msg), SBX_RUN_FDS);
    assert_int_equal(sbx_msg_receive(pair[1], &received, fds, &fd_count, NULL), -EPROTO);
    close_all(pair, 2);
    assert_int_equal(test_count_fds(), fds_before);
}

static void msg_receive_tells_empty_from_ended(void **state)
{
    union sbx_msg received;
    int fds[SBX_RUN_FDS];
    size_t fd_count = 0;
    int pair[2];

    (void)state;
    open_pair(pair);

    assert_int_equal(sbx_msg_receive(pair[1], &received, fds, &fd_count, NULL), -EAGAIN);
    assert_int_equal(close(pair[0]), 0);
    assert_int_equal(sbx_msg_receive(pair[1], &received, fds, &fd_count, NULL), -EPIPE);
    received = legal_msg(SBX_MSG_EXITED);
    assert_int_equal(sbx_msg_send(pair[1], &received, NULL, 0), -EPIPE);
    assert_int_equal(close(pair[1]), 0);
}

static void msg_send_never_waits(void **state)
{
    const union sbx_msg msg = legal_msg(SBX_MSG_EXITED);
    int pair[2];
    int r = 0;

    (void)state;
    open_pair(pair);

    for (size_t i = 0; i < 100000 && r == 0; i++)
        r = sbx_msg_send(pair[0], &msg, NULL, 0);

    assert_int_equal(r, -EAGAIN);
    close_all(pair, 2);
}

static void msg_names_exist_for_every_number(void **state)
{
    (void)state;

    for (uint32_t i = 0; i < SBX_LIMIT_COUNT; i++)
        assert_string_not_equal(sbx_limit_name(i), "unknown");
    for (uint32_t i = 0; i < SBX_CONTROL_COUNT; i++)
        assert_string_not_equal(sbx_control_name(i), "unknown");
    for (uint32_t i = 0; i < SBX_STAGE_COUNT; i++)
        assert_string_not_equal(sbx_stage_name(i), "unknown");
    assert_string_equal(sbx_limit_name(SBX_LIMIT_COUNT), "unknown");
    assert_string_equal(sbx_control_name(SBX_CONTROL_COUNT), "unknown");
    assert_string_equal(sbx_stage_name(UINT32_MAX), "unknown");
    assert_string_equal(sbx_verdict_name(SBX_VERDICT_DISK_LIMIT), "DISK_LIMIT");
    assert_string_equal(sbx_verdict_name(SBX_VERDICT_NONE), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(msg_parse_takes_every_legal_type),
        cmocka_unit_test(msg_parse_wants_the_exact_size),
        cmocka_unit_test(msg_parse_says_what_is_wrong),
        cmocka_unit_test(msg_parse_refuses_fields_out_of_range),
        cmocka_unit_test(msg_parse_takes_one_kind_of_run_in_a_session),
        cmocka_unit_test(msg_parse_checks_each_counted_hit),
        cmocka_unit_test(msg_run_travels_with_its_fds),
        cmocka_unit_test(msg_receive_closes_fds_that_do_not_belong),
        cmocka_unit_test(msg_receive_closes_what_was_cut_off),
        cmocka_unit_test(msg_receive_tells_empty_from_ended),
        cmocka_unit_test(msg_send_never_waits),
        cmocka_unit_test(msg_names_exist_for_every_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
