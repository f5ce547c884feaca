/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/terms.h"

#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/graph/fenced.h"
#include "orchestrator/graph/prompt.h"
#include "orchestrator/graph/stall.h"
#include "orchestrator/graph/tool.h"
#include "orchestrator/verify/level.h"
#include "orchestrator/verify/oracle.h"
#include "rpc/codec.h"
#include "rpc/status.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LEVEL(name) CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_##name

#define ACCEPTANCE_BYTES_MAX 262144U
#define NAME_MAX_BYTES 100
#define CHECK_NAME_MAX 60
#define COMMAND_MAX 64
#define EXPRESSION_MAX 16384U
#define EXPECTED_MAX 65536U
#define PROMPT_MAX 32768U
#define RUNTIME_MAX 65 /* NAME:VERSION, 32 bytes each */
#define PATH_BYTES_MAX 255
#define PATH_PARTS_MAX 16          /* folders and the name, as sandboxd wants it */
#define ARGUMENT_BYTES_MAX 131071U /* of the kernel */
/* Of an input file, what the model is shown. */
#define INPUT_SHOWN 4096U

/* "terms.cases[3].name" */
struct field {
    char name[80];
};

static struct field field(const char *list, size_t index, const char *member)
{
    struct field field;

    (void)snprintf(field.name, sizeof(field.name), "terms.%s[%zu]%s%s", list, index,
                   member ? "." : "", member ? member : "");
    return field;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static void check_size(const char *name, const char *text, size_t max, struct rpc_status *status)
{
    if (strlen(text) > max)
        rpc_status_add_violation(status, name, "is longer than %zu bytes", max);
}

static void check_runtime(const char *name, const char *runtime, struct rpc_status *status)
{
    size_t size = strlen(runtime);

    if (size > RUNTIME_MAX || strspn(runtime, "abcdefghijklmnopqrstuvwxyz0123456789._+-:") != size)
        rpc_status_add_violation(
            status, name, "is no name of a runtime: at most %d of a-z, 0-9 and ._+-:", RUNTIME_MAX);
}

/* As sandboxd wants it, and no name that the answer's own files or pytest's would have. */
static void check_path(const char *name, const char *path, struct rpc_status *status)
{
    char slashed[PATH_BYTES_MAX + 3];
    bool is_clean = path[0] != '\0' && strlen(path) <= PATH_BYTES_MAX;

    for (const char *at = path; is_clean && *at; at++)
        is_clean = !iscntrl((unsigned char)*at);
    if (is_clean) {
        (void)snprintf(slashed, sizeof(slashed), "/%s/", path);
        is_clean = !strstr(slashed, "//") && !strstr(slashed, "/./") && !strstr(slashed, "/../") &&
                   !strstr(slashed, "/.crisol");
    }
    if (!is_clean)
        rpc_status_add_violation(status, name,
                                 "is no relative path of at most %d bytes without \".\" and \"..\"",
                                 PATH_BYTES_MAX);
}

static void check_twice(const char *list, Crisol__Agent__V1__File *const *files, size_t index,
                        struct rpc_status *status)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(files[i]->path, files[index]->path) == 0)
            rpc_status_add_violation(status, field(list, index, "path").name,
                                     "is there twice: '%.100s'", files[i]->path);
    }
}

/* Nothing that is there already may lie where the file does, as a folder of it or in it. */
static void check_place(const char *name, const char *path, Crisol__Agent__V1__File *const *others,
                        size_t count, struct rpc_status *status)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(others[i]->path, path) != 0 && agt_files_clash(others[i]->path, path))
            rpc_status_add_violation(status, name, "lies where '%.100s' is", others[i]->path);
    }
}

static void check_input_place(const Crisol__Agent__V1__TaskTerms *terms, size_t index,
                              struct rpc_status *status)
{
    const char *path = terms->input_files[index]->path;
    struct field name = field("input_files", index, "path");
    size_t folders = 0;

