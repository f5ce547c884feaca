/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/graph/event_log.h"
#include "tests/harness/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ID "00112233445566778899aabbccddeeff"
#define WRITES 5000

static void add_state(struct agt_event_log *log, uint32_t seq, bool is_last)
{
    Crisol__Agent__V1__NodeStarted started = CRISOL__AGENT__V1__NODE_STARTED__INIT;
    Crisol__Agent__V1__RunResult result = CRISOL__AGENT__V1__RUN_RESULT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    event.seq = seq;
    event.event_case = is_last ? CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT
                               : CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED;
    if (is_last)
        event.result = &result;
    else
        event.node_started = &started;
    assert_int_equal(agt_event_log_add(log, agt_event_new(&event, true, is_last)), 0);
}

static void add_delta(struct agt_event_log *log, uint32_t seq, uint32_t offset, const char *text)
{
    Crisol__Agent__V1__ModelDelta delta = CRISOL__AGENT__V1__MODEL_DELTA__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;
    char *copy = strdup(text);

    assert_non_null(copy);
    delta.offset = offset;
    delta.text = copy;
    event.seq = seq;
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA;
    event.model_delta = &delta;
    assert_int_equal(agt_event_log_add(log, agt_event_new(&event, false, false)), 0);
    free(copy);
}

static void count_notify(void *user)
{
    (void)__atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
}

/* The next event: its seq, and whether it is a Gap (then the number of dropped deltas). */
static int next(struct agt_watch *watch, uint32_t *ret_seq, uint32_t *ret_dropped)
{
    struct agt_event *event = NULL;
    int r = agt_watch_next(watch, &event);

    *ret_dropped = 0;
    if (r == 1) {
        Crisol__Agent__V1__RunEvent *message =
            crisol__agent__v1__run_event__unpack(NULL, event->size, event->packed);

        assert_non_null(message);
        *ret_seq = message->seq;
        if (message->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_GAP) {
            assert_string_equal(message->run_id, RUN_ID);
            *ret_dropped = message->gap->dropped_deltas;
        }
        crisol__agent__v1__run_event__free_unpacked(message, NULL);
    }
    (void)agt_event_unref(event);
    return r;
}

/* A log with one reader of it. */
struct reader {
    struct agt_event_log *log;
    struct agt_watch *watch;
    uint32_t seq;     /* of what was read last */
    uint32_t dropped; /* if that was a Gap; else 0 */
    int notified;
};

static struct reader begin(void)
{
    struct reader reader = {.log = agt_event_log_new(RUN_ID)};

    assert_non_null(reader.log);
    return reader;
}

static void watch_from(struct reader *reader, uint32_t seq)
{
    assert_int_equal(
        agt_event_log_watch(reader->log, seq, count_notify, &reader->notified, &reader->watch), 0);
}

static int read_next(struct reader *reader)
{
    return next(reader->watch, &reader->seq, &reader->dropped);
}

static void end(struct reader *reader)
{
    assert_null(agt_watch_free(reader->watch));
    assert_null(agt_event_log_unref(reader->log));
}

static void reader_gets_everything_in_order_and_then_the_end(void **state)
{
    struct reader reader = begin();

    (void)state;
    watch_from(&reader, 0);
    assert_int_equal(read_next(&reader), 0);
    add_state(reader.log, 1, false);
    add_delta(reader.log, 1, 0, "a");
    add_state(reader.log, 2, true);

    assert_int_equal(reader.notified, 1);
    for (uint32_t expected = 1; expected <= 2; expected++) {
        assert_int_equal(read_next(&reader), 1);
        assert_int_equal(reader.seq, expected);
        if (expected == 1) {
            assert_int_equal(read_next(&reader), 1);
            assert_int_equal(reader.seq, 1);
        }
    }
    assert_int_equal(read_next(&reader), -EPIPE);
    end(&reader);
}

