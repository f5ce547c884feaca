/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/job.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/pool.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/template.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

static void pool_moves_as_its_table_says(void **state)
{
    static const struct {
        enum sbx_pool_state from;
        enum sbx_pool_state to;
    } legal[] = {
        {SBX_POOL_FREE, SBX_POOL_STARTING},  {SBX_POOL_STARTING, SBX_POOL_IDLE},
        {SBX_POOL_STARTING, SBX_POOL_DYING}, {SBX_POOL_IDLE, SBX_POOL_FREE},
        {SBX_POOL_IDLE, SBX_POOL_DYING},     {SBX_POOL_DYING, SBX_POOL_FREE},
    };

    (void)state;
    for (int from = 0; from <= SBX_POOL_STATE_COUNT; from++) {
        for (int to = 0; to <= SBX_POOL_STATE_COUNT; to++) {
            bool is_legal = false;

            for (size_t i = 0; i < CR_ARRAY_SIZE(legal); i++)
                is_legal = is_legal || ((int)legal[i].from == from && (int)legal[i].to == to);
            assert_int_equal(sbx_pool_can_move((enum sbx_pool_state)from, (enum sbx_pool_state)to),
                             is_legal);
        }
    }
}

static void pool_takes_the_sizes_that_the_setting_names(void **state)
{
    static const struct {
        const char *text;
        uint32_t slots;
    } rows[] = {
        {"plain=5", 5},
        {"0", 0},
        {"plain=0", 0},
        {"plain=3,plain=4", 4},
        {"0,plain=1", 1},
        {"plain=3,0", 0},
        {"plain=16", SBX_POOL_MAX},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct sbx_pool pool;

        assert_int_equal(sbx_pool_init(&pool, rows[i].text, false, NULL), 0);
        assert_int_equal(pool.slot_count, rows[i].slots);
        assert_true(pool.starting_most >= 1);
        for (uint32_t j = 0; j < pool.slot_count; j++)
            assert_int_equal(pool.slots[j].state, SBX_POOL_FREE);
    }
}

static void pool_has_a_standard_size(void **state)
{
    struct sbx_pool pool;

    (void)state;
    assert_int_equal(sbx_pool_init(&pool, NULL, false, NULL), 0);
    assert_int_equal(pool.slot_count, sbx_starter_plain.standard);
    assert_true(sbx_pool_is_empty(&pool));
    assert_int_equal(sbx_pool_init(&pool, NULL, true, NULL), 0);
    assert_int_equal(pool.slot_count, sbx_starter_plain.standard + sbx_starter_python.standard +
                                          sbx_starter_pytest.standard +
                                          sbx_starter_pytest_shallow.standard);
}

static void pool_has_no_slots_of_templates_without_templates(void **state)
{
    struct sbx_pool pool;

    (void)state;
    assert_int_equal(sbx_pool_init(&pool, "plain=1,pytest=3,python=2", false, NULL), 0);
    assert_int_equal(pool.slot_count, 1);
    assert_int_equal(sbx_pool_init(&pool, "0,pytest=3,plain=1", true, NULL), 0);
    assert_int_equal(pool.slot_count, 4);
    assert_ptr_equal(pool.slots[0].starter, &sbx_starter_pytest); /* the special ones come first */
}

static void pool_refuses_what_is_no_size(void **state)
{
    static const char *const rows[] = {"1",        "plain",    "plain=",  "plain=x", "plain=1x",
                                       "plain=-1", "plain=17", "other=1", "=1",      "plai=1"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct sbx_pool pool;

        assert_int_equal(sbx_pool_init(&pool, rows[i], false, &err), -EINVAL);
        assert_non_null(strstr(err.text, "--pool: "));
        assert_non_null(strstr(err.text, rows[i]));
    }
}

/*
 * Three slots of a kind, of which the last is to be filled, beside a run that
 * has just come and one of two cores: from when on, after that run came.
 */
static int64_t fill_beside_a_young_run(const struct sbx_starter *starter, enum sbx_pool_state first,
                                       enum sbx_pool_state second)
{
    static struct sbx_native native; /* large */
    static struct sbx_job job;

    const enum sbx_pool_state states[] = {first, second, SBX_POOL_FREE};

    int64_t next_ns;

    memset(&native, 0, sizeof(native));
    sbx_job_init(&job, 0);
    job.state = SBX_JOB_RUNNING;
    job.received_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S; /* young for this whole test */
    native.base.slot_count = 1;
    native.base.jobs[0] = &job;
    native.pool = (struct sbx_pool){.slot_count = 3, .starting_most = 2};
    for (size_t i = 0; i < 3; i++)
        native.pool.slots[i] = (struct sbx_pool_slot){.starter = starter,
                                                      .cell = SBX_CELL_INIT,
                                                      .deadline_ns = INT64_MAX,
                                                      .state = states[i]};
    next_ns = sbx_pool_next_ns(&native);
    return next_ns == INT64_MAX ? next_ns : next_ns - job.received_ns;
}