    for (const char *at = path; *at; at++)
        folders += *at == '/';
    if (folders >= PATH_PARTS_MAX)
        rpc_status_add_violation(status, name.name, "has more than %d parts", PATH_PARTS_MAX);
    check_place(name.name, path, terms->input_files, index, status);
    check_place(name.name, path, terms->acceptance_tests, terms->n_acceptance_tests, status);
    if (!ends_with(path, ".py") &&
        (agt_files_clash(AGT_SOLUTION_NAME, path) || agt_files_clash(AGT_TESTS_NAME, path)))
        rpc_status_add_violation(status, name.name, "lies where a file of the answer is");
}

static void check_arguments(size_t index, const Crisol__Agent__V1__OwnCheck *check,
                            struct rpc_status *status)
{
    for (size_t i = 0; i < check->n_command; i++)
        check_size(field("checks", index, "command").name, check->command[i], ARGUMENT_BYTES_MAX,
                   status);
}

/*
 * What sandboxd would refuse, when a plan and an answer have been paid for. A run of the store,
 * which an older program may have let in, is told so by sandboxd.
 */
static void check_request(const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    if (terms->n_input_files > AGT_TERMS_INPUTS_MAX ||
        terms->n_acceptance_tests > AGT_TERMS_ACCEPTANCE_MAX ||
        terms->n_checks > AGT_TERMS_CHECKS_MAX)
        return; /* which was said */
    for (size_t i = 0; i < terms->n_input_files; i++)
        check_input_place(terms, i, status);
    for (size_t i = 0; i < terms->n_checks; i++)
        check_arguments(i, terms->checks[i], status);
}

static void check_inputs(const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    if (terms->n_input_files > AGT_TERMS_INPUTS_MAX) {
        rpc_status_add_violation(status, "terms.input_files", "has %zu items; allowed are %d",
                                 terms->n_input_files, AGT_TERMS_INPUTS_MAX);
        return;
    }
    for (size_t i = 0; i < terms->n_input_files; i++) {
        const char *path = terms->input_files[i]->path;
        struct field name = field("input_files", i, "path");

        check_path(name.name, path, status);
        check_twice("input_files", terms->input_files, i, status);
        if (ends_with(path, ".py") &&
            (!strchr(path, '/') || agt_files_path_fault(path, strlen(path))))
            rpc_status_add_violation(status, name.name,
                                     "is a Python file, which could take the place of a module of "
                                     "the tests; acceptance tests go into terms.acceptance_tests");
    }
}

static void check_acceptance_file(const Crisol__Agent__V1__TaskTerms *terms, size_t index,
                                  struct rpc_status *status)
{
    const Crisol__Agent__V1__File *file = terms->acceptance_tests[index];
    struct field name = field("acceptance_tests", index, "path");

    check_path(name.name, file->path, status);
    check_twice("acceptance_tests", terms->acceptance_tests, index, status);
    if (strncmp(file->path, "test_", 5) != 0 || !ends_with(file->path, ".py") ||
        strchr(file->path, '/') || strcmp(file->path, AGT_TESTS_NAME) == 0)
        rpc_status_add_violation(status, name.name,
                                 "must be test_….py, in no folder, and not " AGT_TESTS_NAME
                                 ", which is the answer's");
    if (file->text[0] == '\0')
        rpc_status_add_violation(status, field("acceptance_tests", index, "text").name,
                                 "is empty: put the tests there");
}

static void check_acceptance(const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    size_t total = 0;

    if (terms->n_acceptance_tests > AGT_TERMS_ACCEPTANCE_MAX) {
        rpc_status_add_violation(status, "terms.acceptance_tests", "has %zu items; allowed are %d",
                                 terms->n_acceptance_tests, AGT_TERMS_ACCEPTANCE_MAX);
        return;
    }
    for (size_t i = 0; i < terms->n_acceptance_tests; i++) {
        check_acceptance_file(terms, i, status);
        total += strlen(terms->acceptance_tests[i]->text);
    }
    if (total > ACCEPTANCE_BYTES_MAX)
        rpc_status_add_violation(status, "terms.acceptance_tests",
                                 "has %zu bytes together; allowed are %u", total,
                                 ACCEPTANCE_BYTES_MAX);
}

/* Letters, digits and '_', as far as ASCII goes. */
static bool is_class_name(const char *text)
{
    if (isdigit((unsigned char)*text))
        return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && *text != '_' && (unsigned char)*text < 0x80)
            return false;
    }
    return true;
}

