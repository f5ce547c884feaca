/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/log.h"
#include "sandboxd/front/run_parts.h"

#include <errno.h>
#include <string.h>

#define STARTED_PATIENCE_NS (2 * CR_NS_PER_MS)
#define BIT(state) (UINT32_C(1) << (state))

static const struct {
    const char *name;
    uint32_t next; /* states reachable from this one */
} states[] = {
    [SBX_RUN_NEW] = {"new", BIT(SBX_RUN_QUEUED) | BIT(SBX_RUN_STARTING) | BIT(SBX_RUN_ENDED)},
    [SBX_RUN_QUEUED] = {"queued", BIT(SBX_RUN_STARTING) | BIT(SBX_RUN_ENDED)},
    [SBX_RUN_STARTING] = {"starting",
                          BIT(SBX_RUN_RUNNING) | BIT(SBX_RUN_DRAINING) | BIT(SBX_RUN_ENDED)},
    [SBX_RUN_RUNNING] = {"running", BIT(SBX_RUN_DRAINING) | BIT(SBX_RUN_ENDED)},
    [SBX_RUN_DRAINING] = {"draining", BIT(SBX_RUN_DRAINED) | BIT(SBX_RUN_ENDED)},
    [SBX_RUN_DRAINED] = {"drained", BIT(SBX_RUN_ENDED)},
    [SBX_RUN_ENDED] = {"ended", 0},
};

_Static_assert(CR_ARRAY_SIZE(states) == SBX_RUN_STATE_COUNT, "one row per state");

int sbx_run_state_check(enum sbx_run_state from, enum sbx_run_state to)
{
    return (states[from].next & BIT(to)) ? 0 : -EPROTO;
}

static int move_to(struct sbx_execution *execution, enum sbx_run_state state)
{
    if (sbx_run_state_check(execution->state, state) < 0) {
        cr_log_error("illegal move of a run execution=%s from=%s to=%s", execution->id,
                     states[execution->state].name, states[state].name);
        return -EPROTO;
    }
    execution->state = state;
    return 0;
}

void sbx_run_wake(struct sbx_execution *execution)
{
    execution->tell_ns = INT64_MAX;
    execution->waker.wake(execution->waker.user);
}

static void close_sources(struct sbx_execution *execution)
{
    for (size_t i = 0; i < SBX_SOURCE_COUNT; i++)
        cr_close_fd(&execution->sources[i].fd); /* leaves epoll by itself: nobody else holds it */
}

static void close_child_fds(struct sbx_execution *execution)
{
    for (size_t i = 0; i < SBX_RUN_FDS; i++)
        cr_close_fd(&execution->child_fds[i]);
}

static void end(struct sbx_execution *execution)
{
    (void)move_to(execution, SBX_RUN_ENDED);
    close_child_fds(execution);
    close_sources(execution);
    (void)pthread_mutex_lock(&execution->lock);
    sbx_output_end(&execution->outputs[0]);
    sbx_output_end(&execution->outputs[1]);
    execution->outcome.queue_us = execution->queue_us;
    execution->is_ended = true;
    (void)pthread_mutex_unlock(&execution->lock);
    /* Before anybody is told: who has the result may send the next call. */
    execution->sandbox = sbx_sandbox_leave(execution->sandbox);
    sbx_run_wake(execution);
    if (execution->waker.release)
        execution->waker.release(execution->waker.user);
    execution->host->ended(execution->host->user, execution);
}

/* Both change on the call's thread as well: with the lock. Moves what is to be sent among what is
 * owed; `sent`: that was sent as it stands. */
