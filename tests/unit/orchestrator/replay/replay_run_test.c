/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/receipt/receipt.h"
#include "orchestrator/replay/replay_run.h"
#include "tests/harness/double_store.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#define EVENT(name) CRISOL__AGENT__V1__RUN_EVENT__EVENT_##name

typedef Crisol__Journal__V1__RunExport run_export;

/* A packed RunExport. */
struct file {
    uint8_t *data;
    size_t size;
    sem_t done;
};

static void on_export(void *user, uint8_t *take_packed, size_t size, int error)
{
    struct file *file = user;

    assert_int_equal(error, 0);
    file->data = take_packed;
    file->size = size;
    (void)sem_post(&file->done);
}

/* The first attempt fails; its output goes into the prompt of the second. */
static void repair(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                   struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    ret_execution->stdout_text = "some output";
    if (fixture->executions++ == 0) {
        ret_execution->exit_code = 1;
        ret_execution->passed = 2;
        ret_execution->failed = 1;
    }
}

static void hold_sandbox(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                         struct double_execution *ret_execution)
{
    double_pass(user, request, ret_execution);
    ret_execution->is_held = true;
}

/* Every check comes out as for honest code, the cases, too. */
static void solve_with_cases(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                             struct double_execution *ret_execution)
{
    static const char *const values[] = {"value 3"};

    if (double_check_of(request) == DOUBLE_CHECK_NONE)
        double_pass(user, request, ret_execution);
    else if (double_check_of(request) == DOUBLE_CHECK_ORACLE)
        double_answer_cases(request, values, 1, ret_execution);
    else
        double_answer_check(request, ret_execution);
}

/* The first check refutes the attempt while the others go on, which are cancelled. */
static void refute_at_once(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                           struct double_execution *ret_execution)
{
    enum double_check check = double_check_of(request);

    double_pass(user, request, ret_execution); /* which a canary must not */
    ret_execution->is_held = check != DOUBLE_CHECK_NONE && check != DOUBLE_CHECK_CANARY;
}

/* One case, one own check, Spanish. */
static size_t pack_terms(uint8_t packed[static 256])
{
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    Crisol__Agent__V1__OracleCase item = CRISOL__AGENT__V1__ORACLE_CASE__INIT;
    Crisol__Agent__V1__OracleCase *cases[] = {&item};
    Crisol__Agent__V1__OwnCheck check = CRISOL__AGENT__V1__OWN_CHECK__INIT;
    Crisol__Agent__V1__OwnCheck *checks[] = {&check};
    char program[] = "/bin/true";
    char *command[] = {program};
    char expression[] = "add(1, 2)";
    char expected[] = "3";
    char language[] = "es";

    item.expression = expression;
    item.expected_json = expected;
    check.command = command;
    check.n_command = 1;
    terms.cases = cases;
    terms.n_cases = 1;
    terms.checks = checks;
    terms.n_checks = 1;
    terms.language = language;
    return crisol__agent__v1__task_terms__pack(&terms, packed);
}

static struct file *make_file(double_sandbox_script script, bool must_cancel)
{
    uint8_t terms[256];
    struct file *file = calloc(1, sizeof(*file));
    struct agt_store *store = double_store_new();
    const struct agt_engine_options options = {.retry_base_ms = 1, .store = store};
    struct engine_fixture fixture;
    struct run_reader reader;
    struct agt_run *run;

