/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/result.h"

#include "common/unconst.h"
#include "sandboxd/front/forbidden_call.h"
#include "sandboxd/front/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of the wire are those of the contract; a change of one side must not compile. */
_Static_assert((int)SBX_VERDICT_OK == (int)CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OK &&
                   (int)SBX_VERDICT_DISK_LIMIT ==
                       (int)CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_DISK_LIMIT &&
                   (int)SBX_VERDICT_SANDBOX_LOST ==
                       (int)CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SANDBOX_LOST &&
                   (int)SBX_KILLED_BY_SECCOMP ==
                       (int)CRISOL__SANDBOX__V1__KILLED_BY__KILLED_BY_SECCOMP &&
                   (int)SBX_GAP == (int)CRISOL__SANDBOX__V1__ENFORCEMENT__ENFORCEMENT_GAP,
               "wire and contract count alike");

static uint32_t narrow(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void fill_hit(Crisol__Sandbox__V1__LimitHit *message, const struct sbx_limit_hit *hit)
{
    crisol__sandbox__v1__limit_hit__init(message);
    message->limit = cr_unconst(sbx_limit_name(hit->limit)); /* protobuf-c knows no const */
    message->value = hit->value;
    message->observed = hit->observed;
    message->killed_by = (Crisol__Sandbox__V1__KilledBy)hit->killed_by;
}

static void fill_hits(struct sbx_result *result, const struct sbx_msg_result *wire)
{
    if (wire->has_hit) {
        fill_hit(&result->hit, &wire->hit);
        result->message.limit_hit = &result->hit;
    }
    for (size_t i = 0; i < wire->other_hit_count && i < SBX_OTHER_HITS_MAX; i++) {
        fill_hit(&result->others[i], &wire->other_hits[i]);
        result->other_list[i] = &result->others[i];
        result->message.n_other_limit_hits++;
    }
    result->message.other_limit_hits = result->other_list;
}

static const char *memory_source(const struct sbx_msg_result *wire, const struct sbx_policy *policy)
{
    const Crisol__Sandbox__V1__Enforcement partial =
        CRISOL__SANDBOX__V1__ENFORCEMENT__ENFORCEMENT_PARTIAL;

    if (wire->memory_peak_bytes == 0)
        return "";
    if (policy->controls.items[SBX_CONTROL_MEMORY].enforcement == partial)
        return "Pss of its processes, looked at now and then";
    if (wire->is_inferred)
        return "read inside the sandbox";
    return wire->cgroup_version == 2 ? "memory.peak" : "memory.memsw.max_usage_in_bytes";
}

static void fill_usage(struct sbx_result *result, const struct sbx_msg_result *wire,
                       const struct sbx_policy *policy)
{
    Crisol__Sandbox__V1__Usage *usage = &result->usage;

    crisol__sandbox__v1__usage__init(usage);
    usage->wall_us = wire->wall_us;
    usage->cpu_user_us = wire->cpu_user_us;
    usage->cpu_system_us = wire->cpu_system_us;
    usage->cpu_total_us = wire->cpu_total_us;
    usage->cpu_throttled_us = wire->cpu_throttled_us;
    usage->memory_peak_bytes = wire->memory_peak_bytes;
    usage->memory_source = cr_unconst(memory_source(wire, policy));
    usage->oom_kills = wire->oom_kills;
    usage->processes_peak = wire->processes_peak;
    usage->process_limit_hits = wire->process_limit_hits;
    usage->workspace_bytes = wire->workspace_bytes;
    usage->workspace_inodes = wire->workspace_inodes;
    usage->killed_leftovers = wire->killed_leftovers;
    result->message.usage = usage;
}

static void fill_timing(struct sbx_result *result, const struct sbx_outcome *outcome)
{
    Crisol__Sandbox__V1__Timing *timing = &result->timing;

    crisol__sandbox__v1__timing__init(timing);
    timing->queue_us = narrow(outcome->queue_us);
    timing->prepare_us = narrow(outcome->result.prepare_us);
    timing->run_us = outcome->result.wall_us;
    timing->kill_us = narrow(outcome->result.kill_us);
    timing->is_pool_hit = outcome->result.is_pool_hit != 0;
    timing->start_mode = (Crisol__Sandbox__V1__StartMode)(outcome->result.start_mode + 1);
    timing->collect_us = narrow(outcome->result.collect_us);
    result->message.timing = timing;
}

static void fill_streams(struct sbx_result *result, const struct sbx_execution *execution)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct sbx_output *output = sbx_execution_output(execution, i + 1);
        Crisol__Sandbox__V1__StreamInfo *info = &result->streams[i];

        crisol__sandbox__v1__stream_info__init(info);
        info->total_bytes = output->total;
        info->delivered_bytes = output->taken;
        info->is_truncated = output->dropped > 0;
    }
    result->message.stdout_info = &result->streams[0];
    result->message.stderr_info = &result->streams[1];
}

