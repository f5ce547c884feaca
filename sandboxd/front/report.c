/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/report.h"

#include "common/buf.h"
#include "common/unconst.h"
#include "common/utf8.h"

#include <expat.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16U
#define TESTS_MAX 1000000U
#define ID_MAX 512U
#define MESSAGE_MAX 512U
#define DURATION_MAX_S 1e9

typedef Crisol__Sandbox__V1__TestCase test_case;

#define OUTCOME(name) CRISOL__SANDBOX__V1__TEST_OUTCOME__TEST_OUTCOME_##name

struct parser {
    XML_Parser expat;
    struct sbx_report *report;
    const char *problem; /* why the parser was stopped; NULL: it was not */
    unsigned int depth;
    bool has_suite;
    bool is_out_of_memory;
    /* Cases kept: those that did not pass first, then the others. */
    test_case *bad[SBX_REPORT_BAD_FIRST_MAX];
    size_t bad_count;
    test_case *others[SBX_REPORT_CASES_MAX];
    size_t other_count;
    size_t details_left;
    test_case *current;        /* the testcase element that is open */
    unsigned int case_depth;   /* of it */
    unsigned int detail_depth; /* of the open failure, error or skipped; 0: none */
    struct cr_buf details;
};

static void free_case(test_case *item)
{
    if (!item)
        return;
    if (item->id != protobuf_c_empty_string)
        free(item->id);
    if (item->message != protobuf_c_empty_string)
        free(item->message);
    if (item->details != protobuf_c_empty_string)
        free(item->details);
    free(item);
}

static void stop(struct parser *parser, const char *problem)
{
    if (!parser->problem)
        parser->problem = problem;
    (void)XML_StopParser(parser->expat, XML_FALSE);
}

static void out_of_memory(struct parser *parser)
{
    stop(parser, "there was not enough memory to read the report");
}

static const char *attribute(const char **attributes, const char *name)
{
    for (; *attributes; attributes += 2) {
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    }
    return "";
}

/* At most `max` bytes of whole characters, and with `is_line` only up to the first line break. */
static char *dup_cut(const char *text, size_t max, bool is_line)
{
    size_t size = is_line ? strcspn(text, "\r\n") : strlen(text);

    /* Always, because the text may have been cut before. */
    return strndup(text, cr_utf8_complete_prefix(text, size > max ? max : size));
}

/*
 * "test_solution.TestA" and "test_get[1]" become "test_solution.py::TestA::test_get[1]": pytest
 * writes the module and the classes with dots, and classes of tests begin with a capital letter.
 */
static int make_id(const char *class_name, const char *name, struct cr_buf *id)
{
    bool is_module = true;
    int r = 0;

    while (r == 0 && *class_name) {
        size_t size = strcspn(class_name, ".");
        bool is_class = *class_name >= 'A' && *class_name <= 'Z';

        if (id->size > 0 && is_module && is_class)
            r = cr_buf_add_str(id, ".py::");
        else if (id->size > 0)
            r = cr_buf_add_str(id, is_module ? "/" : "::");
        is_module = is_module && !is_class;
        if (r == 0)
            r = cr_buf_add(id, class_name, size);
        class_name += size;
        class_name += *class_name == '.';
    }
    if (r == 0 && id->size > 0)
        r = cr_buf_add_str(id, is_module ? ".py::" : "::");
    return r == 0 ? cr_buf_add_str(id, name) : r;
}

static uint64_t parse_duration_us(const char *text)
{
    double seconds = strtod(text, NULL);

    return isfinite(seconds) && seconds > 0 && seconds < DURATION_MAX_S ? (uint64_t)(seconds * 1e6)
                                                                        : 0;
}

