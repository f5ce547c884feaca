/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/stall.h"

#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/graph/clean.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/verify/canonical.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILURE_MAX 65536U

/* Of Python the tokens count, of data every byte. */
static int add_more(const struct agt_file *file, struct cr_buf *text)
{
    int r = cr_buf_add(text, file->path, strlen(file->path) + 1);

    if (r < 0)
        return r;
    return agt_files_is_python(file->path) ? agt_py_add_canonical(file->text, text)
                                           : cr_buf_add_str(text, file->text);
}

void agt_stall_mark_code(const struct agt_files *files, struct agt_stall_marks *marks)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    int r;

    /* A line end for each token. */
    cr_buf_init(&text, (size_t)8 * (AGT_FILE_MAX + AGT_MORE_BYTES_MAX));
    r = agt_py_add_canonical(files->solution, &text);
    if (r == 0)
        r = cr_buf_add_char(&text, '\0');
    if (r == 0)
        r = agt_py_add_canonical(files->tests, &text);
    for (size_t i = 0; r == 0 && i < files->more_count; i++) {
        r = cr_buf_add_char(&text, '\0');
        if (r == 0)
            r = add_more(&files->more[i], &text);
    }
    marks->code[0] = '\0';
    if (r == 0)
        agt_receipt_digest(text.data, text.size, marks->code);
}

static bool has_failed(const Crisol__Sandbox__V1__TestCase *test)
{
    return test->outcome == CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_FAILED ||
           test->outcome == CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_ERROR;
}

/* Addresses, timings and colours in what the program wrote are no difference. */
static int add_failure(const struct agt_evidence *evidence,
                       const Crisol__Sandbox__V1__ExecuteResult *result, struct cr_buf *text)
{
    const Crisol__Sandbox__V1__TestReport *report = result->test_report;
    int r = cr_buf_printf(text, "%d\n", (int)evidence->cause);

    if (r == 0)
        r = agt_clean_add_cut(text, evidence->summary, strlen(evidence->summary),
                              sizeof(evidence->summary));
    for (size_t i = 0; report && r == 0 && i < report->n_cases; i++) {
        const Crisol__Sandbox__V1__TestCase *test = report->cases[i];

        if (has_failed(test))
            r = cr_buf_printf(text, "\n%s\n", test->id);
        if (r == 0 && has_failed(test))
            r = agt_clean_add_cut(text, test->message, strlen(test->message), 1024);
    }
    return r;
}

void agt_stall_mark_failure(const struct agt_evidence *evidence,
                            const Crisol__Sandbox__V1__ExecuteResult *result,
                            struct agt_stall_marks *marks)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    int r;

    cr_buf_init(&text, FAILURE_MAX);
    r = add_failure(evidence, result, &text);
    marks->failure[0] = '\0';
    if (r == 0 || r == -ENOSPC) /* as much as fits tells failures apart */
        agt_receipt_digest(text.data, text.size, marks->failure);
}

static uint32_t first_set(uint32_t of_task, uint32_t fallback)
{
    if (of_task > 0)
        return of_task;
    return fallback > 0 ? fallback : AGT_STALL_SAME_MIN;
}

void agt_stall_set_rules(const Crisol__Agent__V1__TaskTerms *terms,
                         const struct agt_stall_rules *fallback, struct agt_stall_rules *ret_rules)
{
    static const Crisol__Agent__V1__StallRules none = CRISOL__AGENT__V1__STALL_RULES__INIT;
    const Crisol__Agent__V1__StallRules *of_task = terms && terms->stall ? terms->stall : &none;

    ret_rules->same_code = first_set(of_task->same_code, fallback->same_code);
    ret_rules->same_failure = first_set(of_task->same_failure, fallback->same_failure);
}

/* The first attempt with this digest when there are `least` of them, or 0. */
static int32_t find(const struct agt_run *run, const char *digest, size_t offset, uint32_t least)
{
    int32_t first = 0;
    uint32_t count = 0;

    for (size_t i = 0; digest[0] && i < run->attempt_count; i++) {
        const struct agt_attempt *attempt = &run->attempts[i];

        if (strcmp((const char *)&attempt->marks + offset, digest) != 0)
            continue;
        if (count++ == 0)
            first = attempt->iteration;
    }
    return count >= least ? first : 0;
}

#define MARK(name) offsetof(struct agt_stall_marks, name)

int32_t agt_stall_find_code(const struct agt_run *run, const char *digest)
{
    return find(run, digest, MARK(code), run->stall_rules.same_code - 1);
}

int32_t agt_stall_find_failure(const struct agt_run *run, const char *digest)
{
    return find(run, digest, MARK(failure), 1);
}

int32_t agt_stall_find_stalled(const struct agt_run *run, const char *digest)
{
    return find(run, digest, MARK(failure), run->stall_rules.same_failure - 1);
}

/* What a person has said is tried before the run ends, and the steps begin anew. */
static void take_hint(struct agt_run *run)
{
    Crisol__Agent__V1__Resumed resumed = CRISOL__AGENT__V1__RESUMED__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    resumed.hint = run->hints.items[run->hints_taken++];
    run->hinted_at = run->attempt_count;
    run->stall_step = AGT_STALL_NONE;
    agt_stall_settle(run);
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESUMED;
    event.resumed = &resumed;
    agt_run_emit(run, &event);
}

const char *agt_stall_hint(const struct agt_run *run)
{
    return run->hints_taken > 0 ? run->hints.items[run->hints_taken - 1] : NULL;
}

enum agt_stall_step agt_stall_escalate(struct agt_run *run, const char *format, ...)
{
    va_list args;

    if (run->stall_step < AGT_STALL_STOP)
        run->stall_step++;
    free(run->stall_note);
    va_start(args, format);
    if (vasprintf(&run->stall_note, format, args) < 0)
        run->stall_note = NULL;
    va_end(args);
    if (run->stall_note)
        agt_list_add(&run->warnings, "%s.", run->stall_note);
    if (run->stall_step == AGT_STALL_STOP && run->hints_taken < run->hints.count)
        take_hint(run);
    if (run->stall_step == AGT_STALL_STOP && !run->failure) {
        run->cause = CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_STALLED;
        if (asprintf(&run->failure,
                     "The attempts repeat themselves, after another approach and "
                     "another plan were asked for: %s.",
                     run->stall_note ? run->stall_note : "the same failure again") < 0)
            run->failure = NULL;
    }
    return run->stall_step;
}

const char *agt_stall_advice(const struct agt_run *run)
{
    if (!run->stall_note)
        return NULL;
    switch (run->stall_step) {
    case AGT_STALL_TELL:
        return "Find out why your last change did not touch the cause, and say so in your one "
               "sentence. Then change what the failing code does, not its words.";
    case AGT_STALL_VARY:
        return "Leave the approach of the attempts before: another algorithm, other data "
               "structures. Write solution.py anew, from the task; what you had before is not "
               "shown again.";
    default:
        return "The plan is new. Follow it, and do not come back to the code of the attempts "
               "before, which is not shown again.";
    }
}

void agt_stall_settle(struct agt_run *run)
{
    free(run->stall_note);
    run->stall_note = NULL;
}
