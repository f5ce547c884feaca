/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/orchestrator/store/store_suite.h"

#include "tests/harness/test.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_S 60

struct wait {
    sem_t done;
    int error;
};

static void on_done(struct agt_store_batch *batch, int error)
{
    struct wait *wait = batch->user;

    wait->error = error;
    (void)sem_post(&wait->done);
}

static void send(struct agt_store *store, struct agt_store_batch *batch, struct wait *wait)
{
    (void)sem_init(&wait->done, 0, 0);
    batch->user = wait;
    batch->on_done = on_done;
    store->ops->append(store, batch);
}

static int wait_for(struct wait *wait)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    assert_int_equal(sem_timedwait(&wait->done, &until), 0);
    (void)sem_destroy(&wait->done);
    return wait->error;
}

int suite_append(struct agt_store *store, struct agt_store_batch *batch)
{
    struct wait wait = {.error = 1};

    send(store, batch, &wait);
    return wait_for(&wait);
}

static void name(struct agt_store_batch *batch, const char *id)
{
    (void)memccpy(batch->run_id, id, '\0', sizeof(batch->run_id));
}

int suite_append_event(struct agt_store *store, const char *id, uint32_t seq, const char *text)
{
    struct agt_store_event event = {.seq = seq, .payload = text, .size = strlen(text)};
    struct agt_store_batch batch = {
        .fence = AGT_STORE_FIRST_FENCE, .events = &event, .event_count = 1};

    name(&batch, id);
    return suite_append(store, &batch);
}

int suite_end_run(struct agt_store *store, const char *id, uint32_t seq)
{
    struct agt_store_event event = {.seq = seq, .payload = "end", .size = 3};
    struct agt_store_batch batch = {
        .fence = AGT_STORE_FIRST_FENCE, .events = &event, .event_count = 1, .is_end = true};

    name(&batch, id);
    return suite_append(store, &batch);
}

int suite_begin_run(struct agt_store *store, const char *id)
{
    struct agt_store_batch batch = {.spec = "spec", .spec_size = 4};

    name(&batch, id);
    return suite_append(store, &batch);
}

/* Everything that is there, as text. */
static char seen[65536];

static int see_event(void *user, const struct agt_store_event *event)
{
    size_t size = strlen(seen);

    (void)user;
    (void)snprintf(seen + size, sizeof(seen) - size, " %u=%.*s%s%.*s", event->seq, (int)event->size,
                   (const char *)event->payload, event->input ? "<" : "", (int)event->input_size,
                   event->input ? (const char *)event->input : "");
    return 0;
}

static int see_run(void *user, const struct agt_store_run *run)
{
    size_t size = strlen(seen);

    (void)user;
    (void)snprintf(seen + size, sizeof(seen) - size, "[%s %.*s %d]", run->run_id + 31,
                   (int)run->spec_size, (const char *)run->spec, run->has_ended);
    return 0;
}

const char *suite_see(struct agt_store *store, const char *id)
{
    seen[0] = '\0';
    if (id)
        assert_int_equal(store->ops->load_events(store, id, see_event, NULL, NULL), 0);
    else
        assert_int_equal(store->ops->load_runs(store, see_run, NULL, NULL), 0);
    return seen;
}

/* ---- the suite ---- */

void suite_acknowledged_is_there_after_a_restart(const struct suite *suite)
{
    const struct agt_store_event last[] = {
        {.seq = 2, .payload = "two", .size = 3, .input = "in", .input_size = 2},
        {.seq = 3, .payload = "", .size = 0, .input = "", .input_size = 0},
    };
    struct agt_store_batch batch = {.run_id = ID_A,
                                    .fence = AGT_STORE_FIRST_FENCE,
                                    .events = last,
                                    .event_count = 2,
                                    .is_end = true};
    struct agt_store *store = suite->open(suite->user);

    assert_int_equal(suite_begin_run(store, ID_B), 0);
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_int_equal(suite_append_event(store, ID_A, 1, "one"), 0);
    assert_int_equal(suite_append(store, &batch), 0);
    assert_int_equal(suite_end_run(store, ID_B, 1), 0);
    store->ops->free(store);

    store = suite->open(suite->user);
    assert_string_equal(suite_see(store, NULL), "[b spec 1][a spec 1]");
    assert_string_equal(suite_see(store, ID_A), " 1=one 2=two<in 3=<");
    store->ops->free(store);
}

