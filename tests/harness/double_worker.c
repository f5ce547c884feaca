/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/double_worker.h"

#include <stdlib.h>

static struct double_call *take_ready(struct double_worker *worker)
{
    struct double_call **link = &worker->calls;

    while (*link && (*link)->has_begun && (*link)->is_held && !(*link)->is_cancelled)
        link = &(*link)->next;
    if (*link) {
        struct double_call *call = *link;

        *link = call->next;
        return call;
    }
    return NULL;
}

static void append(struct double_worker *worker, struct double_call *call)
{
    struct double_call **link = &worker->calls;

    while (*link)
        link = &(*link)->next;
    call->next = NULL;
    *link = call;
}

/* Called and returns with the lock held. */
static void work_on(struct double_worker *worker, struct double_call *call)
{
    bool is_cancelled = call->is_cancelled;

    if (!call->has_begun) {
        (void)pthread_mutex_unlock(&worker->lock);
        call->is_held = worker->begin(call);
        call->has_begun = true;
        (void)pthread_mutex_lock(&worker->lock);
    }
    if (call->is_held && !is_cancelled) {
        append(worker, call);
        return;
    }
    worker->live--; /* before its end, so that whoever was told of all ends counts none */
    (void)pthread_mutex_unlock(&worker->lock);
    worker->finish(call, is_cancelled);
    double_call_unref(call);
    (void)pthread_mutex_lock(&worker->lock);
}

static void *worker_main(void *user)
{
    struct double_worker *worker = user;

    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->is_stopping || worker->calls) {
        struct double_call *call = take_ready(worker);

        if (call)
            work_on(worker, call);
        else
            (void)pthread_cond_wait(&worker->changed, &worker->lock);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

void double_worker_start(struct double_worker *worker)
{
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->changed, NULL);
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
        abort(); /* a test cannot go on without it */
}

void double_worker_stop(struct double_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->is_stopping = true;
    for (struct double_call *call = worker->calls; call; call = call->next)
        call->is_cancelled = true;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
    (void)pthread_join(worker->thread, NULL);
    (void)pthread_cond_destroy(&worker->changed);
    (void)pthread_mutex_destroy(&worker->lock);
}

void double_worker_add(struct double_worker *worker, struct double_call *call)
{
    call->worker = worker;
    call->refs = 2;
    (void)pthread_mutex_lock(&worker->lock);
    append(worker, call);
    worker->live++;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
}

void double_call_cancel(struct double_call *call)
{
    struct double_worker *worker = call->worker;

    (void)pthread_mutex_lock(&worker->lock);
    call->is_cancelled = true;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
}

void double_call_unref(struct double_call *call)
{
    if (__atomic_fetch_sub(&call->refs, 1, __ATOMIC_ACQ_REL) == 1)
        call->worker->release(call);
}

uint32_t double_worker_live(struct double_worker *worker)
{
    uint32_t live;

    (void)pthread_mutex_lock(&worker->lock);
    live = worker->live;
    (void)pthread_mutex_unlock(&worker->lock);
    return live;
}
