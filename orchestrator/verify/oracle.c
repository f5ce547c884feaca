/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/oracle.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/verify/json_value.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define CASES_MAX 64
/* Unrelated classes of Python's own that one exception may be of. */
#define KINDS_MAX 2

int agt_oracle_check_json(const char *text, struct cr_err *err)
{
    struct agt_json_value *value = NULL;
    int r = agt_json_value_parse(text, strlen(text), &value, err);

    agt_json_value_free(value);
    return r;
}

int agt_oracle_add_questions(Crisol__Agent__V1__OracleCase *const *cases, size_t count,
                             const char *mark, struct cr_buf *buf)
{
    cJSON *order = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(order, "questions");
    bool is_good = list && cJSON_AddStringToObject(order, "mark", mark);
    char *text;
    int r;

    for (size_t i = 0; is_good && i < count; i++) {
        cJSON *question = cJSON_CreateObject();

        is_good = cJSON_AddStringToObject(question, "setup", cases[i]->setup) &&
                  cJSON_AddStringToObject(question, "expression", cases[i]->expression);
        is_good = cJSON_AddItemToArray(list, question) && is_good;
    }
    text = is_good ? cJSON_PrintUnformatted(order) : NULL;
    cJSON_Delete(order);
    r = text ? cr_buf_add_str(buf, text) : -ENOMEM;
    cJSON_free(text);
    return r;
}

/* What became of each case. */
enum fate {
    FATE_NONE, /* no answer */
    FATE_HOLDS,
    FATE_OTHER_VALUE,
    FATE_VALUE, /* where an exception was wanted */
    FATE_RAISED,
    FATE_UNUSABLE,
};

struct judgement {
    Crisol__Agent__V1__OracleCase *const *cases;
    size_t count;
    enum fate fates[CASES_MAX];
    char details[CASES_MAX][64]; /* what was raised, in our own words */
    char import_error[64];       /* the same; "": it could be imported */
    bool has_ended;
    bool is_tampered;
    bool is_out_of_memory;
};

/* Of Python 3.14 (builtins), in the order of strcmp(), each with the class that it is a kind of. */
static const struct exception {
    const char *name;
    const char *parent; /* "": object */
} exceptions[] = {
    {"ArithmeticError", "Exception"},
    {"AssertionError", "Exception"},
    {"AttributeError", "Exception"},
    {"BaseException", ""},
    {"BaseExceptionGroup", "BaseException"},
    {"BlockingIOError", "OSError"},
    {"BrokenPipeError", "ConnectionError"},
    {"BufferError", "Exception"},
    {"BytesWarning", "Warning"},
    {"ChildProcessError", "OSError"},
    {"ConnectionAbortedError", "ConnectionError"},
    {"ConnectionError", "OSError"},
    {"ConnectionRefusedError", "ConnectionError"},
    {"ConnectionResetError", "ConnectionError"},
    {"DeprecationWarning", "Warning"},
    {"EOFError", "Exception"},
    {"EncodingWarning", "Warning"},
    {"Exception", "BaseException"},
    {"ExceptionGroup", "BaseExceptionGroup"},
    {"FileExistsError", "OSError"},
    {"FileNotFoundError", "OSError"},
    {"FloatingPointError", "ArithmeticError"},
    {"FutureWarning", "Warning"},
    {"GeneratorExit", "BaseException"},
    {"ImportError", "Exception"},
    {"ImportWarning", "Warning"},
    {"IndentationError", "SyntaxError"},
    {"IndexError", "LookupError"},
    {"InterruptedError", "OSError"},
    {"IsADirectoryError", "OSError"},
    {"KeyError", "LookupError"},
    {"KeyboardInterrupt", "BaseException"},
    {"LookupError", "Exception"},
    {"MemoryError", "Exception"},
    {"ModuleNotFoundError", "ImportError"},
    {"NameError", "Exception"},
    {"NotADirectoryError", "OSError"},
    {"NotImplementedError", "RuntimeError"},
    {"OSError", "Exception"},
    {"OverflowError", "ArithmeticError"},
    {"PendingDeprecationWarning", "Warning"},
    {"PermissionError", "OSError"},
    {"ProcessLookupError", "OSError"},
    {"PythonFinalizationError", "RuntimeError"},
    {"RecursionError", "RuntimeError"},
    {"ReferenceError", "Exception"},
    {"ResourceWarning", "Warning"},
    {"RuntimeError", "Exception"},
    {"RuntimeWarning", "Warning"},
    {"StopAsyncIteration", "Exception"},
    {"StopIteration", "Exception"},
    {"SyntaxError", "Exception"},
    {"SyntaxWarning", "Warning"},
    {"SystemError", "Exception"},
    {"SystemExit", "BaseException"},
    {"TabError", "IndentationError"},
    {"TimeoutError", "OSError"},
    {"TypeError", "Exception"},
    {"UnboundLocalError", "NameError"},
    {"UnicodeDecodeError", "UnicodeError"},
    {"UnicodeEncodeError", "UnicodeError"},
    {"UnicodeError", "ValueError"},
    {"UnicodeTranslateError", "UnicodeError"},
    {"UnicodeWarning", "Warning"},
    {"UserWarning", "Warning"},
    {"ValueError", "Exception"},
    {"Warning", "Exception"},
    {"ZeroDivisionError", "ArithmeticError"},
};

