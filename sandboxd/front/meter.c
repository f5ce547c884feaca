/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/meter.h"

#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/front/run.h"

#include <string.h>

#define NAME_SIZE 64

/* The reasons of refusals (sbx_run_refuse), and one for all that is not here. */
static const char *const reasons[] = {"QUEUE_FULL", "QUEUE_SHARE",     "DRAINING",
                                      "NO_BACKEND", "SANDBOX_EXPIRED", "OTHER"};

_Static_assert(CR_ARRAY_SIZE(reasons) <= SBX_METER_REASONS, "a count for each");

static const char *const stream_names[] = {"stdout", "stderr"};

/* One less than the numbers of crisol.sandbox.v1.StartMode; a plain box starts cold inside. */
static const char *const mode_names[SBX_START_MODE_COUNT] = {
    [SBX_START_COLD] = "plain",
    [SBX_START_PRELOAD] = "preload",
    [SBX_START_PRELOAD_DEEP] = "preload_deep",
    [SBX_START_PRELOAD_SHALLOW] = "preload_shallow",
};

/* ---- noting ---- */

static void add(atomic_uint_fast64_t *count, uint64_t value)
{
    atomic_fetch_add_explicit(count, value, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void note_refusal(struct sbx_meter *meter, const char *reason)
{
    size_t i = 0;

    while (i + 1 < CR_ARRAY_SIZE(reasons) && (!reason || strcmp(reasons[i], reason) != 0))
        i++;
    add(&meter->refusals[i], 1);
}

static void note_result(struct sbx_meter *meter, const struct sbx_msg_result *result)
{
    uint32_t verdict = result->verdict;

    add(&meter->verdicts[verdict < SBX_METER_VERDICTS ? verdict : SBX_METER_VERDICTS - 1], 1);
    if (result->stage != SBX_STAGE_NONE && result->stage < SBX_STAGE_COUNT)
        add(&meter->failed_stages[result->stage], 1);
    if (result->stage != SBX_STAGE_REFUSED && result->start_mode < SBX_START_MODE_COUNT)
        add(&meter->pool[result->start_mode][result->is_pool_hit != 0], 1);
}

void sbx_meter_note(struct sbx_meter *meter, const struct sbx_execution *execution)
{
    const struct sbx_outcome *outcome = &execution->outcome;

    if (outcome->refusal != RPC_OK) {
        note_refusal(meter, outcome->refusal_reason);
        return;
    }
    note_result(meter, &outcome->result);
    if (execution->request.runtime < SBX_RUNTIMES_MAX)
        add(&meter->runtimes[execution->request.runtime], 1);
    for (size_t i = 0; i < CR_ARRAY_SIZE(execution->outputs); i++) {
        add(&meter->output_bytes[i], execution->outputs[i].total);
        add(&meter->truncated[i], execution->outputs[i].dropped > 0);
    }
    cr_histogram_note(&meter->queue_time, outcome->queue_us);
    if (!outcome->was_started)
        return;
    cr_histogram_note(&meter->start_time, outcome->result.prepare_us);
    cr_histogram_note(&meter->run_time, outcome->result.wall_us);
}

void sbx_meter_started(struct sbx_meter *meter)
{
    add(&meter->starts, 1);
}

void sbx_meter_lost(struct sbx_meter *meter)
{
    add(&meter->losses, 1);
    /* They were the lost one's; a new one tells its own. */
    for (size_t i = 0; i < SBX_COUNT_COUNT; i++)
        atomic_store_explicit(&meter->counts[i], 0, memory_order_relaxed);
}

void sbx_meter_set_counts(struct sbx_meter *meter, const struct sbx_msg_counts *counts)
{
    for (size_t i = 0; i < SBX_COUNT_COUNT; i++)
        atomic_store_explicit(&meter->counts[i], counts->value[i], memory_order_relaxed);
}

/* ---- writing ---- */

static void write_one(struct cr_metrics *metrics, const char *name, const char *type,
                      const char *help, uint64_t value)
{
    cr_metrics_family(metrics, name, type, help);
    cr_metrics_count(metrics, NULL, value);
}

/* A sample with one label. */
static void write_labelled(struct cr_metrics *metrics, const char *label, const char *value,
                           uint64_t count)
{
    const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {{label, value}};

    cr_metrics_count(metrics, labels, count);
}

static void write_verdicts(const struct sbx_meter *meter, struct cr_metrics *metrics)
{
    cr_metrics_family(metrics, "sandboxd_executions_total", "counter",
                      "Runs that ended, by verdict.");
    for (uint32_t verdict = 1; verdict < SBX_METER_VERDICTS; verdict++) {
        const char *upper = sbx_verdict_name(verdict);
        char name[NAME_SIZE];

        if (strcmp(upper, "unknown") == 0)
            continue;
        cr_metrics_lower(upper, name, sizeof(name));
        write_labelled(metrics, "verdict", name, get(&meter->verdicts[verdict]));
    }
}

static void write_runtimes(const struct sbx_meter *meter, struct cr_metrics *metrics)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);

    cr_metrics_family(metrics, "sandboxd_runtime_executions_total", "counter",
                      "Runs that ended, by runtime.");
    for (size_t i = 0; i < count; i++)
        write_labelled(metrics, "runtime", runtimes[i].name, get(&meter->runtimes[i]));
}

