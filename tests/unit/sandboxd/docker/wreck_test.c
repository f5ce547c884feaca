/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/wreck.h"
#include "tests/harness/test.h"
#include "tests/unit/sandboxd/docker/fake_engine.h"

#include <poll.h>
#include <string.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct sbx_docker docker; /* large */

static void start(struct fake_engine *fake, const char *answer)
{
    fake_engine_start(fake, answer);
    docker = (struct sbx_docker){.filter_fd = -1};
    sbx_backend_init(&docker.base, &sbx_docker_ops);
    assert_int_equal(sbx_engine_new(fake->path, &docker.engine, NULL), 0);
}

static void stop(struct fake_engine *fake)
{
    docker.engine = sbx_engine_free(docker.engine);
    fake_engine_stop(fake);
}

/* Until no call is in flight. */
static void settle(void)
{
    int64_t deadline_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;

    for (;;) {
        struct pollfd fd = {.fd = sbx_engine_fd(docker.engine), .events = POLLIN};
        bool is_asked = false;

        for (uint32_t i = 0; i < docker.wreckage.count; i++)
            is_asked = is_asked || docker.wreckage.wrecks[i].is_asked;
        if (!is_asked)
            return;
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(&fd, 1, 5);
        sbx_engine_run(docker.engine);
    }
}

static void a_removed_container_is_forgotten(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
                                          FAKE_ANSWER("404 Not Found", "{\"message\":\"gone\"}")};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        struct fake_engine fake;

        start(&fake, answers[i]);
        sbx_wreckage_add(&docker, ID);
        assert_int_equal(docker.wreckage.count, 1);
        settle();
        assert_int_equal(docker.wreckage.count, 0);
        assert_int_equal(sbx_wreckage_next_ns(&docker.wreckage), INT64_MAX);
        stop(&fake);
    }
}

/* The engine removes it itself just now: asked again soon, and it is no failure. */
static void a_removal_in_progress_is_asked_for_again(void **state)
{
    struct fake_engine fake;

    (void)state;
    start(&fake, FAKE_ANSWER("409 Conflict", "{\"message\":\"in progress\"}"));
    sbx_wreckage_add(&docker, ID);
    for (int i = 0; i < 5; i++) {
        settle();
        assert_int_equal(docker.wreckage.count, 1);
        assert_int_equal(docker.wreckage.wrecks[0].attempts, 0);
        assert_true(sbx_wreckage_next_ns(&docker.wreckage) < cr_clock_mono_ns() + CR_NS_PER_S);
        sbx_wreckage_on_time(&docker, INT64_MAX);
    }
    settle();
    assert_int_equal(docker.wreckage.quarantined, 0);
    stop(&fake);
}

static void a_wedged_container_goes_into_quarantine_and_out_again(void **state)
{
    struct fake_engine fake;

    (void)state;
    start(&fake, FAKE_ANSWER("500 Oops", "{\"message\":\"device busy\"}"));
    sbx_wreckage_add(&docker, ID);
    for (int i = 0; i < 4; i++) {
        settle();
        assert_int_equal(docker.wreckage.quarantined, i >= 2);
        sbx_wreckage_on_time(&docker, INT64_MAX);
    }
    settle();
    assert_false(docker.base.is_stopping);
    fake.answer = FAKE_ANSWER("404 Not Found", "{}");
    sbx_wreckage_on_time(&docker, INT64_MAX);
    settle();
    assert_int_equal(docker.wreckage.count, 0);
    assert_int_equal(docker.wreckage.quarantined, 0);
    stop(&fake);
}

static void an_engine_that_is_gone_stops_the_backend(void **state)
{
    struct fake_engine fake;

    (void)state;
    start(&fake, "");
    sbx_wreckage_add(&docker, ID);
    settle();
    assert_true(docker.is_engine_lost);
    assert_true(docker.base.is_stopping);
    stop(&fake);
}

static void too_many_wrecks_stop_new_runs(void **state)
{
    (void)state;
    docker.wreckage = (struct sbx_wreckage){.count = 10};
    assert_false(sbx_wreckage_is_full(&docker.wreckage));
    docker.wreckage.count = SBX_WRECKS_MAX / 2;
    assert_true(sbx_wreckage_is_full(&docker.wreckage));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removed_container_is_forgotten),
        cmocka_unit_test(a_removal_in_progress_is_asked_for_again),
        cmocka_unit_test(a_wedged_container_goes_into_quarantine_and_out_again),
        cmocka_unit_test(an_engine_that_is_gone_stops_the_backend),
        cmocka_unit_test(too_many_wrecks_stop_new_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