static void slow_reader_gets_one_gap_and_every_state_event(void **state)
{
    struct reader reader = begin();
    uint32_t states = 0;
    uint32_t deltas = 0;
    uint32_t gaps = 0;
    uint32_t lost = 0;

    (void)state;
    watch_from(&reader, 0);
    add_state(reader.log, 1, false);
    for (uint32_t i = 0; i < 3 * AGT_LOG_DELTAS_MAX; i++)
        add_delta(reader.log, 1, i, "x");
    add_state(reader.log, 2, true);

    while (read_next(&reader) == 1) {
        if (reader.dropped > 0) {
            gaps++;
            lost += reader.dropped;
        } else if (reader.seq > states) {
            states++;
        } else {
            deltas++;
        }
    }
    assert_int_equal(states, 2);
    assert_int_equal(gaps, 1);
    assert_int_equal(lost, 2 * AGT_LOG_DELTAS_MAX);
    assert_int_equal(deltas, AGT_LOG_DELTAS_MAX);
    end(&reader);
}

static void deltas_are_bounded_in_bytes_too(void **state)
{
    struct reader reader = begin();
    char *text = malloc(AGT_LOG_DELTA_BYTES_MAX / 4);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', AGT_LOG_DELTA_BYTES_MAX / 4 - 1);
    text[AGT_LOG_DELTA_BYTES_MAX / 4 - 1] = '\0';
    for (uint32_t i = 0; i < 10; i++)
        add_delta(reader.log, 0, i, text);
    watch_from(&reader, 0);

    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(reader.dropped, 7); /* three and their headers fit */
    end(&reader);
    free(text);
}

static void deltas_lost_on_the_way_are_a_gap(void **state)
{
    struct reader reader = begin();

    (void)state;
    watch_from(&reader, 0);
    add_state(reader.log, 1, false);
    agt_event_log_skip(reader.log, 7);
    add_delta(reader.log, 1, 70, "x");

    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(reader.dropped, 7);
    assert_int_equal(reader.seq, 1);
    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(reader.dropped, 0);
    assert_int_equal(read_next(&reader), 0);
    end(&reader);
}

static void reader_starts_at_the_state_event_that_it_names(void **state)
{
    struct reader reader = begin();
    struct agt_watch *early = NULL;

    (void)state;
    assert_int_equal(agt_event_log_watch(reader.log, 3, count_notify, &reader.notified, &early), 0);
    add_state(reader.log, 1, false);
    assert_int_equal(next(early, &reader.seq, &reader.dropped), 0);
    add_state(reader.log, 2, false);
    add_delta(reader.log, 2, 0, "x");
    add_state(reader.log, 3, false);
    watch_from(&reader, 2);

    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(reader.seq, 2);
    assert_int_equal(next(early, &reader.seq, &reader.dropped), 1);
    assert_int_equal(reader.seq, 3);
    assert_int_equal(reader.dropped, 0);
    assert_null(agt_watch_free(early));
    end(&reader);
}

static void reader_behind_the_end_is_told_so(void **state)
{
    struct reader reader = begin();

    (void)state;
    add_state(reader.log, 1, true);
    watch_from(&reader, 9);

    assert_int_equal(read_next(&reader), -EPIPE);
    end(&reader);
}

static void log_that_ends_without_a_result_wakes_its_readers(void **state)
{
    struct reader reader = begin();

    (void)state;
    watch_from(&reader, 0);
    assert_int_equal(read_next(&reader), 0);
    agt_event_log_end(reader.log);

    assert_int_equal(reader.notified, 1);
    assert_int_equal(read_next(&reader), -EPIPE);
    end(&reader);
}

static void reader_of_the_last_event_is_told_of_no_other(void **state)
{
    struct reader reader = begin();

    (void)state;
    add_state(reader.log, 1, false);
    watch_from(&reader, 0);
    agt_watch_only_last(reader.watch);
    assert_int_equal(read_next(&reader), 0);
    add_delta(reader.log, 1, 0, "a");
    add_state(reader.log, 2, false);
    assert_int_equal(reader.notified, 0);
    assert_int_equal(read_next(&reader), 0);
    add_state(reader.log, 3, true);

    assert_int_equal(reader.notified, 1);
    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(reader.seq, 3);
    assert_int_equal(read_next(&reader), -EPIPE);
    end(&reader);
}

static void watch_outlives_the_last_reference_to_its_log(void **state)
{
    struct reader reader = begin();

    (void)state;
    add_state(reader.log, 1, true);
    watch_from(&reader, 0);
    assert_null(agt_event_log_unref(reader.log));

    assert_int_equal(read_next(&reader), 1);
    assert_int_equal(reader.seq, 1);
    assert_null(agt_watch_free(reader.watch));
}