static void settle_controls(struct sbx_execution *execution, uint32_t sent,
                            const union sbx_msg *msg)
{
    (void)pthread_mutex_lock(&execution->lock);
    if (sent == SBX_OWED_SIGNAL)
        execution->signals &= ~(UINT64_C(1) << (msg->signal.number - 1));
    if (sent == SBX_OWED_RESIZE && execution->columns == msg->resize.columns &&
        execution->rows == msg->resize.rows)
        execution->columns = execution->rows = 0;
    execution->owed &= ~(SBX_OWED_SIGNAL | SBX_OWED_RESIZE);
    if (execution->state == SBX_RUN_RUNNING)
        execution->owed |=
            (execution->signals ? SBX_OWED_SIGNAL : 0) | (execution->columns ? SBX_OWED_RESIZE : 0);
    (void)pthread_mutex_unlock(&execution->lock);
}

static void fill_message(const struct sbx_execution *execution, uint32_t owed, union sbx_msg *msg)
{
    switch (owed) {
    case SBX_OWED_RUN:
        sbx_msg_init(msg, SBX_MSG_RUN, execution->run);
        msg->run.runtime = execution->request.runtime;
        msg->run.flags = execution->request.flags;
        msg->run.caller = sbx_digest_caller(execution->caller);
        msg->run.session = execution->request.session;
        msg->run.columns = execution->request.columns;
        msg->run.rows = execution->request.rows;
        msg->run.limits = execution->request.limits;
        break;
    case SBX_OWED_CANCEL:
        sbx_msg_init(msg, SBX_MSG_CANCEL, execution->run);
        break;
    case SBX_OWED_OUTPUT_LIMIT:
        sbx_msg_init(msg, SBX_MSG_OUTPUT_LIMIT, execution->run);
        msg->output_limit.stream = execution->overflow_stream;
        msg->output_limit.observed = execution->overflow_observed;
        break;
    case SBX_OWED_SIGNAL:
        sbx_msg_init(msg, SBX_MSG_SIGNAL, execution->run);
        msg->signal.number = (uint32_t)ffsll((long long)execution->signals);
        break;
    case SBX_OWED_RESIZE:
        sbx_msg_init(msg, SBX_MSG_RESIZE, execution->run);
        msg->resize.columns = execution->columns;
        msg->resize.rows = execution->rows;
        break;
    default:
        sbx_msg_init(msg, SBX_MSG_DRAINED, execution->run);
        msg->drained.overflow_stream = execution->overflow_stream;
        msg->drained.observed = execution->overflow_observed;
        msg->drained.collect_failed = sbx_collector_has_failed(&execution->collector);
        break;
    }
}

/* The result that came first is the result, now that the backend knows what the pipes held. */
static void end_early(struct sbx_execution *execution)
{
    if (execution->has_early && execution->state == SBX_RUN_DRAINED &&
        !(execution->owed & SBX_OWED_DRAINED) && !execution->overflow_stream &&
        !sbx_collector_has_failed(&execution->collector))
        end(execution);
}

void sbx_run_flush(struct sbx_execution *execution)
{
    static const uint32_t order[] = {SBX_OWED_RUN,    SBX_OWED_RESIZE,       SBX_OWED_SIGNAL,
                                     SBX_OWED_CANCEL, SBX_OWED_OUTPUT_LIMIT, SBX_OWED_DRAINED};

    for (size_t i = 0; i < CR_ARRAY_SIZE(order);) {
        bool is_run = order[i] == SBX_OWED_RUN;
        union sbx_msg msg;
        int r;

        if (!(execution->owed & order[i])) {
            i++;
            continue;
        }
        (void)pthread_mutex_lock(&execution->lock);
        fill_message(execution, order[i], &msg);
        (void)pthread_mutex_unlock(&execution->lock);
        r = execution->host->send(execution->host->user, &msg, is_run ? execution->child_fds : NULL,
                                  is_run ? SBX_RUN_FDS : 0);
        if (r == -EAGAIN)
            return;
        /* Any other failure is the end of the wire, which epoll reports. */
        execution->owed &= ~order[i];
        if (is_run)
            close_child_fds(execution);
        if (order[i] & (SBX_OWED_SIGNAL | SBX_OWED_RESIZE))
            settle_controls(execution, order[i], &msg);
    }
    end_early(execution);
}