static void write_failures(const struct sbx_meter *meter, struct cr_metrics *metrics)
{
    cr_metrics_family(metrics, "sandboxd_refusals_total", "counter",
                      "Runs that were refused before anything was started, by reason.");
    for (size_t i = 0; i < CR_ARRAY_SIZE(reasons); i++)
        write_labelled(metrics, "reason", reasons[i], get(&meter->refusals[i]));
    cr_metrics_family(metrics, "sandboxd_failed_stages_total", "counter",
                      "Runs whose start or measurement failed, by step.");
    for (uint32_t stage = SBX_STAGE_NONE + 1; stage < SBX_STAGE_COUNT; stage++)
        write_labelled(metrics, "stage", sbx_stage_name(stage), get(&meter->failed_stages[stage]));
}

static void write_output(const struct sbx_meter *meter, struct cr_metrics *metrics)
{
    cr_metrics_family(metrics, "sandboxd_output_bytes_total", "counter",
                      "Bytes that programs wrote.");
    for (size_t i = 0; i < CR_ARRAY_SIZE(stream_names); i++)
        write_labelled(metrics, "stream", stream_names[i], get(&meter->output_bytes[i]));
    cr_metrics_family(metrics, "sandboxd_output_truncated_total", "counter",
                      "Streams of which a part was dropped.");
    for (size_t i = 0; i < CR_ARRAY_SIZE(stream_names); i++)
        write_labelled(metrics, "stream", stream_names[i], get(&meter->truncated[i]));
}

static void write_pool(const struct sbx_meter *meter, const struct sbx_meter_now *now,
                       struct cr_metrics *metrics)
{
    static const char *const outcomes[] = {"miss", "hit"};

    cr_metrics_family(metrics, "sandboxd_pool_boxes", "gauge",
                      "Sandboxes made ahead: that wait now, and that should.");
    write_labelled(metrics, "state", "ready", now->pool_ready);
    write_labelled(metrics, "state", "wanted", now->is_up ? now->hello.pool_slots : 0);
    cr_metrics_family(metrics, "sandboxd_pool_requests_total", "counter",
                      "Runs by the kind of their sandbox and whether it was made ahead (hit).");
    for (size_t mode = 0; mode < SBX_START_MODE_COUNT; mode++) {
        for (size_t hit = 0; hit < CR_ARRAY_SIZE(outcomes); hit++) {
            const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {
                {"kind", mode_names[mode]}, {"outcome", outcomes[hit]}};

            cr_metrics_count(metrics, labels, get(&meter->pool[mode][hit]));
        }
    }
}

static void write_load(const struct sbx_meter_now *now, struct cr_metrics *metrics)
{
    const struct sbx_backend_load *load = &now->load;

    cr_metrics_family(metrics, "sandboxd_slots", "gauge", "Runs at one time: possible and now.");
    write_labelled(metrics, "state", "total", load->slots);
    write_labelled(metrics, "state", "used", load->running);
    cr_metrics_family(metrics, "sandboxd_slots_used_ratio", "gauge",
                      "Slots in use, from 0 to 1; 1 without a backend.");
    cr_metrics_value(metrics, NULL,
                     load->slots > 0 ? (double)load->running / (double)load->slots : 1.0);
    write_one(metrics, "sandboxd_queue_length", "gauge", "Runs that wait for a slot.",
              load->waiting);
    write_one(metrics, "sandboxd_queue_capacity", "gauge", "Runs that may wait for a slot.",
              now->queue_capacity);
    cr_metrics_family(metrics, "sandboxd_memory_bytes", "gauge",
                      "Memory limits of runs: what they may add up to (0: any sum), and do.");
    write_labelled(metrics, "state", "total", load->memory_bytes);
    write_labelled(metrics, "state", "used", load->memory_taken);
}