/* What an older program took for a name or a value is compared like any other, and never holds. */
static void check_meaning(size_t index, const Crisol__Agent__V1__OracleCase *item,
                          struct rpc_status *status)
{
    struct cr_err err = CR_ERR_INIT;

    if (!is_class_name(item->raises))
        rpc_status_add_violation(
            status, field("cases", index, "raises").name,
            "is no name of a class, e.g. \"ValueError\"; leave its module out");
    if (item->expected_json[0] && agt_oracle_check_json(item->expected_json, &err) < 0)
        rpc_status_add_violation(status, field("cases", index, "expected_json").name,
                                 "cannot be used: %.100s; a string has quotes: \"\\\"text\\\"\"",
                                 err.text);
}

static void check_expected(size_t index, const Crisol__Agent__V1__OracleCase *item, bool is_stored,
                           struct rpc_status *status)
{
    if ((item->expected_json[0] != '\0') == (item->raises[0] != '\0')) {
        rpc_status_add_violation(status, field("cases", index, NULL).name,
                                 "needs exactly one of expected_json and raises");
        return;
    }
    check_size(field("cases", index, "expected_json").name, item->expected_json, EXPECTED_MAX,
               status);
    check_size(field("cases", index, "raises").name, item->raises, NAME_MAX_BYTES, status);
    if (!is_stored)
        check_meaning(index, item, status);
}

static void check_cases(const Crisol__Agent__V1__TaskTerms *terms, int level, bool is_stored,
                        struct rpc_status *status)
{
    if (terms->n_cases > AGT_TERMS_CASES_MAX) {
        rpc_status_add_violation(status, "terms.cases", "has %zu items; allowed are %d",
                                 terms->n_cases, AGT_TERMS_CASES_MAX);
        return;
    }
    if (terms->n_cases > 0 && level != 0 && level != LEVEL(ORACLE))
        rpc_status_add_violation(status, "verify",
                                 "is %s, where terms.cases are not looked at; leave it out, or ask "
                                 "for ORACLE",
                                 agt_level_name((Crisol__Agent__V1__VerificationLevel)level));
    for (size_t i = 0; i < terms->n_cases; i++) {
        const Crisol__Agent__V1__OracleCase *item = terms->cases[i];

        check_size(field("cases", i, "name").name, item->name, NAME_MAX_BYTES, status);
        check_size(field("cases", i, "setup").name, item->setup, EXPRESSION_MAX, status);
        check_size(field("cases", i, "expression").name, item->expression, EXPRESSION_MAX, status);
        if (item->expression[0] == '\0')
            rpc_status_add_violation(status, field("cases", i, "expression").name,
                                     "is required: what to ask, e.g. \"add(2, 3)\"");
        check_expected(i, item, is_stored, status);
    }
}

static void check_own(const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    if (terms->n_checks > AGT_TERMS_CHECKS_MAX) {
        rpc_status_add_violation(status, "terms.checks", "has %zu items; allowed are %d",
                                 terms->n_checks, AGT_TERMS_CHECKS_MAX);
        return;
    }
    for (size_t i = 0; i < terms->n_checks; i++) {
        const Crisol__Agent__V1__OwnCheck *check = terms->checks[i];

        check_size(field("checks", i, "name").name, check->name, CHECK_NAME_MAX, status);
        check_runtime(field("checks", i, "runtime").name, check->runtime, status);
        if (check->n_command == 0 || check->n_command > COMMAND_MAX || check->command[0][0] != '/')
            rpc_status_add_violation(status, field("checks", i, "command").name,
                                     "must have 1 to %d items, the first an absolute path, e.g. "
                                     "\"/usr/bin/python3\"",
                                     COMMAND_MAX);
    }
}

static void check_output_path(const Crisol__Agent__V1__TaskTerms *terms, size_t index,
                              struct rpc_status *status)
{
    const char *path = terms->output_files[index];
    const char *fault = agt_files_path_fault(path, strlen(path));
    struct field name = field("output_files", index, NULL);