static struct agt_event *event_at(struct agt_event_log *log, uint32_t seq)
{
    struct agt_event *event = NULL;
    struct agt_watch *watch = NULL;
    int notified = 0;

    assert_int_equal(agt_event_log_watch(log, seq, count_notify, &notified, &watch), 0);
    assert_int_equal(agt_watch_next(watch, &event), 1);
    assert_null(agt_watch_free(watch));
    assert_int_equal(event->seq, seq);
    return event;
}

/* … and one that somebody holds stays where it is. Each outlives its log. */
static void events_of_an_ended_log_lie_behind_each_other(void **state)
{
    struct agt_event_log *log = agt_event_log_new(RUN_ID);
    struct agt_event *held;
    struct agt_event *events[5];

    (void)state;
    for (uint32_t seq = 1; seq < 5; seq++)
        add_state(log, seq, false);
    held = event_at(log, 2);
    add_state(log, 5, true);
    for (uint32_t seq = 1; seq <= 5; seq++)
        events[seq - 1] = event_at(log, seq);

    assert_ptr_equal(events[1], held);
    assert_null(held->block);
    assert_non_null(events[0]->block);
    for (size_t i = 2; i < 5; i++)
        assert_ptr_equal(events[i]->block, events[0]->block);
    (void)agt_event_unref(held);
    assert_null(agt_event_log_unref(log));
    for (size_t i = 0; i < 5; i++) {
        Crisol__Agent__V1__RunEvent *message =
            crisol__agent__v1__run_event__unpack(NULL, events[i]->size, events[i]->packed);

        assert_non_null(message);
        assert_int_equal(message->seq, i + 1);
        crisol__agent__v1__run_event__free_unpacked(message, NULL);
        (void)agt_event_unref(events[i]);
    }
}

static void *write_all(void *user)
{
    struct agt_event_log *log = user;

    for (uint32_t i = 1; i <= WRITES; i++) {
        add_state(log, i, i == WRITES);
        if (i < WRITES)
            add_delta(log, i, i, "delta");
    }
    return NULL;
}

/* Readers come and go while the writer writes: nothing is lost, and no notify comes too late. */
static void readers_come_and_go_while_events_are_written(void **state)
{
    struct agt_event_log *log = agt_event_log_new(RUN_ID);
    struct agt_watch *whole = NULL;
    pthread_t writer;
    uint32_t last = 0;
    int *notified = calloc(1, sizeof(int));
    int r = 0;

    (void)state;
    assert_non_null(notified);
    assert_int_equal(agt_event_log_watch(log, 0, count_notify, notified, &whole), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_all, log), 0);
    while (r != -EPIPE) {
        struct agt_watch *visitor = NULL;
        int *visits = calloc(1, sizeof(int)); /* freed at once after the watch */
        uint32_t seq = last;
        uint32_t dropped;

        assert_int_equal(agt_event_log_watch(log, 0, count_notify, visits, &visitor), 0);
        (void)next(visitor, &seq, &dropped);
        assert_null(agt_watch_free(visitor));
        free(visits);
        seq = last;
        r = next(whole, &seq, &dropped);
        assert_true(seq == last || seq == last + 1);
        last = seq;
    }
    assert_int_equal(last, WRITES);
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_null(agt_watch_free(whole));
    assert_null(agt_event_log_unref(log));
    free(notified);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_gets_everything_in_order_and_then_the_end),
        cmocka_unit_test(slow_reader_gets_one_gap_and_every_state_event),
        cmocka_unit_test(deltas_are_bounded_in_bytes_too),
        cmocka_unit_test(deltas_lost_on_the_way_are_a_gap),
        cmocka_unit_test(reader_starts_at_the_state_event_that_it_names),
        cmocka_unit_test(reader_behind_the_end_is_told_so),
        cmocka_unit_test(log_that_ends_without_a_result_wakes_its_readers),
        cmocka_unit_test(reader_of_the_last_event_is_told_of_no_other),
        cmocka_unit_test(watch_outlives_the_last_reference_to_its_log),
        cmocka_unit_test(events_of_an_ended_log_lie_behind_each_other),
        cmocka_unit_test(readers_come_and_go_while_events_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
