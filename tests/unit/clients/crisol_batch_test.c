/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/batch_items.h"
#include "clients/crisol/lines.h"
#include "common/clock.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8

/* ---- lines ---- */

static const struct cli_batch_defaults defaults = {.runtime = "python"};

struct feed {
    struct cli_lines lines;
    int write_fd;
};

static void feed_open(struct feed *feed)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    cli_lines_init(&feed->lines, fds[0], LINE_MAX_BYTES);
    feed->write_fd = fds[1];
}

static void feed_close(struct feed *feed)
{
    cli_lines_done(&feed->lines);
    assert_int_equal(close(feed->lines.fd), 0);
}

static void put(struct feed *feed, const char *text)
{
    assert_int_equal(write(feed->write_fd, text, strlen(text)), strlen(text));
    assert_int_equal(cli_lines_read(&feed->lines), 0);
}

static void end(struct feed *feed)
{
    assert_int_equal(close(feed->write_fd), 0);
    assert_int_equal(cli_lines_read(&feed->lines), 0);
}

static void expect(struct feed *feed, enum cli_line kind, const char *expected)
{
    const char *text = NULL;
    size_t size = 0;

    assert_int_equal(cli_lines_next(&feed->lines, &text, &size), kind);
    if (expected) {
        assert_int_equal(size, strlen(expected));
        assert_memory_equal(text, expected, size);
    }
}

static void a_line_comes_when_its_end_does(void **state)
{
    struct feed feed;

    (void)state;
    feed_open(&feed);
    expect(&feed, CLI_LINE_WAIT, NULL);
    put(&feed, "on");
    expect(&feed, CLI_LINE_WAIT, NULL);
    put(&feed, "e\n\ntwo\nla");
    expect(&feed, CLI_LINE_TEXT, "one");
    expect(&feed, CLI_LINE_TEXT, "");
    expect(&feed, CLI_LINE_TEXT, "two");
    expect(&feed, CLI_LINE_WAIT, NULL);
    end(&feed);

    expect(&feed, CLI_LINE_TEXT, "la");
    assert_int_equal(feed.lines.number, 4);
    expect(&feed, CLI_LINE_END, NULL);
    expect(&feed, CLI_LINE_END, NULL);
    feed_close(&feed);
}

static void a_line_that_is_too_long_counts_once_and_is_skipped(void **state)
{
    struct feed feed;

    (void)state;
    feed_open(&feed);
    put(&feed, "12345678\n123456789\nok\n0123456789");
    expect(&feed, CLI_LINE_TEXT, "12345678");
    expect(&feed, CLI_LINE_TOO_LONG, NULL);
    expect(&feed, CLI_LINE_TEXT, "ok");
    expect(&feed, CLI_LINE_TOO_LONG, NULL); /* before its end is there */
    expect(&feed, CLI_LINE_WAIT, NULL);
    put(&feed, "0123456789");
    expect(&feed, CLI_LINE_WAIT, NULL);
    put(&feed, "\nlast");
    end(&feed);

    expect(&feed, CLI_LINE_TEXT, "last");
    assert_int_equal(feed.lines.number, 5);
    expect(&feed, CLI_LINE_END, NULL);
    feed_close(&feed);
}

/* ---- items ---- */

struct desk {
    struct cli_batch_items *items;
    int output_fd;
};

static void desk_open(struct desk *desk, bool is_ordered)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    desk->output_fd = fds[0];
    desk->items = malloc(sizeof(*desk->items));
    assert_non_null(desk->items);
    assert_int_equal(cli_batch_items_init(desk->items, 4, is_ordered, fds[1]), 0);
    desk->items->give_up_ns = 60 * CR_NS_PER_S;
}

