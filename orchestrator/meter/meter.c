/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/meter/meter.h"

#include "common/auto.h"
#include "common/metrics.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* More values than any enum that counts here; the last one is for those beyond it. */
#define VALUES_MAX 64
#define NAME_SIZE 64

typedef atomic_uint_fast64_t counter;

/* What counts by the value of an enum. */
enum by_value {
    RUNS_BY_STATUS,
    RUNS_BY_CAUSE,
    ATTEMPTS_BY_CAUSE,
    EXECUTIONS_BY_VERDICT,
    CHECKS_BY_OUTCOME,
    BY_VALUE_COUNT,
};

static const struct {
    const char *family;
    const char *help;
    const char *label;
    const char *prefix; /* of the enum's names, left out */
    const char *zero;   /* the label's value for 0; NULL: 0 is not counted */
    const ProtobufCEnumDescriptor *values;
} by_value[BY_VALUE_COUNT] = {
    [RUNS_BY_STATUS] = {"crisol_runs_ended_total", "Runs that ended, by how.", "status",
                        "RUN_STATUS_", NULL, &crisol__agent__v1__run_status__descriptor},
    [RUNS_BY_CAUSE] = {"crisol_runs_failed_total", "Runs that failed, by why.", "cause",
                       "FAILURE_CAUSE_", NULL, &crisol__agent__v1__failure_cause__descriptor},
    [ATTEMPTS_BY_CAUSE] = {"crisol_attempts_total", "Attempts that were judged, by what was wrong.",
                           "cause", "ATTEMPT_CAUSE_", "none",
                           &crisol__agent__v1__attempt_cause__descriptor},
    [EXECUTIONS_BY_VERDICT] = {"crisol_sandbox_executions_total",
                               "Test runs in the sandbox, by verdict.", "verdict", "VERDICT_CODE_",
                               NULL, &crisol__sandbox__v1__verdict_code__descriptor},
    [CHECKS_BY_OUTCOME] = {"crisol_verification_checks_total",
                           "Checks of attempts whose tests passed, by outcome.", "outcome",
                           "CHECK_OUTCOME_", NULL, &crisol__agent__v1__check_outcome__descriptor},
};

enum plain {
    RUNS_STARTED,
    RUNS_INTERRUPTED,
    RUNS_RESUMED,
    MODEL_CALLS,
    MODEL_RETRIES,
    PLAIN_COUNT,
};

static const struct {
    const char *family;
    const char *help;
} plain[PLAIN_COUNT] = {
    [RUNS_STARTED] = {"crisol_runs_started_total", "Runs that began here."},
    [RUNS_INTERRUPTED] = {"crisol_runs_interrupted_total", "Pauses of runs."},
    [RUNS_RESUMED] = {"crisol_runs_resumed_total", "Runs that were taken up after a pause."},
    [MODEL_CALLS] = {"crisol_model_calls_total", "Calls of the model that ended."},
    [MODEL_RETRIES] = {"crisol_model_retries_total", "Calls of the model that were repeated."},
};

enum token {
    TOKEN_PROMPT,
    TOKEN_ANSWER,
    TOKEN_THOUGHT,
    TOKEN_COUNT,
};

static const char *const token_names[TOKEN_COUNT] = {"prompt", "answer", "thought"};

enum duration {
    RUN_TIME,
    MODEL_TIME,
    SANDBOX_TIME,
    QUEUE_TIME,
    DURATION_COUNT,
};

static const struct {
    const char *family;
    const char *help;
} durations[DURATION_COUNT] = {
    [RUN_TIME] = {"crisol_run_duration_seconds", "From the start of a run to its end."},
    [MODEL_TIME] = {"crisol_model_call_duration_seconds", "One call of the model, with retries."},
    [SANDBOX_TIME] = {"crisol_sandbox_execution_duration_seconds",
                      "The program in the sandbox, without waiting."},
    [QUEUE_TIME] = {"crisol_sandbox_queue_duration_seconds", "Waiting for a place in sandboxd."},
};

struct agt_meter {
    counter by_value[BY_VALUE_COUNT][VALUES_MAX];
    counter plain[PLAIN_COUNT];
    counter tokens[TOKEN_COUNT];
    struct cr_histogram durations[DURATION_COUNT];
};

struct agt_meter *agt_meter_new(void)
{
    return calloc(1, sizeof(struct agt_meter));
}

struct agt_meter *agt_meter_free(struct agt_meter *meter)
{
    free(meter);
    return NULL;
}

/* ---- noting ---- */

static void bump(counter *count, uint64_t by)
{
    atomic_fetch_add_explicit(count, by, memory_order_relaxed);
}

