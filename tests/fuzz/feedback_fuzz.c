/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/hash.h"
#include "common/utf8.h"
#include "orchestrator/graph/feedback.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#define PARTS 6

/*
 * What a program and its tests write: parts of the input, with NUL between
 * them, become id, message and details of a failed test, both streams, and
 * the solution. Whatever they hold, the judgement is no pass, and the feedback
 * is UTF-8 within its budget whose fence is closed by its last line only.
 */
static void split(char *text, size_t size, char *parts[PARTS])
{
    char *end = text + size;

    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = text;
        if (text < end)
            text += strlen(text) + 1;
        if (text > end)
            text = end; /* the NUL behind the whole */
    }
}

/* As in a run, the text cannot have known it: it depends on every byte of the text. */
static void make_delimiter(const uint8_t *data, size_t size, char delimiter[static 24])
{
    uint64_t hash = cr_hash(CR_HASH_START, data, size);

    (void)snprintf(delimiter, 24, "OUTPUT-%016llx", (unsigned long long)hash);
}

static void judge(char *parts[PARTS], const char *delimiter)
{
    char last_line[40];
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;
    Crisol__Sandbox__V1__TestReport report = CRISOL__SANDBOX__V1__TEST_REPORT__INIT;
    Crisol__Sandbox__V1__TestCase test = CRISOL__SANDBOX__V1__TEST_CASE__INIT;
    Crisol__Sandbox__V1__TestCase *cases[] = {&test};
    char none[] = "";
    struct agt_files files = {.solution = parts[5], .tests = none};
    struct agt_evidence evidence;
    struct agt_feedback feedback = {
        .evidence = &evidence,
        .result = &result,
        .files = &files,
        .stdout_text = parts[3],
        .stderr_text = parts[4],
        .diff = parts[5],
        .delimiter = delimiter,
        .budget = 2048,
    };
    CR_AUTO_BUF struct cr_buf buf = {0};
    const char *fence;

    verdict.code = CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_NONZERO_EXIT;
    result.verdict = &verdict;
    result.exit_code = 1;
    result.test_report = &report;
    report.is_present = true;
    report.tests = 1;
    report.failed = 1;
    report.cases = cases;
    report.n_cases = 1;
    test.outcome = CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_FAILED;
    test.id = parts[0];
    test.message = parts[1];
    test.details = parts[2];
    agt_evidence_judge(&result, &evidence);
    FUZZ_CHECK(!evidence.has_passed && evidence.summary[0] && !strchr(evidence.summary, '\n'));
    FUZZ_CHECK(cr_utf8_is_valid(evidence.summary, strlen(evidence.summary)));

    cr_buf_init(&buf, feedback.budget);
    FUZZ_CHECK(agt_feedback_add(&feedback, &buf) == 0);
    FUZZ_CHECK(cr_utf8_is_valid(buf.data, buf.size));
    (void)snprintf(last_line, sizeof(last_line), "\n>>> %s\n", delimiter);
    fence = strstr(cr_buf_str(&buf), last_line);
    FUZZ_CHECK(fence && fence[strlen(last_line)] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *parts[PARTS];
    char delimiter[24];
    char *text;

    /* The texts come from protobuf strings, which are UTF-8. */
    if (!cr_utf8_is_valid(data, size))
        return 0;
    make_delimiter(data, size, delimiter);
    text = fuzz_text(data, size);
    split(text, size, parts);
    judge(parts, delimiter);
    free(text);
    return 0;
}