    assert_non_null(file);
    (void)sem_init(&file->done, 0, 0);
    engine_fixture_start(&fixture, NULL, script, &options);
    fixture.verify = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_STUBS;
    if (script == solve_with_cases || script == refute_at_once) {
        double_sandbox_set_checks(fixture.sandbox, true);
        fixture.verify = 0;
    }
    if (script == solve_with_cases) {
        fixture.terms_size = pack_terms(terms);
        fixture.terms = terms;
    }
    run = engine_fixture_run(&fixture, 0);
    if (must_cancel) {
        run_reader_wait_for(run, EVENT(SANDBOX_STARTED));
        agt_run_cancel(run);
    }
    run_reader_read(&reader, agt_run_ref(run));
    run_reader_done(&reader);
    assert_int_equal(agt_run_export(store, run, on_export, file), 0);
    assert_int_equal(sem_wait(&file->done), 0);
    (void)agt_run_unref(run);
    engine_fixture_stop(&fixture);
    store->ops->free(store);
    return file;
}

static void free_file(struct file *file)
{
    (void)sem_destroy(&file->done);
    free(file->data);
    free(file);
}

static int set_up(void **state)
{
    *state = make_file(repair, false);
    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    return 0;
}

static int tear_down(void **state)
{
    free_file(*state);
    return 0;
}

static run_export *open_file(const struct file *file)
{
    run_export *export = crisol__journal__v1__run_export__unpack(NULL, file->size, file->data);

    assert_non_null(export);
    return export;
}

/* Whoever changes a file on purpose makes the digest fit again. */
static int replay_changed(run_export *export, struct agt_replay_report *report, struct cr_err *err)
{
    char digest[AGT_RECEIPT_DIGEST_SIZE];
    char empty[] = "";
    char *before = export->sha256;
    uint8_t *packed = malloc(4 << 20);
    size_t size;
    int r;

    assert_non_null(packed);
    export->sha256 = empty;
    size = crisol__journal__v1__run_export__pack(export, packed);
    agt_receipt_digest(packed, size, digest);
    export->sha256 = digest;
    size = crisol__journal__v1__run_export__pack(export, packed);
    export->sha256 = before;
    *report = (struct agt_replay_report){.events = 0};
    r = agt_replay_run(packed, size, report, err);
    free(packed);
    return r;
}

/* What the file holds happens again, with no difference. */
static void repeat(const struct file *file, struct agt_replay_report *ret_report)
{
    struct cr_err err = CR_ERR_INIT;

    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    if (agt_replay_run(file->data, file->size, ret_report, &err) < 0)
        fail_msg("%s", err.text);
    if (ret_report->different_at != 0)
        fail_msg("event %u: %s", ret_report->different_at, ret_report->difference);
}

static void a_run_that_is_repeated_is_the_same(void **state)
{
    const struct file *file = *state;
    struct agt_replay_report report;

    repeat(file, &report);
    assert_int_equal(report.compared, report.events);
    assert_true(report.events > 25);
}

static void any_byte_that_is_changed_makes_it_fail(void **state)
{
    struct file *file = *state;
    size_t count = 0;

    for (size_t i = 0; i < file->size; i++, count++) {
        struct agt_replay_report report;
        int r;

        file->data[i] ^= 1;
        r = agt_replay_run(file->data, file->size, &report, NULL);
        file->data[i] ^= 1;
        if (r == 0)
            fail_msg("byte %zu of %zu was changed and nobody noticed", i, file->size);
    }
    print_message("%zu bytes changed, each was noticed\n", count);
    for (size_t size = 0; size < file->size; size += 37) {
        struct agt_replay_report report;

        assert_int_equal(agt_replay_run(file->data, size, &report, NULL), -EBADMSG);
    }
}

/* ---- changes that only the repetition can notice ---- */

/* Replaces `old` by `new` (of the same length) in what is stored; -1: everywhere. */
static size_t replace(run_export *export, bool in_inputs, int event, const char *old,
                      const char *new)
{
    size_t length = strlen(old);
    size_t count = 0;

    for (size_t i = 0; i < export->n_events; i++) {
        ProtobufCBinaryData *data =
            in_inputs ? &export->events[i]->input : &export->events[i]->payload;
        uint8_t *at = data->data;

        if (event >= 0 && (size_t)event != i)
            continue;
        while (at && (at = memmem(at, (size_t)(data->data + data->len - at), old, length))) {
            memcpy(at, new, length);
            count++;
        }
    }
    return count;
}