/* INT64_MAX: may be filled now, as far as runs are concerned. */
static void pool_makes_boxes_of_templates_where_they_take_nothing_from_runs(void **state)
{
    const int64_t lull_ns =
        fill_beside_a_young_run(&sbx_starter_pytest, SBX_POOL_IDLE, SBX_POOL_IDLE);
    const int64_t room_ns =
        fill_beside_a_young_run(&sbx_starter_pytest, SBX_POOL_STARTING, SBX_POOL_DYING);

    (void)state;
    assert_true(lull_ns > 0 && lull_ns < CR_NS_PER_S);
    assert_int_equal(fill_beside_a_young_run(&sbx_starter_pytest, SBX_POOL_IDLE, SBX_POOL_STARTING),
                     lull_ns);
    assert_true(room_ns > lull_ns && room_ns < CR_NS_PER_S);
    assert_int_equal(fill_beside_a_young_run(&sbx_starter_pytest, SBX_POOL_IDLE, SBX_POOL_DYING),
                     INT64_MAX);
    assert_int_equal(fill_beside_a_young_run(&sbx_starter_pytest, SBX_POOL_DYING, SBX_POOL_DYING),
                     INT64_MAX);
    assert_int_equal(fill_beside_a_young_run(&sbx_starter_plain, SBX_POOL_IDLE, SBX_POOL_IDLE),
                     INT64_MAX);
}

/* A backend with one slot in each state, and templates of whom only that of pytest runs. */
static struct sbx_native *make_native(void)
{
    static struct sbx_native native; /* large */
    static struct sbx_cgroup_host host;

    sbx_cgroup_host_init(&host, &sbx_cgroup_v1);
    memset(&native, 0, sizeof(native));
    sbx_templates_init(&native.templates, "on");
    native.templates.list[SBX_TEMPLATE_PYTEST].pid =
        getpid(); /* no child of ours: reaped at once */
    native.templates.list[SBX_TEMPLATE_PYTEST].is_ready = true;
    native.templates.list[SBX_TEMPLATE_PYTEST].started_ns = cr_clock_mono_ns();
    native.templates.list[SBX_TEMPLATE_PYTEST].packages =
        sbx_template_packages(SBX_TEMPLATE_PYTEST);
    native.base.pool_ready = 1;
    native.pool = (struct sbx_pool){.slot_count = SBX_POOL_STATE_COUNT, .starting_most = 1};
    for (uint32_t i = 0; i < SBX_POOL_STATE_COUNT; i++) {
        native.pool.slots[i] = (struct sbx_pool_slot){.state = (enum sbx_pool_state)i,
                                                      .starter = &sbx_starter_pytest,
                                                      .cell = SBX_CELL_INIT,
                                                      .deadline_ns = INT64_MAX};
        native.pool.slots[i].cell.group.host = &host;
        native.pool.slots[i].cell.asked_of = i == SBX_POOL_FREE ? -1 : SBX_TEMPLATE_PYTEST;
    }
    return &native;
}

static void expect_states(const struct sbx_native *native, enum sbx_pool_state starting,
                          enum sbx_pool_state idle)
{
    assert_int_equal(native->pool.slots[SBX_POOL_FREE].state, SBX_POOL_FREE);
    assert_int_equal(native->pool.slots[SBX_POOL_STARTING].state, starting);
    assert_int_equal(native->pool.slots[SBX_POOL_IDLE].state, idle);
    assert_int_equal(native->pool.slots[SBX_POOL_DYING].state, SBX_POOL_DYING);
    assert_int_equal(native->base.pool_ready, idle == SBX_POOL_IDLE);
}

static void pool_keeps_what_a_template_of_the_same_packages_forked(void **state)
{
    struct sbx_native *native = make_native();

    (void)state;
    native->templates.list[SBX_TEMPLATE_PYTEST].started_ns = INT64_MIN / 2; /* old */
    native->templates.look_ns = 0;
    sbx_templates_on_time(native, 1);

    assert_int_equal(native->templates.list[SBX_TEMPLATE_PYTEST].pid, -1);
    expect_states(native, SBX_POOL_STARTING, SBX_POOL_IDLE);
}