void suite_only_what_follows_is_taken(const struct suite *suite)
{
    struct agt_store *store = suite->open(suite->user);

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_int_equal(suite_begin_run(store, ID_A), -ESTALE);
    assert_int_equal(suite_append_event(store, ID_A, 2, "gap"), -ESTALE);
    assert_int_equal(suite_append_event(store, ID_A, 1, "one"), 0);
    assert_int_equal(suite_append_event(store, ID_A, 1, "again"), -ESTALE);
    assert_int_equal(suite_append_event(store, ID_B, 1, "nobody's"), -ESTALE);
    assert_int_equal(suite_end_run(store, ID_A, 2), 0);
    assert_int_equal(suite_append_event(store, ID_A, 3, "behind its end"), -ESTALE);
    assert_string_equal(suite_see(store, ID_A), " 1=one 2=end");
    store->ops->free(store);
}

void suite_forgotten_is_gone(const struct suite *suite)
{
    struct agt_store_batch batch = {.run_id = ID_A, .is_forget = true};
    struct agt_store *store = suite->open(suite->user);

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_int_equal(suite_end_run(store, ID_A, 1), 0);
    assert_int_equal(suite_append(store, &batch), 0);
    assert_int_equal(suite_append(store, &batch), 0); /* once more does nothing */

    assert_string_equal(suite_see(store, NULL), "");
    assert_string_equal(suite_see(store, ID_A), "");

    /* One that goes on, by who holds it: its id is free again. */
    batch.fence = AGT_STORE_FIRST_FENCE;
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_int_equal(suite_append_event(store, ID_A, 1, "one"), 0);
    assert_int_equal(suite_append(store, &batch), 0);
    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_string_equal(suite_see(store, ID_A), "");
    store->ops->free(store);
}

#define MANY 200U

/* Appended at once, so that most share a transaction. */
void suite_a_stale_batch_takes_no_other_with_it(const struct suite *suite)
{
    static struct agt_store_batch batches[MANY];
    static struct agt_store_event events[MANY];
    static struct wait waits[MANY];
    struct agt_store *store = suite->open(suite->user);

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        events[i] = (struct agt_store_event){
            .seq = i % 2 == 0 ? i / 2 + 1 : 1000, .payload = "x", .size = 1};
        batches[i] = (struct agt_store_batch){
            .run_id = ID_A, .fence = AGT_STORE_FIRST_FENCE, .events = &events[i], .event_count = 1};
        send(store, &batches[i], &waits[i]);
    }
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(wait_for(&waits[i]), i % 2 == 0 ? 0 : -ESTALE);
    assert_non_null(strstr(suite_see(store, ID_A), " 100=x"));
    store->ops->free(store);
}

static int note_event(struct agt_store_batch *batch, const struct agt_store_event *event)
{
    (void)batch;
    return see_event(NULL, event);
}

static int stop_at_once(struct agt_store_batch *batch, const struct agt_store_event *event)
{
    (void)batch;
    (void)event;
    return -EDOM;
}

void suite_a_run_is_read_behind_what_was_appended(const struct suite *suite)
{
    struct agt_store_batch batch = {.run_id = ID_A, .on_event = note_event};
    struct agt_store *store = suite->open(suite->user);

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_int_equal(suite_append_event(store, ID_A, 1, "one"), 0);
    assert_int_equal(suite_append_event(store, ID_A, 2, "two"), 0);
    seen[0] = '\0';
    assert_int_equal(suite_append(store, &batch), 0);
    assert_string_equal(seen, " 1=one 2=two");
    batch.on_event = stop_at_once;
    assert_int_equal(suite_append(store, &batch), -EDOM);
    store->ops->free(store);
}

static int check_large(void *user, const struct agt_store_event *event)
{
    const char *large = user;

    assert_int_equal(event->size, 3 << 20);
    assert_memory_equal(event->payload, large, event->size);
    assert_int_equal(event->input_size, 3 << 20);
    assert_memory_equal(event->input, large, event->input_size);
    return 0;
}

static struct agt_store_batch batch_with_key(const char *id, const char *spec, const char *key)
{
    struct agt_store_batch batch = {.spec = spec, .spec_size = strlen(spec), .key = key};

    name(&batch, id);
    return batch;
}

