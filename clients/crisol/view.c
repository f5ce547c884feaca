/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/view.h"

#include "clients/crisol/cli.h"
#include "clients/crisol/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN_LINES 4
#define DIFF_LINES 10
#define LINE_BYTES 96

#define RED "\033[31m"
#define GREEN "\033[32m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

void cli_view_init(struct cli_view *view)
{
    *view = (struct cli_view){0};
    view->is_terminal = isatty(STDERR_FILENO) && !secure_getenv("NO_COLOR");
}

static const char *color(const struct cli_view *view, const char *code)
{
    return view->is_terminal ? code : "";
}

/* Removes the live line, so that a whole line can take its place. */
static void clear_live(struct cli_view *view)
{
    if (view->is_terminal && view->live_size > 0)
        (void)fputs("\r\033[K", stderr);
    view->live_size = 0;
}

/* Keeps the last bytes of `text` as the live line; line ends become spaces. */
static void show_live(struct cli_view *view, const char *label, const char *text)
{
    const size_t width = 60;
    size_t size = strlen(text);

    if (!view->is_terminal)
        return;
    if (size > width) {
        text += size - width;
        size = width;
    }
    if (view->live_size + size > width) {
        size_t drop = view->live_size + size - width;

        memmove(view->live, view->live + drop, view->live_size - drop);
        view->live_size -= drop;
    }
    memcpy(view->live + view->live_size, text, size);
    view->live_size += size;
    for (size_t i = 0; i < view->live_size; i++) {
        if ((unsigned char)view->live[i] < 0x20)
            view->live[i] = ' ';
    }
    (void)fprintf(stderr, "\r\033[K%s%-9s", DIM, label);
    cli_print_untrusted(stderr, view->live, view->live_size);
    (void)fputs(PLAIN, stderr);
    (void)fflush(stderr);
}

/* First `lines` lines of a text, each cut to the width, under an indent. */
static void print_lines(const char *text, int lines)
{
    while (*text && lines > 0) {
        size_t length = strcspn(text, "\n");
        size_t shown = length < LINE_BYTES ? length : LINE_BYTES;

        /* Do not cut inside a character. */
        while (shown < length && shown > 0 && ((unsigned char)text[shown] & 0xC0) == 0x80)
            shown--;
        if (length > 0) {
            (void)fputs("          ", stderr);
            cli_print_untrusted(stderr, text, shown);
            (void)fputs(shown < length ? "…\n" : "\n", stderr);
            lines--;
        }
        text += length + (text[length] == '\n');
    }
    if (*text)
        (void)fputs("          …\n", stderr);
}

static void print_label(struct cli_view *view, const char *label, int iteration)
{
    clear_live(view);
    if (iteration > 0)
        (void)fprintf(stderr, "%s %-2d ", label, iteration);
    else
        (void)fprintf(stderr, "%-9s ", label);
}