static void write_backend(const struct sbx_meter *meter, const struct sbx_meter_now *now,
                          struct cr_metrics *metrics)
{
    static const char *const names[] = {"none", "native", "docker"};
    uint32_t backend =
        now->is_up && now->hello.backend < CR_ARRAY_SIZE(names) ? now->hello.backend : 0;
    uint64_t gaps = 0;

    for (size_t i = 0; now->is_up && i < SBX_CONTROL_COUNT; i++)
        gaps += now->hello.controls[i] == SBX_GAP;
    cr_metrics_family(metrics, "sandboxd_backend_up", "gauge",
                      "1 when a backend is there; the label tells which.");
    write_labelled(metrics, "backend", names[backend], now->is_up);
    write_one(metrics, "sandboxd_control_gaps", "gauge",
              "Controls that this host cannot enforce and the operator accepted.", gaps);
    write_one(metrics, "sandboxd_backend_starts_total", "counter",
              "Backends that came up, the first included.", get(&meter->starts));
    write_one(metrics, "sandboxd_backend_losses_total", "counter", "Backends that were lost.",
              get(&meter->losses));
}

static void write_counts(const struct sbx_meter *meter, struct cr_metrics *metrics)
{
    uint64_t since = get(&meter->counts[SBX_COUNT_TEMPLATE_SINCE]);
    int64_t age_ns = since > 0 ? cr_clock_mono_ns() - (int64_t)since : 0;

    write_one(metrics, "sandboxd_leftovers_swept_total", "counter",
              "What an earlier backend left and the start of this one removed.",
              get(&meter->counts[SBX_COUNT_SWEPT]));
    write_one(metrics, "sandboxd_quarantined_containers", "gauge",
              "Containers that the engine does not remove.",
              get(&meter->counts[SBX_COUNT_QUARANTINED]));
    write_one(metrics, "sandboxd_templates", "gauge", "Interpreters that wait to be forked.",
              get(&meter->counts[SBX_COUNT_TEMPLATES]));
    write_one(metrics, "sandboxd_template_starts_total", "counter",
              "Templates that were started, by this backend.",
              get(&meter->counts[SBX_COUNT_TEMPLATE_STARTS]));
    write_one(metrics, "sandboxd_template_forks_total", "counter",
              "Sandboxes that templates forked, by this backend.",
              get(&meter->counts[SBX_COUNT_TEMPLATE_FORKS]));
    cr_metrics_family(metrics, "sandboxd_template_oldest_age_seconds", "gauge",
                      "Age of the oldest template; 0 without one.");
    cr_metrics_value(metrics, NULL, age_ns > 0 ? (double)age_ns / (double)CR_NS_PER_S : 0.0);
}

static void write_times(const struct sbx_meter *meter, struct cr_metrics *metrics)
{
    cr_metrics_family(metrics, "sandboxd_queue_wait_seconds", "histogram",
                      "Waiting for a slot, runs that did not wait included.");
    cr_metrics_histogram(metrics, NULL, &meter->queue_time);
    cr_metrics_family(metrics, "sandboxd_start_seconds", "histogram",
                      "From a slot to the program's first instruction.");
    cr_metrics_histogram(metrics, NULL, &meter->start_time);
    cr_metrics_family(metrics, "sandboxd_execution_seconds", "histogram",
                      "The program itself, from its start to its end.");
    cr_metrics_histogram(metrics, NULL, &meter->run_time);
}

void sbx_meter_write(const struct sbx_meter *meter, const struct sbx_meter_now *now,
                     struct cr_metrics *metrics)
{
    write_backend(meter, now, metrics);
    write_load(now, metrics);
    write_verdicts(meter, metrics);
    write_runtimes(meter, metrics);
    write_failures(meter, metrics);
    write_times(meter, metrics);
    write_output(meter, metrics);
    write_pool(meter, now, metrics);
    write_counts(meter, metrics);
}