/* Everything that was written, as text. */
static void desk_close(struct desk *desk, char *text, size_t room)
{
    ssize_t n;

    assert_int_equal(close(desk->items->output_fd), 0);
    n = read(desk->output_fd, text, room - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(close(desk->output_fd), 0);
    cli_batch_items_done(desk->items);
    assert_int_equal(desk->items->bytes, 0);
    assert_int_equal(desk->items->used, 0);
    free(desk->items);
}

static void add(struct desk *desk, uint64_t line, const char *text)
{
    assert_true(cli_batch_items_has_room(desk->items));
    assert_int_equal(cli_batch_items_add(desk->items, line, text, strlen(text), &defaults), 0);
}

static struct cli_item *send_line(struct desk *desk, uint64_t line)
{
    int64_t due_ns;
    struct cli_item *item = cli_batch_items_next(desk->items, cr_clock_mono_ns(), &due_ns);

    assert_non_null(item);
    assert_int_equal(item->line, line);
    item->state = CLI_ITEM_SENT;
    return item;
}

static void answer(struct desk *desk, char *id, int verdict, bool is_retryable)
{
    Crisol__Sandbox__V1__RunBatchResponse response = CRISOL__SANDBOX__V1__RUN_BATCH_RESPONSE__INIT;
    Crisol__Sandbox__V1__RunResponse run = CRISOL__SANDBOX__V1__RUN_RESPONSE__INIT;
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Sandbox__V1__Verdict fate = CRISOL__SANDBOX__V1__VERDICT__INIT;

    fate.code = (Crisol__Sandbox__V1__VerdictCode)verdict;
    fate.retryable = is_retryable;
    result.verdict = &fate;
    run.result = &result;
    response.id = id;
    response.response = &run;
    assert_int_equal(cli_batch_items_answer(desk->items, &response), 0);
}

static void refuse(struct desk *desk, char *id, enum rpc_code code, uint32_t retry_after_ms)
{
    Crisol__Sandbox__V1__RunBatchResponse response = CRISOL__SANDBOX__V1__RUN_BATCH_RESPONSE__INIT;
    Crisol__Sandbox__V1__BatchError error = CRISOL__SANDBOX__V1__BATCH_ERROR__INIT;

    error.code = (uint32_t)code;
    error.retry_after_ms = retry_after_ms;
    response.id = id;
    response.error = &error;
    assert_int_equal(cli_batch_items_answer(desk->items, &response), 0);
}

/* Where the answers stand in the output; the order of the ids. */
static void expect_order(const char *text, const char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), "\"id\":\"%s\"", ids[i]);
        text = strstr(text, key);
        assert_non_null(text);
    }
}

static void answers_are_written_as_they_come_under_their_ids(void **state)
{
    static const char *const ids[] = {"2", "a"};
    char one[] = "1";
    char two[] = "2";
    char text[16384];
    struct desk desk;

    (void)state;
    desk_open(&desk, false);
    add(&desk, 1, "{\"id\":\"a\",\"request\":{\"code\":\"x\"}}");
    add(&desk, 2, "{\"request\":{\"code\":\"y\"}}");
    assert_string_equal(send_line(&desk, 1)->request->request->runtime, "python");
    assert_true(*send_line(&desk, 2)->request->request->request_id != '\0');
    answer(&desk, two, 1, false);
    answer(&desk, one, 2, false);
    answer(&desk, one, 2, false); /* nobody waits for it any more */

    assert_int_equal(desk.items->ran, 2);
    assert_int_equal(desk.items->verdicts[2], 1);
    desk_close(&desk, text, sizeof(text));
    expect_order(text, ids, 2);
}

static void ordered_answers_wait_for_those_before_them(void **state)
{
    static const char *const ids[] = {"a", "2", "c"};
    char one[] = "1";
    char three[] = "3";
    char text[16384];
    struct desk desk;

    (void)state;
    desk_open(&desk, true);
    add(&desk, 1, "{\"id\":\"a\",\"request\":{}}");
    add(&desk, 2, "{\"id\":\"b\",\"no\":1}"); /* answered at once, written later */
    add(&desk, 3, "{\"id\":\"c\",\"request\":{}}");
    (void)send_line(&desk, 1);
    (void)send_line(&desk, 3);
    answer(&desk, three, 1, false);
    assert_int_equal(desk.items->used, 3);
    answer(&desk, one, 1, false);
    assert_int_equal(desk.items->used, 0);

    assert_int_equal(desk.items->bad, 1);
    desk_close(&desk, text, sizeof(text));
    expect_order(text, ids, 3);
}

