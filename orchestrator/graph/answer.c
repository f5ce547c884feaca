/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/answer.h"

#include "common/err.h"
#include "orchestrator/model/json_front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define FORM(name) CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_##name

static const size_t MAX_JSON = 2U << 20;

#define TWO_FILES                                                                                  \
    "{\"type\":\"object\",\"properties\":{\"test_solution_py\":{\"type\":\"string\"},"             \
    "\"solution_py\":{\"type\":\"string\"}"

const char *agt_answer_schema(const Crisol__Agent__V1__TaskTerms *terms)
{
    static const char two[] = TWO_FILES "},\"required\":[\"test_solution_py\",\"solution_py\"]}";
    static const char more[] =
        TWO_FILES ",\"files\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"
                  "{\"path\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}},"
                  "\"required\":[\"path\",\"text\"]}}},"
                  "\"required\":[\"test_solution_py\",\"solution_py\",\"files\"]}";

    return agt_files_has_more(terms) ? more : two;
}

Crisol__Agent__V1__AnswerForm agt_answer_form(Crisol__Agent__V1__AnswerForm asked,
                                              uint32_t format_failures)
{
    static const Crisol__Agent__V1__AnswerForm forms[][3] = {
        {FORM(FENCED), FORM(JSON), FORM(CALL)},
        {FORM(JSON), FORM(FENCED), FORM(CALL)},
        {FORM(CALL), FORM(FENCED), FORM(JSON)},
    };
    size_t row = asked == FORM(JSON) ? 1 : 0;

    if (asked == FORM(CALL))
        row = 2;
    return forms[row][format_failures < 3 ? format_failures : 2];
}

const char *agt_answer_rules(Crisol__Agent__V1__AnswerForm form)
{
    switch (form) {
    case FORM(JSON):
        return "\nFORM OF THE ANSWER\nThis time no fenced blocks: answer with one JSON object and "
               "nothing else. Its two members are texts, \"test_solution_py\" with the whole of "
               "test_solution.py and \"solution_py\" with the whole of solution.py. All other "
               "rules hold.\n";
    case FORM(CALL):
        return "\nFORM OF THE ANSWER\nThis time no fenced blocks: hand in both files, whole, by "
               "one call of " AGT_SUBMIT_NAME ". All other rules hold.\n";
    default:
        return NULL;
    }
}

static int complain(char *complaint, size_t size, const char *text, const char *name)
{
    (void)snprintf(complaint, size, "%s%s", text, name);
    return -EINVAL;
}

/* A line break that was escaped once too often, in a text without any real one. */
static bool is_escaped_twice(const char *text)
{
    return !strchr(text, '\n') && strstr(text, "\\n");
}

/* A copy whose last line has its end. NULL: out of memory. */
static char *dup_lines(const char *text, size_t size)
{
    char *copy = malloc(size + 2);

    if (!copy)
        return NULL;
    memcpy(copy, text, size + 1);
    if (size > 0 && text[size - 1] != '\n')
        memcpy(copy + size, "\n", 2);
    return copy;
}

/* One of the two files out of the object. */
static int read_file(const cJSON *object, const char *const names[2], char **ret_text,
                     char *complaint, size_t complaint_size)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, names[0]);
    const char *text;
    size_t size;

    if (!member)
        member = cJSON_GetObjectItemCaseSensitive(object, names[1]);
    text = cJSON_GetStringValue(member);
    if (!text)
        return complain(complaint, complaint_size, "The object has no text ", names[0]);
    size = strlen(text);
    if (strspn(text, " \t\r\n") == size)
        return complain(complaint, complaint_size, "There is nothing in ", names[0]);
    if (size > AGT_FILE_MAX)
        return complain(complaint, complaint_size, "More than 131072 bytes are in ", names[0]);
    if (is_escaped_twice(text))
        return complain(complaint, complaint_size,
                        "Line breaks are escaped twice (\\\\n in place of \\n) in ", names[0]);
    *ret_text = dup_lines(text, size);
    return *ret_text ? 0 : -ENOMEM;
}

/* What the reader of an object fills. */
struct reading {
    const Crisol__Agent__V1__TaskTerms *terms; /* NULL: none */
    struct agt_files *files;
    char *complaint;
    size_t complaint_size;
};

/* One of the further files: {"path": …, "text": …}. */
static int read_more_file(const struct reading *reading, const cJSON *item)
{
    const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "path"));
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "text"));
    char *copy;
    int r;

    if (!path || !text)
        return complain(reading->complaint, reading->complaint_size,
                        "Each of the files has two texts, path and text", "");
    r = agt_files_admit(reading->terms, reading->files, path, strlen(path), reading->complaint,
                        reading->complaint_size);
    if (r < 0)
        return r;
    if (strlen(text) > AGT_FILE_MAX)
        return complain(reading->complaint, reading->complaint_size,
                        "More than 131072 bytes are in ", path);
    if (agt_files_is_python(path) && is_escaped_twice(text))
        return complain(reading->complaint, reading->complaint_size,
                        "Line breaks are escaped twice (\\\\n in place of \\n) in ", path);
    copy = dup_lines(text, strlen(text));
    r = copy ? agt_files_put(reading->files, path, copy) : -ENOMEM;
    if (r == -ENOSPC)
        return complain(reading->complaint, reading->complaint_size,
                        "The further files have too many bytes together, up to ", path);
    return r;
}

