/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does the orchestrator bear? In the shape "in-flight" it starts all runs
 * (SubmitRun), each with a task of its own, and then follows every one of them
 * from its first event to its end: no state event may be missing, and each
 * must end in SUCCESS. In the shapes "back-to-back" and "rested" it asks for one
 * run after the other (Generate) and takes the time; "rested" leaves the services
 * half a second after each. Prints one JSON object.
 */
#include "common/clock.h"
#include "common/err.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "rpc/client.h"
#include "rpc/status.h"
#include "tests/bench/options.h"
#include "tests/bench/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_MS 900000
#define TASK_MAX 1024
#define REST_MS 500
#define SERVICE "/crisol.agent.v1.AgentService/"

static const struct rpc_client_method method_submit = {
    SERVICE "SubmitRun",
    &crisol__agent__v1__submit_run_request__descriptor,
    &crisol__agent__v1__submit_run_response__descriptor,
};

static const struct rpc_client_method method_watch = {
    SERVICE "WatchRun",
    &crisol__agent__v1__watch_run_request__descriptor,
    &crisol__agent__v1__watch_run_response__descriptor,
};

static const struct rpc_client_method method_generate = {
    SERVICE "Generate",
    &crisol__agent__v1__generate_request__descriptor,
    &crisol__agent__v1__generate_response__descriptor,
};

struct run {
    char id[40];
    uint32_t seq; /* of the last state event */
    uint64_t began_ms;
    uint64_t ended_ms;
    bool has_succeeded;
    uint32_t attempts;
};

/* All of it but the constants belongs to the thread of the loop while calls go on. */
struct measuring {
    const struct bench_options *options;
    struct rpc_channel *channel;
    struct rpc_loop *loop;
    const struct rpc_client_method *method; /* of this turn: submit or watch */
    struct run *runs;
    size_t started; /* runs whose call of this turn was started */
    size_t ended;
    uint64_t state_events;
    uint64_t lost_events;
    uint64_t wrong;
    sem_t done;
};

/* A call that goes on, of one of the callers. */
struct caller {
    struct measuring *all;
    size_t at; /* run */
};

static void complain(struct measuring *all, const struct run *run, const char *text)
{
    if (all->wrong++ < 5)
        (void)fprintf(stderr, "bench: run '%s' %s\n", run->id, text);
}

static void fill_request(const struct bench_options *options, size_t number, char task[TASK_MAX],
                         Crisol__Agent__V1__GenerateRequest *ret_request)
{
    crisol__agent__v1__generate_request__init(ret_request);
    /* A number of its own: the model's answers then take times of their own. */
    (void)snprintf(task, TASK_MAX, "%s (request %zu)", options->task, number);
    ret_request->task = task;
}

static bool is_state(const Crisol__Agent__V1__RunEvent *event)
{
    switch (event->event_case) {
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_OUTPUT_DELTA:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_GAP:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_HEARTBEAT:
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT__NOT_SET:
        return false;
    default:
        return true;
    }
}

static void take_event(struct measuring *all, struct run *run,
                       const Crisol__Agent__V1__RunEvent *event)
{
    if (!is_state(event))
        return;
    all->state_events++;
    if (event->seq != run->seq + 1) {
        all->lost_events += event->seq > run->seq ? event->seq - run->seq - 1 : 1;
        complain(all, run, "has a gap in its events");
    }
    run->seq = event->seq;
    if (run->began_ms == 0)
        run->began_ms = event->time_ms;
    if (run->ended_ms != 0)
        complain(all, run, "goes on behind its end");
    if (event->event_case != CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT)
        return;
    run->ended_ms = event->time_ms;
    run->has_succeeded = event->result->status == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS;
    run->attempts = (uint32_t)event->result->iterations;
    if (!run->has_succeeded)
        complain(all, run, event->result->final_response);
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    const struct caller *caller = user;
    struct run *run = &caller->all->runs[caller->at];

    if (caller->all->method == &method_submit)
        (void)snprintf(
            run->id, sizeof(run->id), "%s",
            ((const Crisol__Agent__V1__SubmitRunResponse *)(const void *)message)->run_id);
    else
        take_event(caller->all, run,
                   ((const Crisol__Agent__V1__WatchRunResponse *)(const void *)message)->event);
    return true;
}

