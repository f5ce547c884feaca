/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

/* A packed NodeStarted event, and what a test puts behind it. */
static const uint8_t node_started[] = {0x10, 1, 0x28, 1, 0x5a, 2, 0x08, 1};

static int add(struct agt_replay *replay, const void *input, size_t size)
{
    const struct agt_store_event event = {
        .seq = (uint32_t)replay->event_count + 1,
        .payload = node_started,
        .size = sizeof(node_started),
        .input = input,
        .input_size = size,
    };

    return agt_replay_add(replay, &event);
}

static void an_event_that_is_no_message_is_refused(void **state)
{
    struct agt_replay replay = {.events = NULL};
    const struct agt_store_event torn = {
        .seq = 1, .payload = node_started, .size = sizeof(node_started) - 1};

    (void)state;
    assert_int_equal(agt_replay_add(&replay, &torn), -EBADMSG);
    assert_int_equal(replay.event_count, 0);
    agt_replay_done(&replay);
}

static void an_input_that_is_no_record_is_refused(void **state)
{
    struct agt_replay replay = {.events = NULL};

    (void)state;
    assert_int_equal(add(&replay, "\x0a\x7f", 2), -EBADMSG);
    assert_int_equal(replay.record_count, 0);
    agt_replay_done(&replay);
}

static void an_input_without_a_record_is_taken(void **state)
{
    struct agt_replay replay = {.events = NULL};

    (void)state;
    assert_int_equal(add(&replay, "", 0), 0);
    assert_int_equal(replay.event_count, 1);
    assert_int_equal(replay.record_count, 0);
    assert_true(replay.is_on);
    agt_replay_done(&replay);
}

static void what_was_drawn_comes_back_once_and_in_its_turn(void **state)
{
    CR_AUTO_BUF struct cr_buf input = {0};
    struct agt_replay replay = {.events = NULL};
    char digits[5] = "";
    char longer[6] = "";

    (void)state;
    cr_buf_init(&input, 4096);
    assert_int_equal(agt_record_add_draw("a1b2", &input), 0);
    assert_int_equal(agt_record_add_draw("c3d4", &input), 0);
    assert_int_equal(add(&replay, input.data, input.size), 0);

    assert_false(agt_replay_draw(&replay, longer, sizeof(longer))); /* not what was drawn */
    assert_true(agt_replay_draw(&replay, digits, sizeof(digits)));
    assert_string_equal(digits, "a1b2");
    assert_true(agt_replay_draw(&replay, digits, sizeof(digits)));
    assert_string_equal(digits, "c3d4");
    assert_false(agt_replay_draw(&replay, digits, sizeof(digits)));
    agt_replay_done(&replay);
}

static void records_of_many_events_are_kept_in_order(void **state)
{
    struct agt_replay replay = {.events = NULL};
    char digits[5] = "";

    (void)state;
    for (char digit = '0'; digit <= '9'; digit++) {
        CR_AUTO_BUF struct cr_buf input = {0};
        const char drawn[] = {digit, digit, digit, digit, '\0'};

        cr_buf_init(&input, 4096);
        assert_int_equal(agt_record_add_draw(drawn, &input), 0);
        assert_int_equal(add(&replay, input.data, input.size), 0);
    }
    for (char digit = '0'; digit <= '9'; digit++) {
        assert_true(agt_replay_draw(&replay, digits, sizeof(digits)));
        assert_int_equal(digits[3], digit);
    }
    assert_int_equal(replay.event_count, 10);
    agt_replay_done(&replay);
    assert_int_equal(replay.event_count, 0);
    assert_false(replay.is_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_that_is_no_message_is_refused),
        cmocka_unit_test(an_input_that_is_no_record_is_refused),
        cmocka_unit_test(an_input_without_a_record_is_taken),
        cmocka_unit_test(what_was_drawn_comes_back_once_and_in_its_turn),
        cmocka_unit_test(records_of_many_events_are_kept_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