static void owe(struct sbx_execution *execution, uint32_t message)
{
    execution->owed |= message;
    sbx_run_flush(execution);
}

bool sbx_run_is_final(const struct sbx_execution *execution)
{
    return execution->state >= SBX_RUN_DRAINING;
}

void sbx_run_note_overflow(struct sbx_execution *execution, uint32_t stream, uint64_t observed)
{
    if (execution->overflow_stream)
        return;
    execution->overflow_stream = stream;
    execution->overflow_observed = observed;
    if (execution->state == SBX_RUN_RUNNING)
        owe(execution, SBX_OWED_OUTPUT_LIMIT);
}

void sbx_run_abort(struct sbx_execution *execution, enum sbx_verdict verdict, enum sbx_stage stage,
                   int error)
{
    struct sbx_msg_result *result = &execution->outcome.result;

    if (verdict == SBX_VERDICT_SANDBOX_LOST) {
        sbx_run_read_rest(execution, SBX_SOURCE_STDOUT);
        sbx_run_read_rest(execution, SBX_SOURCE_STDERR);
    }
    result->verdict = verdict;
    result->stage = stage;
    result->stage_errno = error;
    end(execution);
}

void sbx_run_refuse(struct sbx_execution *execution, enum rpc_code code, const char *text,
                    const char *reason, int32_t retry_after_ms)
{
    execution->outcome.refusal = code;
    execution->outcome.refusal_text = text;
    execution->outcome.refusal_reason = reason;
    execution->outcome.retry_after_ms = retry_after_ms;
    end(execution);
}

void sbx_run_start(struct sbx_execution *execution, uint64_t run)
{
    int64_t waited_ns = cr_clock_mono_ns() - execution->submitted_ns;
    int r;

    execution->run = run;
    (void)pthread_mutex_lock(&execution->lock);
    execution->queue_us = (uint64_t)(waited_ns / CR_NS_PER_US);
    (void)pthread_mutex_unlock(&execution->lock);
    (void)move_to(execution, SBX_RUN_STARTING);
    r = sbx_run_open_pipes(execution);
    if (r < 0) {
        cr_log_error("open the pipes of a run execution=%s error=%s", execution->id,
                     strerrordesc_np(-r));
        sbx_run_abort(execution, SBX_VERDICT_SANDBOX_ERROR, SBX_STAGE_NONE, -r);
        return;
    }
    if (execution->stdin_size == 0 && !execution->request.is_interactive)
        cr_close_fd(&execution->sources[SBX_SOURCE_STDIN].fd);
    owe(execution, SBX_OWED_RUN);
}

static void check_drained(struct sbx_execution *execution)
{
    if (execution->state != SBX_RUN_DRAINING || execution->sources[SBX_SOURCE_STDOUT].fd >= 0 ||
        execution->sources[SBX_SOURCE_STDERR].fd >= 0 ||
        execution->sources[SBX_SOURCE_COLLECT].fd >= 0)
        return;
    (void)move_to(execution, SBX_RUN_DRAINED);
    owe(execution, SBX_OWED_DRAINED);
}

void sbx_run_ready(struct sbx_execution *execution, enum sbx_source_kind kind)
{
    if (execution->state == SBX_RUN_ENDED)
        return; /* a late event of the same epoll round */
    if (kind == SBX_SOURCE_STDIN) {
        sbx_run_write_stdin(execution);
        return;
    }
    sbx_run_read_pipe(execution, kind);
    check_drained(execution);
}

int64_t sbx_run_next_ns(const struct sbx_execution *execution)
{
    return execution->tell_ns;
}

void sbx_run_on_time(struct sbx_execution *execution, int64_t now_ns)
{
    if (now_ns >= execution->tell_ns)
        sbx_run_wake(execution);
}

