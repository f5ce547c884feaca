/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/run_reader.h"

#include "common/err.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/eventfd.h>

#define WAIT_MS 60000

static void on_notify(void *user)
{
    uint64_t one = 1;

    (void)!write(*(const int *)user, &one, sizeof(one));
}

static void wait_for_notify(int fd)
{
    struct pollfd waiter = {.fd = fd, .events = POLLIN};
    uint64_t count;

    assert_int_equal(poll(&waiter, 1, WAIT_MS), 1);
    assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
}

/* The next event, unpacked; NULL after the last. */
static Crisol__Agent__V1__RunEvent *next_event(struct agt_watch *watch, int fd)
{
    Crisol__Agent__V1__RunEvent *message;
    struct agt_event *event = NULL;
    int r;

    for (r = agt_watch_next(watch, &event); r == 0; r = agt_watch_next(watch, &event))
        wait_for_notify(fd);
    if (r == -EPIPE)
        return NULL;
    assert_int_equal(r, 1);
    message = crisol__agent__v1__run_event__unpack(NULL, event->size, event->packed);
    assert_non_null(message);
    assert_int_equal(message->seq, event->seq);
    assert_int_equal(event->is_last,
                     message->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT);
    (void)agt_event_unref(event);
    return message;
}

static bool is_delta(const Crisol__Agent__V1__RunEvent *event)
{
    return event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA ||
           event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_OUTPUT_DELTA ||
           event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_GAP ||
           event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_HEARTBEAT;
}

static void read_run(struct run_reader *reader, struct agt_run *take_run, sem_t *gate)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    struct agt_watch *watch = NULL;
    Crisol__Agent__V1__RunEvent *event;
    uint32_t seq = 0;

    *reader = (struct run_reader){NULL, 0, NULL};
    assert_true(fd >= 0);
    assert_int_equal(agt_watch_new(take_run, 0, on_notify, &fd, &watch), 0);
    if (gate)
        assert_int_equal(sem_post(gate), 0);
    for (event = next_event(watch, fd); event; event = next_event(watch, fd)) {
        assert_string_equal(event->run_id, agt_run_id(take_run));
        assert_int_equal(event->seq, is_delta(event) ? seq : seq + 1);
        seq = event->seq;
        reader->events =
            reallocarray(reader->events, reader->count + 1, sizeof(Crisol__Agent__V1__RunEvent *));
        assert_non_null(reader->events);
        reader->events[reader->count++] = event;
        reader->result =
            event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT ? event->result : NULL;
    }
    assert_non_null(reader->result);
    assert_null(agt_watch_free(watch));
    assert_null(agt_run_unref(take_run));
    assert_int_equal(close(fd), 0);
}

void run_reader_read(struct run_reader *reader, struct agt_run *take_run)
{
    read_run(reader, take_run, NULL);
}

void run_reader_read_all(struct run_reader *reader, struct agt_run *take_run, sem_t *gate)
{
    read_run(reader, take_run, gate);
}

void run_reader_done(struct run_reader *reader)
{
    for (size_t i = 0; i < reader->count; i++)
        crisol__agent__v1__run_event__free_unpacked(reader->events[i], NULL);
    free(reader->events);
    *reader = (struct run_reader){NULL, 0, NULL};
}

size_t run_reader_count(const struct run_reader *reader,
                        Crisol__Agent__V1__RunEvent__EventCase event_case)
{
    size_t count = 0;

    for (size_t i = 0; i < reader->count; i++)
        count += reader->events[i]->event_case == event_case;
    return count;
}

const Crisol__Agent__V1__RunEvent *
run_reader_find(const struct run_reader *reader, Crisol__Agent__V1__RunEvent__EventCase event_case,
                size_t index)
{
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->events[i]->event_case == event_case && index-- == 0)
            return reader->events[i];
    }
    return NULL;
}

void run_reader_wait_for(struct agt_run *run, Crisol__Agent__V1__RunEvent__EventCase event_case)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    struct agt_watch *watch = NULL;
    bool is_found = false;

    assert_true(fd >= 0);
    assert_int_equal(agt_watch_new(run, 0, on_notify, &fd, &watch), 0);
    while (!is_found) {
        Crisol__Agent__V1__RunEvent *event = next_event(watch, fd);

        assert_non_null(event);
        is_found = event->event_case == event_case;
        crisol__agent__v1__run_event__free_unpacked(event, NULL);
    }
    assert_null(agt_watch_free(watch));
    assert_int_equal(close(fd), 0);
}
