/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/docker/engine.h"
#include "tests/harness/test.h"
#include "tests/unit/sandboxd/docker/fake_engine.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include <sys/socket.h>

#define VERSION(newest, oldest)                                                                    \
    FAKE_ANSWER("200 OK", "{\"ApiVersion\":\"" newest "\",\"MinAPIVersion\":\"" oldest "\"}")

static int negotiate(const char *path, char version[16], struct cr_err *err)
{
    struct sbx_engine *engine = NULL;
    int r;

    assert_int_equal(sbx_engine_new(path, &engine, err), 0);
    r = sbx_engine_negotiate(engine, err);
    (void)snprintf(version, 16, "%s", sbx_engine_version(engine));
    (void)sbx_engine_free(engine);
    return r;
}

static void versions_are_agreed_on(void **state)
{
    static const struct {
        const char *answer;
        int r;
        const char *text; /* the version, or a part of the error */
    } cases[] = {
        {VERSION("1.41", "1.12"), 0, "/v1.41"},
        {VERSION("1.45", "1.24"), 0, "/v1.45"},
        {VERSION("1.52", "1.44"), 0, "/v1.45"},
        {VERSION("1.39", "1.12"), -EPROTONOSUPPORT, "1.12 to 1.39"},
        {VERSION("1.60", "1.50"), -EPROTONOSUPPORT, "1.50 to 1.60"},
        {VERSION("2.0", "1.50"), -EPROTO, "not a docker engine"},
        {VERSION("1.4x", "1.1"), -EPROTO, "not a docker engine"},
        {FAKE_ANSWER("200 OK", "hello"), -EPROTO, "not a docker engine"},
        {FAKE_ANSWER("500 Oops", "{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}"), -EPROTO,
         "not a docker engine"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct fake_engine fake;
        char version[16];

        fake_engine_start(&fake, cases[i].answer);
        assert_int_equal(negotiate(fake.path, version, &err), cases[i].r);
        assert_non_null(strstr(cases[i].r == 0 ? version : err.text, cases[i].text));
        fake_engine_stop(&fake);
    }
}

static void an_absent_engine_is_told_from_a_dead_one(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct fake_engine fake;
    char version[16];

    (void)state;
    assert_int_equal(negotiate("/tmp/crisol-nothing/s", version, &err), -ENOENT);
    assert_non_null(strstr(err.text, "is absent"));
    fake_engine_start(&fake, "");
    assert_int_equal(shutdown(fake.listen_fd, SHUT_RDWR), 0); /* as a process that was killed */
    assert_int_equal(negotiate(fake.path, version, &err), -ECONNREFUSED);
    assert_non_null(strstr(err.text, "is dead"));
    fake_engine_stop(&fake);
}

static void an_engine_that_hangs_up_went_away(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct fake_engine fake;
    char version[16];

    (void)state;
    fake_engine_start(&fake, "");
    assert_int_equal(negotiate(fake.path, version, &err), -ECONNRESET);
    assert_non_null(strstr(err.text, "went away during GET /version"));
    fake_engine_stop(&fake);
}

static void a_body_that_does_not_come_meets_the_deadline(void **state)
{
    struct sbx_engine_request request = {
        .method = "POST", .path = "/images/create?a=b", .is_streamed = true, .deadline_ms = 50};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_engine *engine = NULL;
    struct fake_engine fake;
    long status = 0;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    request.body_fd = ends[0];
    fake_engine_start(&fake, NULL);
    assert_int_equal(sbx_engine_new(fake.path, &engine, &err), 0);
    assert_int_equal(sbx_engine_ask(engine, &request, NULL, &status, &err), -ETIMEDOUT);
    assert_string_equal(err.text,
                        "the docker engine did not answer POST /images/create within 50 ms");
    (void)sbx_engine_free(engine);
    fake_engine_stop(&fake);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void an_answer_to_head_has_no_body(void **state)
{
    const struct sbx_engine_request request = {
        .method = "HEAD", .path = "/containers/x/archive?path=/bin/sh", .deadline_ms = 20000};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_engine *engine = NULL;
    struct fake_engine fake;
    long status = 0;

    (void)state;
    fake_engine_start(&fake, "HTTP/1.1 404 Not Found\r\nConnection: close\r\n"
                             "Content-Length: 500\r\n\r\n");
    assert_int_equal(sbx_engine_new(fake.path, &engine, &err), 0);
    assert_int_equal(sbx_engine_ask(engine, &request, NULL, &status, &err), 0);
    assert_int_equal(status, 404);
    (void)sbx_engine_free(engine);
    fake_engine_stop(&fake);
}

static void a_silent_engine_meets_the_deadline(void **state)
{
    const struct sbx_engine_request request = {
        .method = "POST", .path = "/containers/x/start?y=1", .deadline_ms = 50};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_engine *engine = NULL;
    struct fake_engine fake;
    long status = 0;

    (void)state;
    fake_engine_start(&fake, NULL);
    assert_int_equal(sbx_engine_new(fake.path, &engine, &err), 0);
    assert_int_equal(sbx_engine_ask(engine, &request, NULL, &status, &err), -ETIMEDOUT);
    assert_string_equal(err.text,
                        "the docker engine did not answer POST /containers/x/start within 50 ms");
    (void)sbx_engine_free(engine);
    fake_engine_stop(&fake);
}

struct kept {
    int count;
    uint64_t tag;
    int error;
    long status;
    bool is_gone;
    char text[128];
};

static void keep(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct kept *kept = user;

    kept->count++;
    kept->tag = tag;
    kept->error = answer->error;
    kept->status = answer->status;
    kept->is_gone = answer->is_gone;
    (void)snprintf(kept->text, sizeof(kept->text), "%s", answer->text);
}

/* As the backend's loop does it. */
static void run_until(struct sbx_engine *engine, const struct kept *kept, int count)
{
    int64_t deadline_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;

    while (kept->count < count) {
        struct pollfd fd = {.fd = sbx_engine_fd(engine), .events = POLLIN};
        int64_t left_ns = sbx_engine_next_ns(engine) - cr_clock_mono_ns();

        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(&fd, 1, left_ns <= 0 ? 0 : left_ns > CR_NS_PER_S ? 1000 : 10);
        sbx_engine_run(engine);
    }
}

static void calls_of_the_loop_end_in_their_callback(void **state)
{
    const struct sbx_engine_request request = {
        .method = "DELETE", .path = "/containers/x", .deadline_ms = 2000};
    struct sbx_engine *engine = NULL;
    struct fake_engine fake;
    struct kept kept = {0};

    (void)state;
    fake_engine_start(&fake, FAKE_ANSWER("409 Conflict", "{\"message\":\"in progress\\nmore\"}"));
    assert_int_equal(sbx_engine_new(fake.path, &engine, NULL), 0);
    assert_int_equal(sbx_engine_call(engine, &request, keep, &kept, 7), 0);
    run_until(engine, &kept, 1);
    assert_int_equal(kept.tag, 7);
    assert_int_equal(kept.error, 0);
    assert_int_equal(kept.status, 409);
    assert_string_equal(kept.text, "in progress");
    (void)sbx_engine_free(engine);
    fake_engine_stop(&fake);
}

static void the_end_of_the_engine_is_told_from_a_slow_call(void **state)
{
    struct sbx_engine_request request = {.method = "GET", .path = "/x", .deadline_ms = 50};
    struct sbx_engine *engine = NULL;
    struct fake_engine fake;
    struct kept kept = {0};

    (void)state;
    fake_engine_start(&fake, NULL);
    assert_int_equal(sbx_engine_new(fake.path, &engine, NULL), 0);
    assert_int_equal(sbx_engine_call(engine, &request, keep, &kept, 1), 0);
    run_until(engine, &kept, 1);
    assert_int_equal(kept.error, ETIMEDOUT);
    assert_false(kept.is_gone);
    (void)shutdown(fake.listen_fd, SHUT_RDWR);
    request.deadline_ms = 2000;
    assert_int_equal(sbx_engine_call(engine, &request, keep, &kept, 2), 0);
    run_until(engine, &kept, 2);
    assert_true(kept.is_gone);
    (void)sbx_engine_free(engine);
    fake_engine_stop(&fake);
}

static void calls_in_flight_go_with_the_engine(void **state)
{
    const struct sbx_engine_request request = {.method = "GET", .path = "/x", .deadline_ms = 9000};
    struct sbx_engine *engine = NULL;
    struct fake_engine fake;
    struct kept kept = {0};
    int fds;

    (void)state;
    fake_engine_start(&fake, NULL);
    fds = test_count_fds();
    assert_int_equal(sbx_engine_new(fake.path, &engine, NULL), 0);
    assert_int_equal(sbx_engine_call(engine, &request, keep, &kept, 1), 0);
    sbx_engine_run(engine);
    (void)sbx_engine_free(engine);
    assert_int_equal(kept.count, 0);
    fake_engine_stop(&fake);
    assert_true(test_count_fds() <= fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_agreed_on),
        cmocka_unit_test(an_absent_engine_is_told_from_a_dead_one),
        cmocka_unit_test(an_engine_that_hangs_up_went_away),
        cmocka_unit_test(a_body_that_does_not_come_meets_the_deadline),
        cmocka_unit_test(an_answer_to_head_has_no_body),
        cmocka_unit_test(a_silent_engine_meets_the_deadline),
        cmocka_unit_test(calls_of_the_loop_end_in_their_callback),
        cmocka_unit_test(the_end_of_the_engine_is_told_from_a_slow_call),
        cmocka_unit_test(calls_in_flight_go_with_the_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