static void a_refusal_is_sent_again_not_before_its_time(void **state)
{
    char one[] = "1";
    char text[16384];
    struct desk desk;
    int64_t now_ns = cr_clock_mono_ns();
    int64_t due_ns = 0;

    (void)state;
    desk_open(&desk, false);
    add(&desk, 1, "{\"request\":{}}");
    (void)send_line(&desk, 1);
    refuse(&desk, one, RPC_RESOURCE_EXHAUSTED, 9000);

    assert_null(cli_batch_items_next(desk.items, now_ns, &due_ns));
    assert_true(due_ns >= now_ns + 9000 * CR_NS_PER_MS);
    assert_non_null(cli_batch_items_next(desk.items, due_ns, &due_ns));
    assert_int_equal(desk.items->retries, 1);

    desk.items->items[0].state = CLI_ITEM_SENT;
    desk.items->progress_ns -= 61 * CR_NS_PER_S; /* no line got its answer for so long */
    refuse(&desk, one, RPC_RESOURCE_EXHAUSTED, 9000);
    assert_int_equal(desk.items->not_run, 1);
    desk_close(&desk, text, sizeof(text));
    assert_non_null(strstr(text, "\"code\":8"));
}

static void a_refusal_for_weeks_is_asked_again_when_we_would_give_up(void **state)
{
    char one[] = "1";
    char text[16384];
    struct desk desk;
    int64_t due_ns = 0;

    (void)state;
    desk_open(&desk, false);
    add(&desk, 1, "{\"request\":{}}");
    (void)send_line(&desk, 1);
    refuse(&desk, one, RPC_RESOURCE_EXHAUSTED, UINT32_MAX);

    assert_null(cli_batch_items_next(desk.items, cr_clock_mono_ns(), &due_ns));
    assert_true(due_ns <= cr_clock_mono_ns() + desk.items->give_up_ns);
    desk_close(&desk, text, sizeof(text));
}

static void what_the_sandbox_broke_is_tried_three_times_more(void **state)
{
    char one[] = "1";
    char text[16384];
    struct desk desk;

    (void)state;
    desk_open(&desk, false);
    add(&desk, 1, "{\"request\":{}}");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(desk.items->not_run, 0);
        desk.items->items[0].state = CLI_ITEM_SENT;
        answer(&desk, one, 51, true);
    }

    assert_int_equal(desk.items->not_run, 1);
    assert_int_equal(desk.items->retries, 3);
    desk_close(&desk, text, sizeof(text));
    assert_non_null(strstr(text, "VERDICT_CODE_SANDBOX_LOST"));
}

static void a_broken_stream_sends_again_what_has_no_answer(void **state)
{
    char two[] = "2";
    char text[16384];
    struct desk desk;

    (void)state;
    desk_open(&desk, false);
    for (uint64_t line = 1; line <= 4; line++)
        add(&desk, line, "{\"request\":{}}");
    assert_false(cli_batch_items_has_room(desk.items));
    (void)send_line(&desk, 1);
    (void)send_line(&desk, 2);
    answer(&desk, two, 1, false);
    cli_batch_items_lost(desk.items);

    (void)send_line(&desk, 1);
    (void)send_line(&desk, 3);
    assert_int_equal(cli_batch_items_fail(desk.items, RPC_UNAVAILABLE, "gone"), 0);
    assert_int_equal(desk.items->not_run, 3);
    desk_close(&desk, text, sizeof(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_comes_when_its_end_does),
        cmocka_unit_test(a_line_that_is_too_long_counts_once_and_is_skipped),
        cmocka_unit_test(answers_are_written_as_they_come_under_their_ids),
        cmocka_unit_test(ordered_answers_wait_for_those_before_them),
        cmocka_unit_test(a_refusal_is_sent_again_not_before_its_time),
        cmocka_unit_test(a_refusal_for_weeks_is_asked_again_when_we_would_give_up),
        cmocka_unit_test(what_the_sandbox_broke_is_tried_three_times_more),
        cmocka_unit_test(a_broken_stream_sends_again_what_has_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