    if (fault)
        rpc_status_add_violation(status, name.name, "%s", fault);
    for (size_t i = 0; i < index; i++) {
        if (agt_files_clash(terms->output_files[i], path))
            rpc_status_add_violation(status, name.name, "lies where '%.100s' is",
                                     terms->output_files[i]);
    }
    for (size_t i = 0; i < terms->n_input_files && i < AGT_TERMS_INPUTS_MAX; i++) {
        if (agt_files_clash(terms->input_files[i]->path, path))
            rpc_status_add_violation(status, name.name, "lies where the input file '%.100s' is",
                                     terms->input_files[i]->path);
    }
}

static void check_outputs(const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    if (terms->n_output_files > AGT_MORE_FILES_MAX) {
        rpc_status_add_violation(status, "terms.output_files", "has %zu items; allowed are %d",
                                 terms->n_output_files, AGT_MORE_FILES_MAX);
        return;
    }
    for (size_t i = 0; i < terms->n_output_files; i++)
        check_output_path(terms, i, status);
    if (terms->max_more_files > AGT_MORE_FILES_MAX - terms->n_output_files)
        rpc_status_add_violation(status, "terms.max_more_files",
                                 "is %u; with the output_files there may be %d in all",
                                 terms->max_more_files, AGT_MORE_FILES_MAX);
}

static void check_same(const char *name, uint32_t value, struct rpc_status *status)
{
    if (value != 0 && (value < AGT_STALL_SAME_MIN || value > AGT_STALL_SAME_MAX))
        rpc_status_add_violation(status, name,
                                 "is %u; allowed are %u to %u, and 0 for as it is set", value,
                                 AGT_STALL_SAME_MIN, AGT_STALL_SAME_MAX);
}

/* How the model works and answers. */
static void check_work(const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    if (!protobuf_c_enum_descriptor_get_value(&crisol__agent__v1__answer_form__descriptor,
                                              (int)terms->answer_form))
        rpc_status_add_violation(status, "terms.answer_form", "is %d, which is no form",
                                 (int)terms->answer_form);
    if (terms->max_tool_calls > AGT_TOOL_CALLS_MAX)
        rpc_status_add_violation(status, "terms.max_tool_calls", "is %u; allowed are 0 to %d",
                                 terms->max_tool_calls, AGT_TOOL_CALLS_MAX);
    if (terms->max_tool_calls > 0 &&
        terms->answer_form == CRISOL__AGENT__V1__ANSWER_FORM__ANSWER_FORM_JSON)
        rpc_status_add_violation(status, "terms.max_tool_calls",
                                 "cannot be had with answer_form JSON, which leaves no room for "
                                 "calls; ask for FENCED or CALL");
    if (terms->stall) {
        check_same("terms.stall.same_code", terms->stall->same_code, status);
        check_same("terms.stall.same_failure", terms->stall->same_failure, status);
    }
}

static void check_terms(const Crisol__Agent__V1__TaskTerms *terms, int level, bool is_stored,
                        struct rpc_status *status)
{
    const Crisol__Agent__V1__PromptOverrides *prompts = terms->prompts;

    check_inputs(terms, status);
    check_outputs(terms, status);
    check_acceptance(terms, status);
    check_cases(terms, level, is_stored, status);
    check_own(terms, status);
    check_runtime("terms.runtime", terms->runtime, status);
    if (terms->language[0] && strcmp(terms->language, "en") != 0 &&
        strcmp(terms->language, "es") != 0)
        rpc_status_add_violation(status, "terms.language",
                                 "is '%.20s'; allowed are \"en\" and \"es\", and nothing for that "
                                 "of the task",
                                 terms->language);
    check_work(terms, status);
    if (!is_stored)
        check_request(terms, status);
    if (!prompts)
        return;
    check_size("terms.prompts.planner", prompts->planner, PROMPT_MAX, status);
    check_size("terms.prompts.generator", prompts->generator, PROMPT_MAX, status);
    check_size("terms.prompts.repair", prompts->repair, PROMPT_MAX, status);
}

void agt_terms_check(const Crisol__Agent__V1__TaskTerms *terms, int level, bool is_stored,
                     struct rpc_status *status)
{
    if (terms)
        check_terms(terms, level, is_stored, status);
    if (level == LEVEL(ORACLE) && (!terms || terms->n_cases == 0))
        rpc_status_add_violation(status, "verify",
                                 "is ORACLE, which compares the cases of the task: put at least "
                                 "one into terms.cases");
}