static void start_next(struct caller *caller);

static void on_end(void *user, const struct rpc_status *status)
{
    struct caller *caller = user;
    struct measuring *all = caller->all;
    const struct run *run = &all->runs[caller->at];

    if (status->code != RPC_OK)
        complain(all, run, status->message);
    else if (all->method == &method_watch && run->ended_ms == 0)
        complain(all, run, "has no end");
    all->ended++;
    start_next(caller);
}

static int start_call(struct caller *caller)
{
    Crisol__Agent__V1__SubmitRunRequest submit = CRISOL__AGENT__V1__SUBMIT_RUN_REQUEST__INIT;
    Crisol__Agent__V1__WatchRunRequest watch = CRISOL__AGENT__V1__WATCH_RUN_REQUEST__INIT;
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .user = caller};
    struct measuring *all = caller->all;
    Crisol__Agent__V1__GenerateRequest request;
    struct rpc_client_call *call = NULL;
    char task[TASK_MAX];
    int r;

    fill_request(all->options, caller->at, task, &request);
    submit.request = &request;
    watch.run_id = all->runs[caller->at].id;
    r = rpc_client_start(all->loop, all->channel, all->method,
                         all->method == &method_submit ? &submit.base : &watch.base, CALL_MS,
                         &handlers, &call, NULL);
    if (r == 0)
        (void)rpc_client_unref(call);
    return r;
}

static void start_next(struct caller *caller)
{
    struct measuring *all = caller->all;

    while (all->started < all->options->samples) {
        caller->at = all->started++;
        if (start_call(caller) == 0)
            return;
        complain(all, &all->runs[caller->at], "could not be asked for");
        all->ended++;
    }
    if (all->ended == all->options->samples)
        (void)sem_post(&all->done);
}