static int compare_names(const void *key, const void *item)
{
    return strcmp(key, ((const struct exception *)item)->name);
}

/* NULL: no class of Python's own has that name. */
static const struct exception *find_exception(const char *name)
{
    return name ? bsearch(name, exceptions, CR_ARRAY_SIZE(exceptions), sizeof(exceptions[0]),
                          compare_names)
                : NULL;
}

/*
 * As an object may be made to equal everything, so an exception to be of every
 * kind that somebody may ask for. Honest ones are of two at most (KeyError and
 * AttributeError). A class is not counted where a kind of it is.
 */
static bool is_of_too_many_kinds(const cJSON *names)
{
    bool is_named[CR_ARRAY_SIZE(exceptions)] = {false};
    bool has_kind[CR_ARRAY_SIZE(exceptions)] = {false};
    const cJSON *name;
    size_t kinds = 0;

    cJSON_ArrayForEach(name, names)
    {
        const struct exception *at = find_exception(cJSON_GetStringValue(name));

        if (!at || is_named[at - exceptions])
            continue;
        is_named[at - exceptions] = true;
        for (at = find_exception(at->parent); at; at = find_exception(at->parent))
            has_kind[at - exceptions] = true;
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(exceptions); i++)
        kinds += is_named[i] && !has_kind[i];
    return kinds > KINDS_MAX;
}

/*
 * The summary goes to the model, and the program chooses the names of its
 * classes: with them it could show the model the questions that it was asked.
 * So only names of Python's own are repeated. `names` are those of the
 * exception's classes, its own first.
 */
static void describe_raised(const cJSON *names, char *text, size_t size)
{
    const cJSON *name;

    (void)snprintf(text, size, "raised an exception");
    cJSON_ArrayForEach(name, names)
    {
        const char *own = cJSON_GetStringValue(name);

        if (!find_exception(own))
            continue;
        (void)snprintf(text, size, "raised %s%s", name == names->child ? "" : "its own kind of ",
                       own);
        return;
    }
}

static void judge_value(struct judgement *judgement, size_t number, const char *json, size_t size)
{
    const char *expected = judgement->cases[number]->expected_json;
    struct agt_json_value *wanted = NULL;
    struct agt_json_value *found = NULL;
    int r;

    judgement->fates[number] = FATE_VALUE;
    if (expected[0] == '\0')
        return;
    judgement->fates[number] = FATE_OTHER_VALUE;
    r = agt_json_value_parse(expected, strlen(expected), &wanted, NULL);
    if (r == 0)
        r = agt_json_value_parse(json, size, &found, NULL);
    if (r == 0 && agt_json_value_equals(wanted, found))
        judgement->fates[number] = FATE_HOLDS;
    judgement->is_out_of_memory |= r == -ENOMEM;
    agt_json_value_free(wanted);
    agt_json_value_free(found);
}

/* A list of the exception's classes, its own first. */
static void judge_raised(struct judgement *judgement, size_t number, const char *json, size_t size)
{
    const char *wanted = judgement->cases[number]->raises;
    cJSON *names = cJSON_ParseWithLength(json, size);
    const cJSON *name;

    judgement->fates[number] = FATE_RAISED;
    describe_raised(names, judgement->details[number], sizeof(judgement->details[number]));
    if (is_of_too_many_kinds(names)) {
        (void)snprintf(judgement->details[number], sizeof(judgement->details[number]),
                       "raised an exception of more than %d unrelated kinds", KINDS_MAX);
        wanted = "";
    }
    cJSON_ArrayForEach(name, names)
    {
        const char *text = cJSON_GetStringValue(name);

        if (text && wanted[0] && strcmp(text, wanted) == 0)
            judgement->fates[number] = FATE_HOLDS;
    }
    cJSON_Delete(names);
}

static void read_import_error(struct judgement *judgement, const char *json, size_t size)
{
    cJSON *names = cJSON_ParseWithLength(json, size);

    describe_raised(names, judgement->import_error, sizeof(judgement->import_error));
    cJSON_Delete(names);
}

/* The word at the beginning, when the line has it and a space behind it; moves behind both. */
static bool take_word(const char **line, size_t *size, const char *word)
{
    size_t length = strlen(word);

    if (*size <= length || memcmp(*line, word, length) != 0 || (*line)[length] != ' ')
        return false;
    *line += length + 1;
    *size -= length + 1;
    return true;
}