static int on_started(struct sbx_execution *execution)
{
    if (move_to(execution, SBX_RUN_RUNNING) < 0)
        return -EPROTO;
    execution->outcome.was_started = true;
    (void)pthread_mutex_lock(&execution->lock);
    execution->is_started = true;
    (void)pthread_mutex_unlock(&execution->lock);
    for (size_t i = 0; i < SBX_SOURCE_COUNT; i++)
        sbx_run_arm(execution, (enum sbx_source_kind)i);
    settle_controls(execution, 0, NULL);
    sbx_run_flush(execution);
    execution->tell_ns = cr_clock_mono_ns() + STARTED_PATIENCE_NS;
    return 0;
}

static int on_exited(struct sbx_execution *execution)
{
    if (move_to(execution, SBX_RUN_DRAINING) < 0)
        return -EPROTO;
    cr_close_fd(&execution->sources[SBX_SOURCE_STDIN].fd);
    sbx_run_read_pipe(execution, SBX_SOURCE_STDOUT);
    sbx_run_read_pipe(execution, SBX_SOURCE_STDERR);
    sbx_run_read_pipe(execution, SBX_SOURCE_COLLECT);
    /* What is stopped and waits for the next call may hold them open: nothing more comes. */
    if (execution->request.flags & SBX_RUN_HAS_CELL) {
        sbx_run_close_output(execution, SBX_SOURCE_STDOUT);
        sbx_run_close_output(execution, SBX_SOURCE_STDERR);
    }
    check_drained(execution);
    return 0;
}

/*
 * Without STARTED (refused, set-up failed) or after EXITED; in between it would
 * lose output. What is still in the pipes then may make an early one wrong.
 */
static int on_result(struct sbx_execution *execution, const struct sbx_msg_result *result)
{
    bool is_early = result->is_early != 0;

    if (!sbx_run_is_final(execution) && (execution->state != SBX_RUN_STARTING || is_early))
        return -EPROTO;
    if (result->stage == SBX_STAGE_REFUSED && result->stage_errno == ESRCH) {
        sbx_run_refuse(execution, RPC_NOT_FOUND, "sandbox_id: this sandbox has just ended",
                       "SANDBOX_EXPIRED", 0);
        return 0;
    }
    execution->outcome.result = *result;
    execution->has_early = is_early;
    if (is_early)
        end_early(execution);
    else
        end(execution);
    return 0;
}

int sbx_run_message(struct sbx_execution *execution, const union sbx_msg *msg)
{
    switch (msg->header.type) {
    case SBX_MSG_STARTED:
        return on_started(execution);
    case SBX_MSG_EXITED:
        return on_exited(execution);
    case SBX_MSG_RESULT:
        return on_result(execution, &msg->result);
    default:
        return -EPROTO;
    }
}

static void abandon(struct sbx_execution *execution)
{
    (void)pthread_mutex_lock(&execution->lock);
    sbx_output_discard(&execution->outputs[0]);
    sbx_output_discard(&execution->outputs[1]);
    (void)pthread_mutex_unlock(&execution->lock);
}

void sbx_run_kicked(struct sbx_execution *execution, uint32_t kicks)
{
    if (execution->state < SBX_RUN_STARTING || execution->state == SBX_RUN_ENDED)
        return;
    if (kicks & SBX_KICK_ABANDON)
        abandon(execution);
    if ((kicks & SBX_KICK_CANCEL) && !execution->is_cancel_sent && !sbx_run_is_final(execution)) {
        execution->is_cancel_sent = true;
        owe(execution, SBX_OWED_CANCEL);
    }
    if (execution->state == SBX_RUN_RUNNING && (kicks & SBX_KICK_INPUT))
        sbx_run_write_stdin(execution);
    if (execution->state == SBX_RUN_RUNNING && (kicks & SBX_KICK_CONTROL)) {
        settle_controls(execution, 0, NULL);
        sbx_run_flush(execution);
    }
    if (execution->state == SBX_RUN_RUNNING && (kicks & (SBX_KICK_ROOM | SBX_KICK_ABANDON)))
        sbx_run_resume(execution);
}