static const struct {
    bool in_inputs;
    const char *old;
    const char *new;
} changes[] = {
    {true, "Behaviours: add", "Behaviours: sub"},  /* an answer: plan and prompt follow */
    {true, "return a + b", "return a - b"},        /* an answer: files and request follow */
    {true, "some output", "some 0utput"},          /* of the sandbox: the next prompt follows */
    {false, "Behaviours: add", "Behaviours: sub"}, /* an event */
    {false, "return a + b", "return a - b"},       /* the files in an event, and the result */
    {false, "repair", "repayr"},                   /* an edge */
    {false, "some output", "some 0utput"},         /* what was fed back */
    {false, "double-1", "double-2"},               /* who answered */
};

static void what_does_not_follow_from_the_answers_is_noticed(void **state)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(changes); i++) {
        run_export *export = open_file(*state);
        struct agt_replay_report report;
        struct cr_err err = CR_ERR_INIT;
        size_t count = replace(export, changes[i].in_inputs, -1, changes[i].old, changes[i].new);

        if (count == 0)
            fail_msg("change %zu changes nothing", i);
        assert_int_equal(replay_changed(export, &report, &err), 0);
        if (report.different_at == 0)
            fail_msg("'%s' became '%s' and nobody noticed", changes[i].old, changes[i].new);
        crisol__journal__v1__run_export__free_unpacked(export, NULL);
    }
}

static void a_prompt_that_is_not_the_same_is_named(void **state)
{
    run_export *export = open_file(*state);
    struct agt_replay_report report;
    struct cr_err err = CR_ERR_INIT;

    /* The first digest of a request is that of the first prompt. */
    for (size_t i = 0; i < export->n_events; i++) {
        ProtobufCBinaryData *input = &export->events[i]->input;
        Crisol__Journal__V1__CallRecords *records;
        char *digest;

        if (input->len == 0)
            continue;
        records = crisol__journal__v1__call_records__unpack(NULL, input->len, input->data);
        assert_non_null(records);
        digest = records->records[0]->request_sha256;
        assert_int_equal(strlen(digest), 64);
        digest[0] = digest[0] == 'a' ? 'b' : 'a';
        (void)crisol__journal__v1__call_records__pack(records, input->data);
        crisol__journal__v1__call_records__free_unpacked(records, NULL);
        break;
    }
    assert_int_equal(replay_changed(export, &report, &err), 0);
    assert_int_not_equal(report.different_at, 0);
    assert_non_null(strstr(report.difference, "the prompt of call"));
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
}

static void a_run_that_was_cut_is_the_same_as_far_as_it_goes(void **state)
{
    run_export *export = open_file(*state);
    struct agt_replay_report report;
    struct cr_err err = CR_ERR_INIT;
    size_t whole = export->n_events;

    for (export->n_events = whole - 1; export->n_events > 1; export->n_events--) {
        assert_int_equal(replay_changed(export, &report, &err), 0);
        if (report.different_at != 0)
            fail_msg("cut at %zu: event %u: %s", export->n_events, report.different_at,
                     report.difference);
    }
    export->n_events = whole;
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
}

static void a_run_that_was_cancelled_is_repeated_up_to_there(void **state)
{
    struct file *file = make_file(hold_sandbox, true);
    struct agt_replay_report report;

    (void)state;
    repeat(file, &report);
    assert_true(report.was_stopped);
    assert_in_range(report.compared, 9, report.events - 1);
    free_file(file);
}

static void a_run_with_terms_is_repeated_with_its_cases_and_checks(void **state)
{
    struct file *file = make_file(solve_with_cases, false);
    struct agt_replay_report report;
    run_export *export = open_file(file);
    Crisol__Journal__V1__RunSpec *spec =
        crisol__journal__v1__run_spec__unpack(NULL, export->spec.len, export->spec.data);

    (void)state;
    assert_non_null(spec);
    assert_true(spec->terms.len > 0);
    repeat(file, &report);
    assert_int_equal(report.compared, report.events);
    crisol__journal__v1__run_spec__free_unpacked(spec, NULL);
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
    free_file(file);
}