/* "NUMBER KIND JSON", once for each number and in order. */
static bool read_answer(struct judgement *judgement, const char *line, size_t size, size_t *next)
{
    char number[24];

    (void)snprintf(number, sizeof(number), "%zu", *next);
    if (*next >= judgement->count || judgement->import_error[0] || !take_word(&line, &size, number))
        return false;
    if (take_word(&line, &size, "value"))
        judge_value(judgement, *next, line, size);
    else if (take_word(&line, &size, "raised"))
        judge_raised(judgement, *next, line, size);
    else if (take_word(&line, &size, "unusable"))
        judgement->fates[*next] = FATE_UNUSABLE;
    else
        return false;
    (*next)++;
    return true;
}

/* False for a line that the driver does not write, or not there. */
static bool read_line(struct judgement *judgement, const char *line, size_t size, size_t *next)
{
    if (judgement->has_ended)
        return false;
    if (size == 3 && memcmp(line, "end", 3) == 0) {
        judgement->has_ended = true;
        return true;
    }
    if (*next == 0 && !judgement->import_error[0] && take_word(&line, &size, "import")) {
        read_import_error(judgement, line, size);
        return true;
    }
    return read_answer(judgement, line, size, next);
}

static void read_output(struct judgement *judgement, const char *mark, const char *output)
{
    size_t next = 0;

    while (*output) {
        size_t size = strcspn(output, "\n");
        const char *line = output;
        size_t left = size;

        if (output[size] == '\0')
            return; /* the end was cut off: no answer */
        output += size + 1;
        if (!take_word(&line, &left, mark) || !read_line(judgement, line, left, &next)) {
            judgement->is_tampered = true;
            return;
        }
    }
}

static void add_text(char *summary, size_t size, const char *text)
{
    size_t used = strlen(summary);

    (void)snprintf(summary + used, size - used, "%s", text);
}

/* "name (raised KeyError)" */
static void add_fate(const struct judgement *judgement, size_t number, char *summary, size_t size)
{
    const char *name = judgement->cases[number]->name;
    const char *detail = judgement->details[number];
    char text[256];
    char plain_name[24];

    (void)snprintf(plain_name, sizeof(plain_name), "case %zu", number + 1);
    if (!name[0])
        name = plain_name;
    switch (judgement->fates[number]) {
    case FATE_OTHER_VALUE:
        (void)snprintf(text, sizeof(text), "%.100s (another value)", name);
        break;
    case FATE_VALUE:
        (void)snprintf(text, sizeof(text), "%.100s (no exception)", name);
        break;
    case FATE_RAISED:
        (void)snprintf(text, sizeof(text), "%.100s (%s)", name, detail);
        break;
    case FATE_UNUSABLE:
        (void)snprintf(text, sizeof(text), "%.100s (a value that JSON has no form for)", name);
        break;
    default:
        (void)snprintf(text, sizeof(text), "%.100s (no answer)", name);
        break;
    }
    add_text(summary, size, text);
}

static void summarize(const struct judgement *judgement, size_t held, char *summary, size_t size)
{
    bool has_one = false;

    if (held == judgement->count) {
        (void)snprintf(summary, size, "%zu of %zu cases hold", held, held);
        return;
    }
    (void)snprintf(summary, size, "%zu of %zu cases do not hold: ", judgement->count - held,
                   judgement->count);
    if (judgement->import_error[0]) {
        add_text(summary, size, "solution.py could not be imported (");
        add_text(summary, size, judgement->import_error);
        add_text(summary, size, ")");
        return;
    }
    for (size_t i = 0; i < judgement->count; i++) {
        if (judgement->fates[i] == FATE_HOLDS)
            continue;
        add_text(summary, size, has_one ? "; " : "");
        add_fate(judgement, i, summary, size);
        has_one = true;
    }
    summary[cr_utf8_complete_prefix(summary, strlen(summary))] = '\0';
}

int agt_oracle_judge(Crisol__Agent__V1__OracleCase *const *cases, size_t count, const char *mark,
                     const char *output, bool is_whole, char *summary, size_t summary_size)
{
    struct judgement judgement = {.cases = cases, .count = count < CASES_MAX ? count : CASES_MAX};
    size_t held = 0;

    read_output(&judgement, mark, output);
    if (judgement.is_out_of_memory)
        return -ENOMEM;
    if (judgement.is_tampered) {
        (void)snprintf(summary, summary_size,
                       "something else than the driver wrote answers to the cases");
        return AGT_ORACLE_TAMPERED;
    }
    for (size_t i = 0; i < judgement.count; i++)
        held += judgement.fates[i] == FATE_HOLDS;
    summarize(&judgement, held, summary, summary_size);
    if (held == count && judgement.has_ended && is_whole)
        return AGT_ORACLE_SHOWN;
    if (held == count)
        (void)snprintf(summary, summary_size, "the run of the cases did not come to its end");
    return AGT_ORACLE_WRONG;
}
