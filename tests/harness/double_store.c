/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/double_store.h"

#include "common/unconst.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 256U
#define EVENTS_MAX 256U

struct blob {
    void *data; /* owned; NULL: none */
    size_t size;
};

struct stored {
    char id[AGT_STORE_ID_SIZE];
    struct blob spec;
    struct blob payloads[EVENTS_MAX];
    struct blob inputs[EVENTS_MAX];
    size_t count;
    bool has_ended;
    bool is_forgotten;
};

struct double_store {
    struct agt_store base; /* first */
    pthread_mutex_t lock;  /* guards all below */
    struct stored runs[RUNS_MAX];
    size_t run_count;
    struct agt_store_batch *waiting[EVENTS_MAX];
    size_t waiting_count;
    size_t batches;
    bool is_held;
    bool is_accepting;
    int error;
    int end_error;
};

static struct double_store *of(struct agt_store *store)
{
    return (struct double_store *)(void *)store;
}

static void set(struct blob *blob, const void *data, size_t size)
{
    free(blob->data);
    *blob = (struct blob){NULL, 0};
    if (!data)
        return;
    blob->data = malloc(size + 1);
    if (!blob->data) /* a test let it fail that means the engine's own */
        blob->data = malloc(size + 1);
    assert_non_null(blob->data);
    memcpy(blob->data, data, size);
    blob->size = size;
}

static struct stored *find(struct double_store *store, const char *id)
{
    for (size_t i = 0; i < store->run_count; i++) {
        if (strcmp(store->runs[i].id, id) == 0)
            return &store->runs[i];
    }
    return NULL;
}

static struct stored *add_run(struct double_store *store, const struct agt_store_batch *batch)
{
    struct stored *run = &store->runs[store->run_count++];

    assert_true(store->run_count <= RUNS_MAX);
    memcpy(run->id, batch->run_id, sizeof(run->id));
    set(&run->spec, batch->spec, batch->spec_size);
    return run;
}

static int write_batch(struct double_store *store, const struct agt_store_batch *batch)
{
    struct stored *run = find(store, batch->run_id);

    if (store->error)
        return store->error;
    if (batch->is_forget) {
        if (run)
            run->is_forgotten = true;
        return 0;
    }
    if (batch->is_end && store->end_error)
        return store->end_error;
    if (!run == !batch->spec)
        return -ESTALE;
    if (!run)
        run = add_run(store, batch);
    for (size_t i = 0; i < batch->event_count; i++) {
        const struct agt_store_event *event = &batch->events[i];

        if (run->has_ended || event->seq != run->count + 1)
            return -ESTALE;
        assert_true(run->count < EVENTS_MAX);
        set(&run->payloads[run->count], event->payload, event->size);
        set(&run->inputs[run->count], event->input, event->input_size);
        run->count++;
    }
    run->has_ended |= batch->is_end;
    return 0;
}

static int load_events(struct agt_store *base, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err);

static int tell_batch(void *user, const struct agt_store_event *event)
{
    struct agt_store_batch *batch = user;

    return batch->on_event(batch, event);
}

