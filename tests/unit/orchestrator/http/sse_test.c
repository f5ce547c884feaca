/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/http/sse.h"
#include "tests/harness/test.h"

#include <errno.h>

static void state_events_have_an_id_and_deltas_none(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 1024);
    assert_int_equal(agt_sse_add_event(&buf, 7, "run_started", "{\"a\":1}"), 0);
    assert_int_equal(agt_sse_add_event(&buf, 0, "model_delta", "{}"), 0);
    assert_string_equal(cr_buf_str(&buf), "id: 7\nevent: run_started\ndata: {\"a\":1}\n\n"
                                          "event: model_delta\ndata: {}\n\n");
}

static void streams_begin_with_a_retry_time_and_may_be_kept_alive(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 1024);
    assert_int_equal(agt_sse_add_preamble(&buf), 0);
    assert_int_equal(agt_sse_add_heartbeat(&buf), 0);
    assert_string_equal(cr_buf_str(&buf), "retry: 2000\n\n: heartbeat\n\n");
}

static void line_breaks_cannot_begin_a_frame(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 1024);
    assert_int_equal(agt_sse_add_event(&buf, 1, "a", "{}\n\nevent: result"), -EINVAL);
    assert_int_equal(agt_sse_add_event(&buf, 1, "a", "{}\r"), -EINVAL);
    assert_int_equal(agt_sse_add_event(&buf, 1, "a\nid: 9", "{}"), -EINVAL);
    assert_int_equal(buf.size, 0);
}

static void a_frame_that_does_not_fit_leaves_nothing_behind(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 40);
    assert_int_equal(agt_sse_add_event(&buf, 1, "a", "{}"), 0);
    assert_int_equal(agt_sse_add_event(&buf, 2, "b", "{\"long\":\"longer\"}"), -ENOSPC);
    assert_string_equal(cr_buf_str(&buf), "id: 1\nevent: a\ndata: {}\n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_events_have_an_id_and_deltas_none),
        cmocka_unit_test(streams_begin_with_a_retry_time_and_may_be_kept_alive),
        cmocka_unit_test(line_breaks_cannot_begin_a_frame),
        cmocka_unit_test(a_frame_that_does_not_fit_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