void suite_a_key_starts_one_run(const struct suite *suite)
{
    struct agt_store *store = suite->open(suite->user);
    struct agt_store_batch first = batch_with_key(ID_A, "spec", "caller\nkey");
    struct agt_store_batch same = batch_with_key(ID_B, "spec", "caller\nkey");
    struct agt_store_batch changed = batch_with_key(ID_B, "other", "caller\nkey");
    struct agt_store_batch other = batch_with_key(ID_B, "spec", "caller\nkey 2");

    assert_int_equal(suite_append(store, &first), 0);
    assert_int_equal(suite_append(store, &same), -EEXIST);
    assert_string_equal(same.other_id, ID_A);
    assert_true(same.is_same_spec);
    assert_int_equal(suite_append(store, &changed), -EEXIST);
    assert_string_equal(changed.other_id, ID_A);
    assert_false(changed.is_same_spec);
    assert_int_equal(suite_append_event(store, ID_B, 1, "one"), -ESTALE);
    assert_int_equal(suite_append(store, &other), 0);
    assert_int_equal(suite_end_run(store, ID_A, 1), 0);
    store->ops->free(store);

    /* Without a key there is nothing to be the same, and a key is free when its run is gone. */
    store = suite->open(suite->user);
    same = batch_with_key("0000000000000000000000000000000c", "spec", "caller\nkey");
    assert_int_equal(suite_append(store, &same), -EEXIST);
    first = (struct agt_store_batch){.is_forget = true};
    name(&first, ID_A);
    assert_int_equal(suite_append(store, &first), 0);
    first = batch_with_key(ID_A, "spec", "caller\nkey");
    assert_int_equal(suite_append(store, &first), 0);
    first = batch_with_key("0000000000000000000000000000000c", "spec", NULL);
    other = batch_with_key("0000000000000000000000000000000d", "spec", NULL);
    assert_int_equal(suite_append(store, &first), 0);
    assert_int_equal(suite_append(store, &other), 0);
    store->ops->free(store);
}

struct told {
    char text[256];
    int answer;
};

static int on_request(void *user, const struct agt_store_request *request)
{
    struct told *told = user;
    size_t size = strlen(told->text);

    (void)snprintf(told->text + size, sizeof(told->text) - size, " %c%u.%u=%.*s",
                   request->run_id[31], request->kind, request->seq, (int)request->size,
                   (const char *)request->payload);
    return told->answer;
}

/* What is told now, each time with this answer. Static storage. */
static const char *tell(struct agt_store *store, int answer)
{
    static struct told told;

    told = (struct told){.answer = answer};
    assert_int_equal(store->ops->load_requests(store, on_request, &told, NULL), 0);
    return told.text;
}

static int leave(struct agt_store *store, const char *id, uint32_t kind, uint32_t seq,
                 const char *text)
{
    const struct agt_store_request request = {
        .run_id = id, .kind = kind, .seq = seq, .payload = text, .size = strlen(text)};
    struct agt_store_batch batch = {.request = &request};

    name(&batch, id);
    return suite_append(store, &batch);
}

void suite_a_request_is_told_until_it_is_settled(const struct suite *suite)
{
    struct agt_store *store = suite->open(suite->user);

    assert_int_equal(suite_begin_run(store, ID_A), 0);
    assert_int_equal(suite_begin_run(store, ID_B), 0);
    assert_string_equal(tell(store, 1), "");
    assert_int_equal(leave(store, ID_A, 1, 0, ""), 0);
    assert_int_equal(leave(store, ID_A, 2, 7, "first"), 0);
    assert_int_equal(leave(store, ID_A, 2, 7, "second"), 0);
    assert_int_equal(leave(store, ID_B, 1, 0, ""), 0);
    assert_int_equal(leave(store, "0000000000000000000000000000000c", 1, 0, ""), 0);

    assert_string_equal(tell(store, 0), " a1.0= a2.7=first b1.0=");
    assert_string_equal(tell(store, 0), " a1.0= a2.7=first b1.0=");
    assert_int_equal(suite_end_run(store, ID_B, 1), 0);
    assert_int_equal(leave(store, ID_B, 2, 1, "too late"), 0);
    assert_string_equal(tell(store, 1), " a1.0= a2.7=first");
    assert_string_equal(tell(store, 1), "");
    store->ops->free(store);
}

void suite_large_events_come_back_whole(const struct suite *suite)
{
    char *large = malloc(3 << 20);
    struct agt_store_event event = {
        .seq = 1, .payload = large, .size = 3 << 20, .input = large, .input_size = 3 << 20};
    struct agt_store_batch batch = {
        .run_id = ID_A, .spec = "spec", .spec_size = 4, .events = &event, .event_count = 1};
    struct agt_store *store = suite->open(suite->user);

    assert_non_null(large);
    for (size_t i = 0; i < 3 << 20; i++)
        large[i] = (char)(i * 7 + i / 251);
    assert_int_equal(suite_append(store, &batch), 0);
    assert_int_equal(store->ops->load_events(store, ID_A, check_large, large, NULL), 0);
    store->ops->free(store);
    free(large);
}
