/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Internal to the doubles: the thread and the calls that both have. */

struct double_call;

struct double_worker {
    pthread_mutex_t lock; /* guards all below, and the flags of the calls */
    pthread_cond_t changed;
    struct double_call *calls;
    uint32_t live;
    bool is_stopping;
    pthread_t thread;
    /* Runs on the thread. Returns true to hold the call until it is cancelled. */
    bool (*begin)(struct double_call *call);
    void (*finish)(struct double_call *call, bool is_cancelled);
    void (*release)(struct double_call *call);
};

struct double_call {
    struct double_call *next;
    struct double_worker *worker;
    uint32_t refs;
    bool has_begun;
    bool is_held;
    bool is_cancelled;
};

void double_worker_start(struct double_worker *worker);
void double_worker_stop(struct double_worker *worker);
/* The call has two references then: the worker's and the caller's. */
void double_worker_add(struct double_worker *worker, struct double_call *call);
void double_call_cancel(struct double_call *call);
void double_call_unref(struct double_call *call);
uint32_t double_worker_live(struct double_worker *worker);