/* Ends of calls that were cancelled stand in the journal, too, and nothing waits for them. */
static void a_run_whose_checks_were_cancelled_is_the_same(void **state)
{
    struct file *file = make_file(refute_at_once, false);
    struct agt_replay_report report;

    (void)state;
    repeat(file, &report);
    assert_int_equal(report.compared, report.events);
    free_file(file);
}

/* Numbers that are the same in every run of the test. */
static uint32_t next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*state >> 33);
}

static ProtobufCBinaryData *choose(run_export *export, uint32_t number)
{
    Crisol__Journal__V1__ExportedEvent *event = export->events[number % export->n_events];

    if (number % 16 == 0)
        return &export->spec;
    return number & 64 && event->input.len > 0 ? &event->input : &event->payload;
}

#define SPOILED 400

/* Found by the fuzz target. */
static void an_event_of_no_bytes_is_refused(void **state)
{
    struct file *file = *state;
    run_export *export = crisol__journal__v1__run_export__unpack(NULL, file->size, file->data);
    struct agt_replay_report report;
    struct cr_err err = CR_ERR_INIT;
    ProtobufCBinaryData whole;

    assert_non_null(export);
    whole = export->events[1]->payload;
    export->events[1]->payload = (ProtobufCBinaryData){.len = 0};
    assert_int_equal(replay_changed(export, &report, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "cannot be read"));
    export->events[1]->payload = whole;
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
}

/* Somebody who makes the digest fit may send anything. */
static void a_spoiled_export_is_refused_or_different_and_never_more(void **state)
{
    uint64_t random = 1;
    size_t noticed = 0;

    for (int i = 0; i < SPOILED; i++) {
        run_export *export = open_file(*state);
        struct agt_replay_report report;
        struct cr_err err = CR_ERR_INIT;
        int r;

        for (uint32_t j = 0; j <= (uint32_t)i % 3; j++) {
            ProtobufCBinaryData *data = choose(export, next_number(&random));

            data->data[next_number(&random) % data->len] ^=
                (uint8_t)(1U << next_number(&random) % 8);
        }
        r = replay_changed(export, &report, &err);
        noticed += r < 0 || report.different_at != 0;
        crisol__journal__v1__run_export__free_unpacked(export, NULL);
    }
    assert_in_range(noticed, SPOILED / 2, SPOILED);
    print_message("%d exports spoiled, %zu noticed by what they hold\n", SPOILED, noticed);
}

static void an_export_of_a_newer_program_is_refused(void **state)
{
    run_export *export = open_file(*state);
    struct agt_replay_report report;
    struct cr_err err = CR_ERR_INIT;

    export->format++;
    assert_int_equal(replay_changed(export, &report, &err), -EPROTO);
    assert_non_null(strstr(err.text, "format"));
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(a_run_that_is_repeated_is_the_same),
        CASE(any_byte_that_is_changed_makes_it_fail),
        CASE(what_does_not_follow_from_the_answers_is_noticed),
        CASE(a_prompt_that_is_not_the_same_is_named),
        CASE(a_run_that_was_cut_is_the_same_as_far_as_it_goes),
        cmocka_unit_test(a_run_that_was_cancelled_is_repeated_up_to_there),
        cmocka_unit_test(a_run_with_terms_is_repeated_with_its_cases_and_checks),
        cmocka_unit_test(a_run_whose_checks_were_cancelled_is_the_same),
        CASE(an_event_of_no_bytes_is_refused),
        CASE(a_spoiled_export_is_refused_or_different_and_never_more),
        CASE(an_export_of_a_newer_program_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