static void pool_drops_what_a_template_of_other_packages_forked(void **state)
{
    struct sbx_native *native = make_native();

    (void)state;
    native->templates.list[SBX_TEMPLATE_PYTEST].packages ^= 1;
    native->pool.slots[SBX_POOL_STARTING].cell.asked_of = SBX_TEMPLATE_PYTHON;
    native->templates.look_ns = 0;
    sbx_templates_on_time(native, 1);

    assert_int_equal(native->templates.list[SBX_TEMPLATE_PYTEST].pid, -1);
    expect_states(native, SBX_POOL_STARTING, SBX_POOL_DYING);
}

/* Else nobody would end it before a run had waited for it, too. */
static void pool_gives_up_a_template_that_does_not_answer_it(void **state)
{
    struct sbx_native *native = make_native();
    const int64_t now_ns = cr_clock_mono_ns();

    (void)state;
    native->pool.slots[SBX_POOL_STARTING].cell.asked = 5;
    native->pool.slots[SBX_POOL_STARTING].deadline_ns = now_ns;
    native->templates.asked[SBX_TEMPLATE_PYTEST] = 1;
    sbx_pool_on_time(native, now_ns);

    assert_int_equal(native->templates.list[SBX_TEMPLATE_PYTEST].pid, -1);
    assert_int_equal(native->templates.asked[SBX_TEMPLATE_PYTEST], 0);
    assert_true(native->templates.start_ns[SBX_TEMPLATE_PYTEST] < INT64_MAX);
    expect_states(native, SBX_POOL_FREE, SBX_POOL_IDLE);
}

/* A collector that was forked just before has a copy of the connection for a while. */
static void a_template_that_ended_is_heard_of_once(void **state)
{
    struct sbx_native *native = make_native();
    struct sbx_template *template = &native->templates.list[SBX_TEMPLATE_PYTEST];
    struct epoll_event event;
    int pair[2];
    int copy;

    (void)state;
    native->base.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    copy = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
    template->fd = pair[0];
    assert_int_equal(sbx_backend_watch(&native->base, template->fd, EPOLLIN,
                                       SBX_NATIVE_WATCH_TEMPLATE + SBX_TEMPLATE_PYTEST, NULL),
                     0);
    (void)close(pair[1]);
    assert_int_equal(epoll_wait(native->base.epoll_fd, &event, 1, 0), 1);
    sbx_templates_on_event(native, SBX_TEMPLATE_PYTEST);

    assert_int_equal(native->templates.failures[SBX_TEMPLATE_PYTEST], 1);
    assert_int_equal(epoll_wait(native->base.epoll_fd, &event, 1, 0), 0);
    (void)close(copy);
    (void)close(native->base.epoll_fd);
}

/* After both stood still, as in a machine that was paused, its answer is there, and so is the box:
 * nobody else would reap it. */
static void a_template_that_is_given_up_is_heard_out(void **state)
{
    struct sbx_native *native = make_native();
    struct sbx_template *template = &native->templates.list[SBX_TEMPLATE_PYTEST];
    struct sbx_pool_slot *slot = &native->pool.slots[SBX_POOL_STARTING];
    struct sbx_template_msg msg = {.op = SBX_TEMPLATE_BOXED, .id = 5};
    const int64_t now_ns = cr_clock_mono_ns();
    int pair[2];
    int pidfd;

    (void)state;
    native->base.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    template->fd = pair[0];
    msg.pid = getpid();
    pidfd = pidfd_open(msg.pid, 0);
    assert_int_equal(sbx_fds_send(pair[1], &msg, sizeof(msg), &pidfd, 1), 0);
    slot->cell.asked = 5;
    slot->deadline_ns = now_ns;
    native->templates.asked[SBX_TEMPLATE_PYTEST] = 1;
    sbx_pool_on_time(native, now_ns);

    assert_int_equal(slot->cell.box.pid, msg.pid);
    assert_int_equal(template->pid, -1);
    expect_states(native, SBX_POOL_STARTING, SBX_POOL_IDLE);
    (void)close(slot->cell.box.pidfd);
    (void)close(pidfd);
    (void)close(pair[1]);
    (void)close(native->base.epoll_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_moves_as_its_table_says),
        cmocka_unit_test(pool_takes_the_sizes_that_the_setting_names),
        cmocka_unit_test(pool_has_a_standard_size),
        cmocka_unit_test(pool_has_no_slots_of_templates_without_templates),
        cmocka_unit_test(pool_refuses_what_is_no_size),
        cmocka_unit_test(pool_makes_boxes_of_templates_where_they_take_nothing_from_runs),
        cmocka_unit_test(pool_keeps_what_a_template_of_the_same_packages_forked),
        cmocka_unit_test(pool_drops_what_a_template_of_other_packages_forked),
        cmocka_unit_test(pool_gives_up_a_template_that_does_not_answer_it),
        cmocka_unit_test(a_template_that_ended_is_heard_of_once),
        cmocka_unit_test(a_template_that_is_given_up_is_heard_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