static void append(struct agt_store *base, struct agt_store_batch *take_batch)
{
    struct double_store *store = of(base);
    bool is_held;
    int r = 0;

    if (take_batch->on_event) {
        take_batch->on_done(take_batch,
                            load_events(base, take_batch->run_id, tell_batch, take_batch, NULL));
        return;
    }
    (void)pthread_mutex_lock(&store->lock);
    store->batches++;
    is_held = store->is_held;
    if (is_held) {
        assert_true(store->waiting_count < EVENTS_MAX);
        store->waiting[store->waiting_count++] = take_batch;
    } else {
        r = write_batch(store, take_batch);
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (!is_held)
        take_batch->on_done(take_batch, r);
}

static bool is_accepting(struct agt_store *base)
{
    return of(base)->is_accepting;
}

static int load_runs(struct agt_store *base,
                     int (*on_run)(void *user, const struct agt_store_run *run), void *user,
                     struct cr_err *err)
{
    struct double_store *store = of(base);
    int r = 0;

    (void)err;
    for (size_t i = 0; r == 0 && i < store->run_count; i++) {
        const struct stored *run = &store->runs[i];
        const struct agt_store_run row = {
            .run_id = run->id,
            .spec = run->spec.data,
            .spec_size = run->spec.size,
            .has_ended = run->has_ended,
        };

        r = on_run(user, &row);
    }
    return r;
}

static int load_events(struct agt_store *base, const char *run_id,
                       int (*on_event)(void *user, const struct agt_store_event *event), void *user,
                       struct cr_err *err)
{
    const struct stored *run = find(of(base), run_id);
    int r = 0;

    (void)err;
    for (size_t i = 0; run && r == 0 && i < run->count; i++) {
        const struct agt_store_event event = {
            .seq = (uint32_t)i + 1,
            .payload = run->payloads[i].data,
            .size = run->payloads[i].size,
            .input = run->inputs[i].data,
            .input_size = run->inputs[i].size,
        };

        r = on_event(user, &event);
    }
    return r;
}

/* What is asked of runs is taken in as any batch is, and told to nobody. */
static int load_requests(struct agt_store *base,
                         int (*on_request)(void *user, const struct agt_store_request *request),
                         void *user, struct cr_err *err)
{
    (void)base;
    (void)on_request;
    (void)user;
    (void)err;
    return 0;
}

static void hurry(struct agt_store *base)
{
    (void)base;
}

static void free_store(struct agt_store *base)
{
    struct double_store *store = of(base);

    for (size_t i = 0; i < store->run_count; i++) {
        for (size_t j = 0; j < EVENTS_MAX; j++) {
            free(store->runs[i].payloads[j].data);
            free(store->runs[i].inputs[j].data);
        }
        free(store->runs[i].spec.data);
    }
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

static const struct agt_store_ops ops = {
    .append = append,
    .is_accepting = is_accepting,
    .load_runs = load_runs,
    .load_events = load_events,
    .load_requests = load_requests,
    .hurry = hurry,
    .free = free_store,
};

struct agt_store *double_store_new(void)
{
    struct double_store *store = calloc(1, sizeof(*store));

    assert_non_null(store);
    store->base.ops = &ops;
    store->is_accepting = true;
    (void)pthread_mutex_init(&store->lock, NULL);
    return &store->base;
}

/* ---- what a test does to it ---- */

void double_store_hold(struct agt_store *base, bool value)
{
    struct double_store *store = of(base);
    struct agt_store_batch *batches[EVENTS_MAX];
    int errors[EVENTS_MAX];
    size_t count = 0;

    (void)pthread_mutex_lock(&store->lock);
    store->is_held = value;
    for (; !value && count < store->waiting_count; count++) {
        batches[count] = store->waiting[count];
        errors[count] = write_batch(store, batches[count]);
    }
    store->waiting_count -= count;
    (void)pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < count; i++)
        batches[i]->on_done(batches[i], errors[i]);
}

void double_store_fail(struct agt_store *base, int error)
{
    struct double_store *store = of(base);

    (void)pthread_mutex_lock(&store->lock);
    store->error = error;
    (void)pthread_mutex_unlock(&store->lock);
}

void double_store_fail_ends(struct agt_store *base, int error)
{
    struct double_store *store = of(base);

    (void)pthread_mutex_lock(&store->lock);
    store->end_error = error;
    (void)pthread_mutex_unlock(&store->lock);
}

void double_store_set_accepting(struct agt_store *store, bool value)
{
    of(store)->is_accepting = value;
}

static size_t read_locked(struct double_store *store, const size_t *value)
{
    size_t read;

    (void)pthread_mutex_lock(&store->lock);
    read = *value;
    (void)pthread_mutex_unlock(&store->lock);
    return read;
}

size_t double_store_count(struct agt_store *store)
{
    return read_locked(of(store), &of(store)->runs[0].count);
}

size_t double_store_kept(struct agt_store *base)
{
    struct double_store *store = of(base);
    size_t count = 0;

    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->run_count; i++)
        count += !store->runs[i].is_forgotten;
    (void)pthread_mutex_unlock(&store->lock);
    return count;
}

size_t double_store_batches(struct agt_store *store)
{
    return read_locked(of(store), &of(store)->batches);
}

size_t double_store_waiting(struct agt_store *store)
{
    return read_locked(of(store), &of(store)->waiting_count);
}

void double_store_cut(struct agt_store *base, size_t count)
{
    struct stored *run = &of(base)->runs[0];

    assert_true(count <= run->count);
    run->count = count;
    run->has_ended = false;
}

static struct blob *part_of(struct agt_store *base, enum double_part part, size_t index)
{
    struct stored *run = &of(base)->runs[0];

    if (part == DOUBLE_PART_SPEC)
        return &run->spec;
    assert_true(index < run->count);
    return part == DOUBLE_PART_PAYLOAD ? &run->payloads[index] : &run->inputs[index];
}

const void *double_store_part(struct agt_store *store, enum double_part part, size_t index,
                              size_t *ret_size)
{
    const struct blob *blob = part_of(store, part, index);

    *ret_size = blob->size;
    return blob->data;
}

void double_store_spoil(struct agt_store *store, enum double_part part, size_t index,
                        const void *data, size_t size)
{
    set(part_of(store, part, index), data, size);
}