/* A path has one entry. A pattern has one for each file, and one more, under its own text, unless
 * these are all. */
static size_t count_entries(const struct sbx_collected *files, size_t count)
{
    size_t entries = 0;

    for (size_t i = 0; i < count; i++)
        entries += files[i].match_count + 1;
    return entries;
}

static void add_file(struct sbx_result *result, size_t spec, char *path, uint32_t status,
                     const struct cr_buf *data)
{
    Crisol__Sandbox__V1__CollectedFile *file = &result->files[result->message.n_files];

    crisol__sandbox__v1__collected_file__init(file);
    file->path = path;
    file->status = (Crisol__Sandbox__V1__CollectStatus)status;
    file->spec = (uint32_t)spec;
    if (file->status == CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_OK) {
        file->data.data = data->data;
        file->data.len = data->size;
    }
    result->file_list[result->message.n_files++] = file;
}

static void add_files(struct sbx_result *result, size_t spec, const struct sbx_collected *file)
{
    for (size_t i = 0; i < file->match_count; i++)
        add_file(result, spec, file->matches[i].path, file->matches[i].status,
                 &file->matches[i].data);
    if (file->max_files == 0 ||
        file->status != (uint32_t)CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_OK)
        add_file(result, spec, file->path, file->status, &file->data);
}

static int fill_files(struct sbx_result *result, const struct sbx_execution *execution)
{
    size_t count;
    const struct sbx_collected *files = sbx_execution_files(execution, &count);
    size_t entries = count_entries(files, count);

    if (count == 0)
        return 0;
    result->files = calloc(entries, sizeof(*result->files));
    result->file_list = (Crisol__Sandbox__V1__CollectedFile **)calloc(entries, sizeof(void *));
    if (!result->files || !result->file_list)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        add_files(result, i, &files[i]);
    result->message.files = result->file_list;
    return 0;
}

static void fill_report(struct sbx_result *result, const struct sbx_execution *execution)
{
    const struct sbx_collected *file = sbx_execution_report(execution);

    if (!file)
        return;
    switch ((Crisol__Sandbox__V1__CollectStatus)file->status) {
    case CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_OK:
        sbx_report_parse(&result->report, cr_buf_str(&file->data), file->data.size, NULL);
        break;
    case CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_TOO_LARGE:
        sbx_report_parse(&result->report, NULL, 0, "the report is too large");
        break;
    case CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_NOT_REGULAR:
        sbx_report_parse(&result->report, NULL, 0, "the report is no regular file");
        break;
    default:
        sbx_report_parse(&result->report, NULL, 0, "the test run left no report");
        break;
    }
    result->message.test_report = &result->report.message;
}

static const char *first_missing(const struct sbx_execution *execution)
{
    size_t count;
    const struct sbx_collected *files = sbx_execution_files(execution, &count);

    for (size_t i = 0; i < count; i++) {
        if (files[i].is_required && !sbx_collected_is_whole(&files[i]))
            return files[i].path;
    }
    return NULL;
}

/* A step name and an errno say what failed; where on the host stays in the log. */
static void fill_exec_error(struct sbx_result *result, const struct sbx_msg_result *wire)
{
    const char *reason = strerrordesc_np(wire->stage_errno);

    if (wire->verdict != SBX_VERDICT_EXEC_FAILED)
        return;
    (void)snprintf(result->exec_error, sizeof(result->exec_error), "%s: %s",
                   wire->stage == SBX_STAGE_PAYLOAD ? "files" : "execve",
                   reason ? reason : "unknown error");
    result->message.exec_error = result->exec_error;
}