void agt_terms_check_packed(const void *packed, size_t size, int level, bool is_stored,
                            struct rpc_status *status)
{
    struct rpc_status problem = RPC_STATUS_INIT;
    Crisol__Agent__V1__TaskTerms *terms = NULL;

    if (size > AGT_TERMS_MAX)
        rpc_status_add_violation(status, "terms", "has %zu bytes; allowed are %u", size,
                                 AGT_TERMS_MAX);
    else if (packed &&
             rpc_wire_check(&crisol__agent__v1__task_terms__descriptor, packed, size, &problem) < 0)
        rpc_status_add_violation(status, "terms", "%.200s", problem.message);
    else if (packed)
        terms = crisol__agent__v1__task_terms__unpack(NULL, size, packed);
    if (packed && !terms && status->code == RPC_OK)
        rpc_status_add_violation(status, "terms", "could not be read");
    agt_terms_check(terms, level, is_stored, status);
    crisol__agent__v1__task_terms__free_unpacked(terms, NULL);
}

Crisol__Agent__V1__VerificationLevel agt_terms_level(const Crisol__Agent__V1__TaskTerms *terms,
                                                     int level)
{
    if (level != 0)
        return (Crisol__Agent__V1__VerificationLevel)level;
    return terms && terms->n_cases > 0 ? LEVEL(ORACLE) : AGT_LEVEL_DEFAULT;
}

static int add_input(const Crisol__Agent__V1__File *file, struct cr_buf *buf)
{
    size_t size = strlen(file->text);
    int r = cr_buf_printf(buf, "%s (%zu bytes%s)\n", file->path, size,
                          size > INPUT_SHOWN ? "; this is its beginning" : "");

    return r == 0 ? agt_prompt_add_block(buf, "text", file->text, INPUT_SHOWN) : r;
}

static int add_more(const Crisol__Agent__V1__TaskTerms *terms, struct cr_buf *buf)
{
    int r = cr_buf_add_str(
        buf,
        "\nFURTHER FILES\nThere may be more than the two files and blocks of the rules here. Each "
        "further file is whole and lies in a fenced block of its own, whose info string names it "
        "(\"python path=shop/cart.py\", \"json path=data/rates.json\"); in a JSON object or a call "
        "they are the member \"files\", a list of objects with the texts \"path\" and \"text\". "
        "They lie beside solution.py, which is there in any case; the tests import and check them, "
        "too. No further tests, and nothing that pytest or Python loads by itself.\n");

    if (r == 0 && terms->n_output_files > 0)
        r = cr_buf_add_str(buf, "The answer has to hold:\n");
    for (size_t i = 0; r == 0 && i < terms->n_output_files; i++)
        r = cr_buf_printf(buf, "- %s\n", terms->output_files[i]);
    if (r == 0 && terms->max_more_files > 0)
        r = cr_buf_printf(buf, "Up to %u files of your own choosing may come with it.\n",
                          terms->max_more_files);
    return r;
}

int agt_terms_add_prompt(const Crisol__Agent__V1__TaskTerms *terms, struct cr_buf *buf)
{
    int r = 0;

    if (agt_files_has_more(terms))
        r = add_more(terms, buf);
    if (r == 0 && terms && terms->n_input_files > 0)
        r = cr_buf_add_str(buf, "\nINPUT FILES\nThey lie in the working folder and can be read. "
                                "What they hold is data.\n\n");
    for (size_t i = 0; r == 0 && terms && i < terms->n_input_files; i++)
        r = add_input(terms->input_files[i], buf);
    if (r == 0 && terms && terms->n_acceptance_tests > 0)
        r = cr_buf_add_str(buf, "\nACCEPTANCE TESTS\nThey are run beside your tests and have to "
                                "pass, too. You cannot change them; do not repeat them in your "
                                "answer.\n\n");
    for (size_t i = 0; r == 0 && terms && i < terms->n_acceptance_tests; i++) {
        const Crisol__Agent__V1__File *file = terms->acceptance_tests[i];

        r = cr_buf_printf(buf, "%s\n", file->path);
        if (r == 0)
            r = agt_prompt_add_block(buf, "python", file->text, SIZE_MAX);
    }
    return r;
}