static void begin_case(struct parser *parser, const char **attributes)
{
    CR_AUTO_BUF struct cr_buf id;
    test_case *item = calloc(1, sizeof(*item));

    cr_buf_init(&id, (size_t)4 * ID_MAX);
    if (!item) {
        out_of_memory(parser);
        return;
    }
    crisol__sandbox__v1__test_case__init(item);
    item->outcome = OUTCOME(PASSED);
    item->duration_us = parse_duration_us(attribute(attributes, "time"));
    /* A name that does not even fit four times the cap keeps what fitted. */
    (void)make_id(attribute(attributes, "classname"), attribute(attributes, "name"), &id);
    item->id = dup_cut(cr_buf_str(&id), ID_MAX, false);
    parser->current = item;
    parser->case_depth = parser->depth;
    if (!item->id) {
        item->id = cr_unconst(protobuf_c_empty_string);
        out_of_memory(parser);
    }
}

/* A case may say several things (failed, then its tear-down broke): the gravest counts. */
static int gravity(Crisol__Sandbox__V1__TestOutcome outcome)
{
    switch (outcome) {
    case OUTCOME(ERROR):
        return 3;
    case OUTCOME(FAILED):
        return 2;
    case OUTCOME(SKIPPED):
        return 1;
    default:
        return 0;
    }
}

static void begin_detail(struct parser *parser, Crisol__Sandbox__V1__TestOutcome outcome,
                         const char **attributes)
{
    test_case *item = parser->current;
    char *message;

    if (gravity(outcome) <= gravity(item->outcome))
        return;
    message = dup_cut(attribute(attributes, "message"), MESSAGE_MAX, true);
    if (!message) {
        out_of_memory(parser);
        return;
    }
    if (item->message != protobuf_c_empty_string)
        free(item->message);
    item->message = message;
    item->outcome = outcome;
    cr_buf_clear(&parser->details);
    parser->detail_depth = parser->depth;
}

static void XMLCALL on_begin(void *user, const char *name, const char **attributes)
{
    struct parser *parser = user;

    if (++parser->depth > DEPTH_MAX) {
        stop(parser, "the report is nested too deeply");
        return;
    }
    if (parser->depth == 1 && strcmp(name, "testsuites") != 0 && strcmp(name, "testsuite") != 0)
        stop(parser, "the report is not JUnit XML: its root is no testsuite");
    if (strcmp(name, "testsuite") == 0)
        parser->has_suite = true;
    else if (strcmp(name, "testcase") == 0 && !parser->current)
        begin_case(parser, attributes);
    else if (!parser->current || parser->detail_depth > 0)
        return;
    else if (strcmp(name, "failure") == 0)
        begin_detail(parser, OUTCOME(FAILED), attributes);
    else if (strcmp(name, "error") == 0)
        begin_detail(parser, OUTCOME(ERROR), attributes);
    else if (strcmp(name, "skipped") == 0)
        begin_detail(parser, OUTCOME(SKIPPED), attributes);
}

static void count_case(Crisol__Sandbox__V1__TestReport *message, const test_case *item)
{
    message->tests++;
    message->passed += item->outcome == OUTCOME(PASSED);
    message->failed += item->outcome == OUTCOME(FAILED);
    message->errors += item->outcome == OUTCOME(ERROR);
    message->skipped += item->outcome == OUTCOME(SKIPPED);
}

static void end_case(struct parser *parser)
{
    test_case *item = parser->current;

    parser->current = NULL;
    count_case(&parser->report->message, item);
    if (parser->report->message.tests > TESTS_MAX)
        stop(parser, "the report has too many tests");
    if (item->outcome != OUTCOME(PASSED) && parser->bad_count < SBX_REPORT_BAD_FIRST_MAX)
        parser->bad[parser->bad_count++] = item;
    else if (parser->other_count < SBX_REPORT_CASES_MAX)
        parser->others[parser->other_count++] = item;
    else
        free_case(item);
}

static void end_detail(struct parser *parser)
{
    test_case *item = parser->current;
    size_t max = parser->details_left < SBX_REPORT_DETAILS_MAX ? parser->details_left
                                                               : SBX_REPORT_DETAILS_MAX;

    char *details = dup_cut(cr_buf_str(&parser->details), max, false);

    parser->detail_depth = 0;
    if (!details) {
        out_of_memory(parser);
        return;
    }
    parser->details_left -= strlen(details);
    if (item->details != protobuf_c_empty_string)
        free(item->details);
    item->details = details;
}