static void fill_sandbox(struct sbx_result *result, const struct sbx_execution *execution)
{
    const uint32_t kept = sbx_execution_outcome(execution)->result.kept;

    if (sbx_execution_request(execution)->session == 0)
        return;
    crisol__sandbox__v1__sandbox_state__init(&result->sandbox);
    result->sandbox.is_alive = (kept & SBX_KEPT_SESSION) != 0;
    result->sandbox.is_state_kept = (kept & SBX_KEPT_STATE) != 0;
    result->sandbox.is_state_new = (kept & SBX_KEPT_NEW) != 0;
    result->message.sandbox = &result->sandbox;
}

static void fill_forbidden_call(struct sbx_result *result, const struct sbx_msg_result *wire)
{
    if (wire->verdict != SBX_VERDICT_SECURITY_VIOLATION || !wire->has_forbidden_call)
        return;
    sbx_forbidden_call_name(wire->forbidden_call, result->forbidden_call,
                            sizeof(result->forbidden_call));
    result->message.forbidden_call = result->forbidden_call;
}

/* Where the counters were read inside the box, or all that is known is a signal that the kernel
 * does not count: the program may have sent it to itself. */
static bool is_inferred(const struct sbx_msg_result *wire)
{
    return wire->is_inferred ||
           (wire->verdict == SBX_VERDICT_SECURITY_VIOLATION && !wire->has_forbidden_call) ||
           wire->verdict == SBX_VERDICT_FILE_SIZE_LIMIT;
}

static void fill_verdict(struct sbx_result *result, const struct sbx_execution *execution)
{
    const struct sbx_msg_result *wire = &sbx_execution_outcome(execution)->result;
    struct sbx_verdict_facts facts = {
        .wire = wire,
        .limits = &sbx_execution_request(execution)->limits,
        .outputs = {sbx_execution_output(execution, 1), sbx_execution_output(execution, 2)},
        .missing_file = first_missing(execution),
        .report = result->message.test_report,
    };

    crisol__sandbox__v1__verdict__init(&result->verdict);
    result->verdict.code = (Crisol__Sandbox__V1__VerdictCode)wire->verdict;
    result->verdict.retryable =
        wire->verdict == SBX_VERDICT_SANDBOX_ERROR || wire->verdict == SBX_VERDICT_SANDBOX_LOST;
    result->verdict.confidence = is_inferred(wire)
                                     ? CRISOL__SANDBOX__V1__CONFIDENCE__CONFIDENCE_INFERRED
                                     : CRISOL__SANDBOX__V1__CONFIDENCE__CONFIDENCE_MEASURED;
    sbx_verdict_message(&facts, result->verdict_message, sizeof(result->verdict_message));
    result->verdict.message = result->verdict_message;
    sbx_verdict_summary(&facts, result->summary, sizeof(result->summary));
    result->message.summary = result->summary;
    result->message.verdict = &result->verdict;
}

int sbx_result_fill(struct sbx_result *result, const struct sbx_execution *execution,
                    struct sbx_policy *policy)
{
    const struct sbx_outcome *outcome = sbx_execution_outcome(execution);

    *result = (struct sbx_result){0};
    crisol__sandbox__v1__execute_result__init(&result->message);
    result->message.execution_id = cr_unconst(sbx_execution_id(execution));
    result->message.request_id = cr_unconst(sbx_execution_request_id(execution));
    result->message.exit_code = outcome->result.exit_code;
    result->message.signal = outcome->result.signal;
    result->message.policy = &policy->message;
    result->message.phase = CRISOL__SANDBOX__V1__PHASE__PHASE_RUN;
    fill_hits(result, &outcome->result);
    fill_usage(result, &outcome->result, policy);
    fill_timing(result, outcome);
    fill_streams(result, execution);
    fill_report(result, execution);
    fill_exec_error(result, &outcome->result);
    fill_forbidden_call(result, &outcome->result);
    fill_sandbox(result, execution);
    fill_verdict(result, execution);
    return fill_files(result, execution);
}

void sbx_result_done(struct sbx_result *result)
{
    sbx_report_done(&result->report);
    free((void *)result->file_list);
    free(result->files);
    result->file_list = NULL;
    result->files = NULL;
}