static unsigned count_lines(const char *text)
{
    unsigned lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void show_model_call(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Agent__V1__ModelCall *call = event->model_call;

    print_label(view, "model", 0);
    if (call->model_served[0] == '\0')
        (void)fputs("no answer", stderr);
    cli_print_untrusted(stderr, call->model_served, strlen(call->model_served));
    (void)fprintf(stderr, " · %u tokens · %.2f s\n", call->usage ? call->usage->total_tokens : 0,
                  call->elapsed_ms / 1000.0);
}

/* The diff without the two lines that name the files. */
static const char *first_hunk(const char *diff)
{
    const char *hunk = strstr(diff, "\n@@");

    return hunk ? hunk + 1 : diff;
}

static void show_files(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Agent__V1__FilesReady *ready = event->files_ready;

    if (ready->diff[0] != '\0') {
        print_label(view, "repair", 0);
        (void)fprintf(stderr, "what changed for attempt %d\n", event->iteration);
        print_lines(first_hunk(ready->diff), DIFF_LINES);
    }
    print_label(view, "attempt", event->iteration);
    for (size_t i = 0; i < ready->n_files; i++) {
        (void)fputs(i > 0 ? ", " : "", stderr);
        cli_print_untrusted(stderr, ready->files[i]->path, strlen(ready->files[i]->path));
        (void)fprintf(stderr, " (%u lines)", count_lines(ready->files[i]->text));
    }
    (void)fputc('\n', stderr);
}

static const char *backend_name(Crisol__Sandbox__V1__Backend backend)
{
    return backend == CRISOL__SANDBOX__V1__BACKEND__BACKEND_DOCKER ? "docker" : "native";
}

static void keep_policy(struct cli_view *view, const Crisol__Sandbox__V1__EffectivePolicy *policy)
{
    const Crisol__Sandbox__V1__Limits *limits = policy ? policy->limits : NULL;

    if (!limits)
        return;
    (void)snprintf(view->policy, sizeof(view->policy),
                   "%s · no network · %" PRIu64 " MiB memory · %.2g core · %u processes · "
                   "%.3g s wall · read-only root · uid 1000 · seccomp · no capability",
                   backend_name(policy->backend), limits->memory_bytes >> 20,
                   limits->cpu_millicores / 1000.0, limits->processes,
                   limits->wall_time_ms / 1000.0);
}

static void show_sandbox_result(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Sandbox__V1__ExecuteResult *result = event->sandbox_result->result;

    if (!result)
        return;
    print_label(view, "sandbox", 0);
    cli_print_untrusted(stderr, result->summary, strlen(result->summary));
    (void)fputc('\n', stderr);
}

static void show_evaluation(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Agent__V1__Evaluation *evaluation = event->evaluation;

    print_label(view, "attempt", event->iteration);
    (void)fprintf(stderr, "%s%s%s ", color(view, evaluation->passed ? GREEN : RED),
                  evaluation->passed ? "✓ green" : "✗ red", color(view, PLAIN));
    cli_print_untrusted(stderr, evaluation->summary, strlen(evaluation->summary));
    (void)fputc('\n', stderr);
}

/* The name of a value without what every value of its enum begins with. */
static const char *short_name(const ProtobufCEnumDescriptor *type, const char *prefix, int number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);

    if (!value || strncmp(value->name, prefix, strlen(prefix)) != 0)
        return "UNKNOWN";
    return value->name + strlen(prefix);
}

static const char *level_name(Crisol__Agent__V1__VerificationLevel level)
{
    return short_name(&crisol__agent__v1__verification_level__descriptor, "VERIFICATION_LEVEL_",
                      (int)level);
}

static void show_check(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Agent__V1__VerificationCheck *check = event->verification_check;
    bool is_refuted = check->outcome == CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_REFUTED;
    bool is_shown = check->outcome == CRISOL__AGENT__V1__CHECK_OUTCOME__CHECK_OUTCOME_SHOWN;

    print_label(view, "verify", 0);
    (void)fprintf(stderr, "%-7s %s%s%s ", level_name(check->level),
                  color(view, is_refuted ? RED : (is_shown ? GREEN : DIM)),
                  is_refuted ? "✗" : (is_shown ? "✓" : "–"), color(view, PLAIN));
    cli_print_untrusted(stderr, check->name, strlen(check->name));
    (void)fputs(": ", stderr);
    cli_print_untrusted(stderr, check->summary, strlen(check->summary));
    (void)fputc('\n', stderr);
}

static void show_retry(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Agent__V1__ModelRetry *retry = event->model_retry;

    print_label(view, "model", 0);
    (void)fprintf(stderr, "asked again (request %u) in %u ms: ", retry->attempt, retry->delay_ms);
    cli_print_untrusted(stderr, retry->reason, strlen(retry->reason));
    (void)fputc('\n', stderr);
}