/* One call for each run, so many at one time; returns when all have ended. */
static int do_all(struct measuring *all, const struct rpc_client_method *method)
{
    size_t callers = all->options->callers < all->options->samples ? all->options->callers
                                                                   : all->options->samples;
    struct caller *list = calloc(callers, sizeof(*list));
    struct cr_err err = CR_ERR_INIT;
    int r = list ? rpc_loop_new(&all->loop, &err) : -ENOMEM;

    if (r < 0) {
        free(list);
        return r;
    }
    all->method = method;
    all->ended = 0;
    /* The first calls are started here: their ends, on the loop's thread, take what is left. */
    all->started = callers;
    for (size_t i = 0; i < callers; i++) {
        list[i] = (struct caller){.all = all, .at = i};
        if (start_call(&list[i]) < 0)
            r = -EIO;
    }
    while (r == 0 && sem_wait(&all->done) < 0)
        ;
    all->loop = rpc_loop_free(all->loop);
    free(list);
    return r;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* The most that went on at one time, by the times of their first and last events. */
static size_t peak(const struct measuring *all)
{
    size_t count = 2 * all->options->samples;
    int64_t *changes = calloc(count, sizeof(*changes));
    size_t most = 0;
    size_t live = 0;

    if (!changes)
        return 0;
    /* Odd for a beginning: of the same millisecond, an end comes first. */
    for (size_t i = 0; i < all->options->samples; i++) {
        changes[2 * i] = 2 * (int64_t)all->runs[i].began_ms + 1;
        changes[2 * i + 1] = 2 * (int64_t)all->runs[i].ended_ms;
    }
    qsort(changes, count, sizeof(*changes), compare);
    for (size_t i = 0; i < count; i++) {
        if (changes[i] % 2 == 0)
            live -= live > 0;
        else
            live++;
        most = live > most ? live : most;
    }
    free(changes);
    return most;
}

static void print_in_flight(const struct measuring *all, int64_t submit_ns, int64_t total_ns)
{
    struct bench_samples samples;
    size_t succeeded = 0;
    uint64_t attempts = 0;

    if (bench_samples_init(&samples, all->options->samples) < 0)
        return;
    for (size_t i = 0; i < all->options->samples; i++) {
        const struct run *run = &all->runs[i];

        succeeded += run->has_succeeded;
        attempts += run->attempts;
        bench_samples_add(&samples, (int64_t)(run->ended_ms - run->began_ms) * CR_NS_PER_MS);
    }
    (void)printf("{\"bench\":\"agent\",\"shape\":\"in-flight\",\"runs\":%" PRIu64
                 ",\"succeeded\":%zu,\"attempts\":%" PRIu64 ",\"peak_in_flight\":%zu"
                 ",\"state_events\":%" PRIu64 ",\"lost_events\":%" PRIu64
                 ",\"submit_s\":%.2f,\"total_s\":%.2f,\"series\":{",
                 all->options->samples, succeeded, attempts, peak(all), all->state_events,
                 all->lost_events, (double)submit_ns / (double)CR_NS_PER_S,
                 (double)total_ns / (double)CR_NS_PER_S);
    bench_samples_print("run", &samples);
    (void)printf("}}\n");
    bench_samples_done(&samples);
}

static int measure_in_flight(struct measuring *all)
{
    int64_t begin_ns = cr_clock_mono_ns();
    int64_t submit_ns;
    int r = do_all(all, &method_submit);

    submit_ns = cr_clock_mono_ns() - begin_ns;
    if (r == 0 && all->wrong == 0)
        r = do_all(all, &method_watch);
    if (r == 0)
        print_in_flight(all, submit_ns, cr_clock_mono_ns() - begin_ns);
    return r < 0 ? r : all->wrong > 0 ? -EPROTO : 0;
}

static int generate_once(const struct measuring *all, size_t number, uint32_t *ret_attempts)
{
    struct rpc_status status = RPC_STATUS_INIT;
    Crisol__Agent__V1__GenerateRequest request;
    const Crisol__Agent__V1__RunResult *result = NULL;
    ProtobufCMessage *base = NULL;
    char task[TASK_MAX];
    int r = -EPROTO;

    fill_request(all->options, number, task, &request);
    if (rpc_call_blocking(all->channel, &method_generate, &request.base, CALL_MS, &base, &status) ==
        RPC_OK)
        result = ((const Crisol__Agent__V1__GenerateResponse *)(void *)base)->result;
    if (result && result->status == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS &&
        result->verification &&
        result->verification->level ==
            CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_STUBS) {
        *ret_attempts = (uint32_t)result->iterations;
        r = 0;
    } else {
        (void)fprintf(stderr, "bench: a run ended with %s: %s %s\n", rpc_code_name(status.code),
                      status.message, result ? result->final_response : "");
    }
    rpc_message_free(base);
    return r;
}

static int measure_one_by_one(struct measuring *all)
{
    const struct bench_options *options = all->options;
    struct bench_samples samples;
    uint32_t attempts = 0;
    int r = bench_samples_init(&samples, options->samples);

    for (size_t i = 0; r == 0 && i < options->warm_up + options->samples; i++) {
        int64_t begin_ns;

        if (bench_is_rested(options))
            (void)poll(NULL, 0, REST_MS);
        begin_ns = cr_clock_mono_ns();
        r = generate_once(all, i, &attempts);
        if (i >= options->warm_up)
            bench_samples_add(&samples, cr_clock_mono_ns() - begin_ns);
    }
    if (r == 0) {
        (void)printf("{\"bench\":\"agent\",\"shape\":\"%s\",\"attempts\":%" PRIu32 ",\"series\":{",
                     options->shape, attempts);
        bench_samples_print("run", &samples);
        (void)printf("}}\n");
    }
    bench_samples_done(&samples);
    return r;
}

static int measure(const struct bench_options *options, struct rpc_channel *channel)
{
    struct measuring all = {.options = options, .channel = channel};
    int r;

    if (!options->task) {
        (void)fprintf(stderr, "bench: --task: is missing\n");
        return -EINVAL;
    }
    if (strcmp(options->shape, "in-flight") != 0)
        return measure_one_by_one(&all);
    all.runs = calloc(options->samples, sizeof(*all.runs));
    if (!all.runs)
        return -ENOMEM;
    (void)sem_init(&all.done, 0, 0);
    r = measure_in_flight(&all);
    (void)sem_destroy(&all.done);
    free(all.runs);
    return r;
}

int main(int argc, char **argv)
{
    return bench_main(argc, argv, "Runs of the orchestrator: all at one time, or one by one.",
                      measure);
}