static uint64_t read_count(const counter *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void note_value(struct agt_meter *meter, enum by_value which, int value)
{
    if (value < 0 || value >= VALUES_MAX)
        value = VALUES_MAX - 1;
    bump(&meter->by_value[which][value], 1);
}

static void note_result(struct agt_meter *meter, const Crisol__Agent__V1__RunResult *result)
{
    note_value(meter, RUNS_BY_STATUS, (int)result->status);
    if (result->cause != CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_UNSPECIFIED)
        note_value(meter, RUNS_BY_CAUSE, (int)result->cause);
    cr_histogram_note(&meter->durations[RUN_TIME], (uint64_t)result->elapsed_ms * 1000);
}

static void note_model_call(struct agt_meter *meter, const Crisol__Agent__V1__ModelCall *call)
{
    bump(&meter->plain[MODEL_CALLS], 1);
    cr_histogram_note(&meter->durations[MODEL_TIME], (uint64_t)call->elapsed_ms * 1000);
    if (!call->usage)
        return;
    bump(&meter->tokens[TOKEN_PROMPT], call->usage->prompt_tokens);
    bump(&meter->tokens[TOKEN_ANSWER], call->usage->answer_tokens);
    bump(&meter->tokens[TOKEN_THOUGHT], call->usage->thought_tokens);
}

static void note_execution(struct agt_meter *meter,
                           const Crisol__Sandbox__V1__ExecuteResult *result)
{
    if (!result)
        return;
    if (result->verdict)
        note_value(meter, EXECUTIONS_BY_VERDICT, (int)result->verdict->code);
    if (!result->timing)
        return;
    cr_histogram_note(&meter->durations[SANDBOX_TIME], result->timing->run_us);
    cr_histogram_note(&meter->durations[QUEUE_TIME], result->timing->queue_us);
}

void agt_meter_note(struct agt_meter *meter, const Crisol__Agent__V1__RunEvent *event)
{
    switch (event->event_case) {
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_RUN_STARTED:
        bump(&meter->plain[RUNS_STARTED], 1);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_CALL:
        note_model_call(meter, event->model_call);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_RETRY:
        bump(&meter->plain[MODEL_RETRIES], 1);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_SANDBOX_RESULT:
        note_execution(meter, event->sandbox_result->result);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_EVALUATION:
        note_value(meter, ATTEMPTS_BY_CAUSE, (int)event->evaluation->cause);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_VERIFICATION_CHECK:
        note_value(meter, CHECKS_BY_OUTCOME, (int)event->verification_check->outcome);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_INTERRUPTED:
        bump(&meter->plain[RUNS_INTERRUPTED], 1);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESUMED:
        bump(&meter->plain[RUNS_RESUMED], 1);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT:
        note_result(meter, event->result);
        break;
    default:
        break;
    }
}

/* ---- writing ---- */

/* "max_iterations" for FAILURE_CAUSE_MAX_ITERATIONS. */
static void lower_name(const char *name, const char *prefix, char text[NAME_SIZE])
{
    size_t skip = strncmp(name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;

    cr_metrics_lower(name + skip, text, NAME_SIZE);
}

static void write_value(const struct agt_meter *meter, enum by_value which,
                        const ProtobufCEnumValue *value, struct cr_metrics *metrics)
{
    char name[NAME_SIZE];
    const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {
        {by_value[which].label,
         value->value == 0 && by_value[which].zero ? by_value[which].zero : name},
    };

    if (value->value < 0 || value->value >= VALUES_MAX ||
        (value->value == 0 && !by_value[which].zero))
        return;
    lower_name(value->name, by_value[which].prefix, name);
    cr_metrics_count(metrics, labels, read_count(&meter->by_value[which][value->value]));
}

static void write_by_value(const struct agt_meter *meter, enum by_value which,
                           struct cr_metrics *metrics)
{
    const ProtobufCEnumDescriptor *values = by_value[which].values;

    cr_metrics_family(metrics, by_value[which].family, "counter", by_value[which].help);
    for (unsigned i = 0; i < values->n_values; i++)
        write_value(meter, which, &values->values[i], metrics);
}

static void write_tokens(const struct agt_meter *meter, struct cr_metrics *metrics)
{
    cr_metrics_family(metrics, "crisol_model_tokens_total", "counter",
                      "Tokens, as the provider counted them.");
    for (size_t i = 0; i < TOKEN_COUNT; i++) {
        const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {{"kind", token_names[i]}};

        cr_metrics_count(metrics, labels, read_count(&meter->tokens[i]));
    }
}

void agt_meter_write(const struct agt_meter *meter, struct cr_metrics *metrics)
{
    for (size_t i = 0; i < PLAIN_COUNT; i++) {
        cr_metrics_family(metrics, plain[i].family, "counter", plain[i].help);
        cr_metrics_count(metrics, NULL, read_count(&meter->plain[i]));
    }
    for (int which = 0; which < BY_VALUE_COUNT; which++)
        write_by_value(meter, (enum by_value)which, metrics);
    write_tokens(meter, metrics);
    for (size_t i = 0; i < DURATION_COUNT; i++) {
        cr_metrics_family(metrics, durations[i].family, "histogram", durations[i].help);
        cr_metrics_histogram(metrics, NULL, &meter->durations[i]);
    }
}