static void show_start(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    const Crisol__Agent__V1__RunStarted *started = event->run_started;

    print_label(view, "task", 0);
    cli_print_untrusted(stderr, started->task, strcspn(started->task, "\n"));
    (void)fprintf(stderr, "\nmodel     asking for ");
    cli_print_untrusted(stderr, started->model, strlen(started->model));
    (void)fprintf(stderr, ", at most %d attempts\n", started->max_iterations);
}

static void show_tool_result(struct cli_view *view, const Crisol__Agent__V1__ToolResult *result)
{
    print_label(view, "tried", 0);
    (void)fprintf(stderr, " program %u of the model: ", result->number);
    cli_print_untrusted(stderr, result->summary, strlen(result->summary));
    (void)fprintf(stderr, "\n");
}

void cli_view_event(struct cli_view *view, const Crisol__Agent__V1__RunEvent *event)
{
    switch (event->event_case) {
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_RUN_STARTED:
        show_start(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_DELTA:
        show_live(view, event->model_delta->is_thought ? "thinking" : "writing",
                  event->model_delta->text);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_OUTPUT_DELTA:
        show_live(view, "testing", event->output_delta->text);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_CALL:
        show_model_call(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_MODEL_RETRY:
        show_retry(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_PLAN_READY:
        print_label(view, "plan", 0);
        (void)fputc('\n', stderr);
        print_lines(event->plan_ready->plan, PLAN_LINES);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_FILES_READY:
        show_files(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_SANDBOX_STARTED:
        keep_policy(view, event->sandbox_started->policy);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_SANDBOX_RESULT:
        show_sandbox_result(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_EVALUATION:
        show_evaluation(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_VERIFICATION_CHECK:
        show_check(view, event);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_TOOL_RESULT:
        show_tool_result(view, event->tool_result);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_INTERRUPTED:
        print_label(view, "waits", 0);
        (void)fprintf(stderr, "for: crisol resume %.64s\n", event->run_id);
        break;
    case CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESUMED:
        print_label(view, "resumed", 0);
        (void)fprintf(stderr, "%s%s%s\n", event->resumed->plan[0] ? " with another plan" : "",
                      event->resumed->n_files > 0 ? " with other files" : "",
                      event->resumed->hint[0] ? " with a hint" : "");
        break;
    default:
        break;
    }
}

const char *cli_status_name(int status)
{
    return short_name(&crisol__agent__v1__run_status__descriptor, "RUN_STATUS_", status);
}

static const char *cause_name(Crisol__Agent__V1__FailureCause cause)
{
    return short_name(&crisol__agent__v1__failure_cause__descriptor, "FAILURE_CAUSE_", (int)cause);
}

void cli_view_result(struct cli_view *view, const Crisol__Agent__V1__RunResult *result)
{
    bool is_success = result->status == CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_SUCCESS;

    clear_live(view);
    if (view->policy[0] != '\0')
        (void)fprintf(stderr, "policy    %s\n", view->policy);
    for (size_t i = 0; i < result->n_warnings; i++) {
        (void)fputs("warning   ", stderr);
        cli_print_untrusted(stderr, result->warnings[i], strlen(result->warnings[i]));
        (void)fputc('\n', stderr);
    }
    if (result->usage && result->usage->cost_is_known)
        (void)fprintf(stderr, "cost      %.6f US dollars, %u tokens\n",
                      result->usage->cost_micro_usd / 1e6, result->usage->total_tokens);
    (void)fprintf(stderr, "%s%-9s%s after %d iteration%s in %.2f s\n",
                  color(view, is_success ? GREEN : RED), cli_status_name((int)result->status),
                  color(view, PLAIN), result->iterations, result->iterations == 1 ? "" : "s",
                  result->elapsed_ms / 1000.0);
    if (result->cause != CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_UNSPECIFIED)
        (void)fprintf(stderr, "cause     %s\n", cause_name(result->cause));
    if (is_success && result->verification) {
        (void)fprintf(stderr, "proof     level %s: ", level_name(result->verification->level));
        cli_print_untrusted(stderr, result->verification->shows,
                            strlen(result->verification->shows));
        (void)fputc('\n', stderr);
    }
}