static int read_more(const struct reading *reading, const cJSON *root)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "files");
    const cJSON *item = NULL;
    int r = 0;

    if (!agt_files_has_more(reading->terms))
        return 0; /* what else the object has is nothing that was asked for */
    cJSON_ArrayForEach(item, list)
    {
        r = read_more_file(reading, item);
        if (r < 0)
            return r;
    }
    return agt_files_check(reading->terms, reading->files, reading->complaint,
                           reading->complaint_size);
}

static int read_object(const char *json, size_t size, const struct reading *reading)
{
    static const char *const solution[] = {"solution_py", AGT_SOLUTION_NAME};
    static const char *const tests[] = {"test_solution_py", AGT_TESTS_NAME};
    const struct agt_json_options options = {.max_size = MAX_JSON};
    struct cr_err err = CR_ERR_INIT;
    cJSON *root = NULL;
    int r = agt_json_parse(json, size, &options, &root, NULL, &err);

    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return complain(reading->complaint, reading->complaint_size,
                        "The JSON object cannot be read: ", err.text);
    r = read_file(root, solution, &reading->files->solution, reading->complaint,
                  reading->complaint_size);
    if (r == 0)
        r = read_file(root, tests, &reading->files->tests, reading->complaint,
                      reading->complaint_size);
    if (r == 0)
        r = read_more(reading, root);
    cJSON_Delete(root);
    return r;
}

/* Where a fenced block or an object begins a line; NULL: nowhere. */
static const char *find_content(const char *text)
{
    while (text) {
        if (strncmp(text, "```", 3) == 0 || strncmp(text, "~~~", 3) == 0 || *text == '{')
            return text;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return NULL;
}

/* Behind what a model thinks, which some servers leave in its answer; NULL: there is no such. */
static const char *find_end_of_thoughts(const char *text)
{
    static const char begin[] = "<think>";
    static const char end[] = "</think>";
    static const char label[] = "THOUGHT:"; /* Gemini 2.5 now and then, without its flag */
    const char *found;

    text += strspn(text, " \t\r\n");
    if (strncmp(text, label, sizeof(label) - 1) == 0)
        return find_content(text);
    if (strncmp(text, begin, sizeof(begin) - 1) != 0)
        return NULL;
    found = strstr(text, end);
    return found ? found + sizeof(end) - 1 : NULL;
}

bool agt_answer_has_thoughts(const struct agt_answer *answer)
{
    return find_end_of_thoughts(answer->text) != NULL;
}

static void skip_thoughts(const char **text, size_t *size)
{
    const char *end = find_end_of_thoughts(*text);

    if (!end)
        return;
    *size -= (size_t)(end - *text);
    *text = end;
}

/* The one block of an answer that is only that: ```json … ```. */
static void skip_json_fence(const char **text, size_t *size)
{
    static const char begin[] = "```json\n";
    static const char end[] = "\n```";
    const size_t head = sizeof(begin) - 1;
    const char *fence;
    size_t left = *size;

    if (strncmp(*text, begin, head) != 0)
        return;
    while (left > head && strchr(" \t\r\n", (*text)[left - 1]))
        left--;
    /* Line breaks in JSON are escaped: where a second block follows, the first one is prose. */
    fence = memmem(*text + head, left - head, end, sizeof(end) - 1);
    if (!fence || fence + sizeof(end) - 1 != *text + left)
        return;
    *text += head;
    *size = (size_t)(fence - *text);
}

static int read_text(const char *text, size_t size, const struct reading *reading)
{
    const char *inner;
    size_t inner_size;
    size_t blank;

    skip_thoughts(&text, &size);
    blank = strspn(text, " \t\r\n");
    inner = text + blank;
    inner_size = size - blank;
    skip_json_fence(&inner, &inner_size);
    if (inner_size > 0 && *inner == '{')
        return read_object(inner, inner_size, reading);
    return agt_fenced_read(text, size, reading->terms, reading->files, reading->complaint,
                           reading->complaint_size);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): written through `reading` */
int agt_answer_read(const struct agt_answer *answer, struct agt_files *ret_files, char *complaint,
                    size_t complaint_size)
{
    const char *name = answer->call_name ? answer->call_name : "";
    struct agt_files files = AGT_FILES_INIT;
    const struct reading reading = {.terms = answer->terms,
                                    .files = &files,
                                    .complaint = complaint,
                                    .complaint_size = complaint_size};
    int r;

    if (strcmp(name, AGT_SUBMIT_NAME) == 0)
        r = read_object(answer->call_arguments, strlen(answer->call_arguments), &reading);
    else if (name[0] && answer->size == 0)
        r = complain(complaint, complaint_size,
                     "No function can be called in place of an answer; you called ", name);
    else
        r = read_text(answer->text, answer->size, &reading);
    if (r < 0)
        agt_files_done(&files);
    else
        *ret_files = files;
    return r;
}