static void XMLCALL on_end(void *user, const char *name)
{
    struct parser *parser = user;

    (void)name; /* depth tells which: names may nest, testcase in testcase too */
    if (parser->detail_depth > 0 && parser->detail_depth == parser->depth)
        end_detail(parser);
    if (parser->current && parser->case_depth == parser->depth)
        end_case(parser);
    parser->depth--;
}

static void XMLCALL on_text(void *user, const char *text, int size)
{
    struct parser *parser = user;
    size_t room = parser->details.cap - parser->details.size;

    if (parser->detail_depth == 0)
        return;
    if (cr_buf_add(&parser->details, text, (size_t)size < room ? (size_t)size : room) < 0)
        out_of_memory(parser);
}

static void XMLCALL on_doctype(void *user, const char *name, const char *system_id,
                               const char *public_id, int has_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_subset;
    stop(user, "the report has a document type, which is refused");
}

static const char *run_parser(struct parser *parser, const void *data, size_t size)
{
    enum XML_Status status;

    XML_SetUserData(parser->expat, parser);
    XML_SetElementHandler(parser->expat, on_begin, on_end);
    XML_SetCharacterDataHandler(parser->expat, on_text);
    XML_SetStartDoctypeDeclHandler(parser->expat, on_doctype);
    if (size > INT_MAX)
        return "the report is too large";
    status = XML_Parse(parser->expat, data, (int)size, 1);
    if (parser->problem)
        return parser->problem;
    if (status != XML_STATUS_OK)
        return "the report is not well-formed XML";
    return parser->has_suite ? NULL : "the report has no test suite";
}

/* The cases in the order of the contract. Returns 0 or -1. */
static int keep_cases(struct parser *parser, struct sbx_report *report)
{
    size_t count = parser->bad_count + parser->other_count;

    if (count == 0)
        return 0;
    if (count > SBX_REPORT_CASES_MAX)
        count = SBX_REPORT_CASES_MAX;
    report->cases = (test_case **)calloc(count, sizeof(void *));
    if (!report->cases)
        return -1;
    for (size_t i = 0; i < count; i++) {
        test_case **slot =
            i < parser->bad_count ? &parser->bad[i] : &parser->others[i - parser->bad_count];

        report->cases[i] = *slot;
        *slot = NULL;
    }
    report->case_count = count;
    return 0;
}

static void finish(struct parser *parser, struct sbx_report *report, const char *problem)
{
    Crisol__Sandbox__V1__TestReport *message = &report->message;

    if (!problem && keep_cases(parser, report) < 0)
        problem = "there was not enough memory to read the report";
    if (problem) {
        crisol__sandbox__v1__test_report__init(message); /* no half counts */
        message->problem = cr_unconst(problem);
    } else {
        message->is_present = true;
        message->n_cases = report->case_count;
        message->cases = report->cases;
    }
    for (size_t i = 0; i < parser->bad_count; i++)
        free_case(parser->bad[i]);
    for (size_t i = 0; i < parser->other_count; i++)
        free_case(parser->others[i]);
    free_case(parser->current);
    cr_buf_done(&parser->details);
}

void sbx_report_parse(struct sbx_report *report, const void *data, size_t size, const char *problem)
{
    struct parser *parser;

    *report = (struct sbx_report){0};
    crisol__sandbox__v1__test_report__init(&report->message);
    if (!data) {
        report->message.problem = cr_unconst(problem);
        return;
    }
    parser = calloc(1, sizeof(*parser));
    if (parser)
        parser->expat = XML_ParserCreate(NULL);
    if (!parser || !parser->expat) {
        report->message.problem = cr_unconst("there was not enough memory to read the report");
        free(parser);
        return;
    }
    parser->report = report;
    parser->details_left = SBX_REPORT_DETAILS_TOTAL;
    cr_buf_init(&parser->details, SBX_REPORT_DETAILS_MAX);
    finish(parser, report, run_parser(parser, data, size));
    XML_ParserFree(parser->expat);
    free(parser);
}

void sbx_report_done(struct sbx_report *report)
{
    for (size_t i = 0; i < report->case_count; i++)
        free_case(report->cases[i]);
    free((void *)report->cases);
    *report = (struct sbx_report){0};
}
