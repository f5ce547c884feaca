/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "clients/crisol/options.h"
#include "crisol/agent/v1/agent.pb-c.h"

/* The options of 'crisol run' that say what comes with a task. */

#define CLI_OUTPUT_FILES_MAX 14

struct cli_terms {
    Crisol__Agent__V1__TaskTerms *message; /* of --terms; NULL: none. Owned */
    Crisol__Agent__V1__AnswerForm answer_form;
    unsigned long long tool_calls;
    unsigned long long max_tokens;
    unsigned long long max_calls;
    unsigned long long wall_ms;
    unsigned long long cost_micro_usd;
    unsigned long long more_files;
    unsigned long long same_code;
    unsigned long long same_failure;
    const char *output_files[CLI_OUTPUT_FILES_MAX]; /* borrowed from argv */
    size_t output_file_count;
};

#define CLI_TERMS_HELP                                                                             \
    "  --terms FILE            what comes with the task, as JSON of "                              \
    "crisol.agent.v1.TaskTerms:\n"                                                                 \
    "                          input_files, acceptance_tests, cases, checks, prompts, language;\n" \
    "                          the options below win over it\n"                                    \
    "  --answer-form FORM      how the generator is asked to answer: fenced (default), json, "     \
    "call\n"                                                                                       \
    "  --tool-calls N          programs that the model may run for one answer, 0 to 10 (default "  \
    "0)\n"                                                                                         \
    "  --output-file PATH      a further file that the answer has to hold. Repeatable\n"           \
    "  --more-files N          further files of its own that the answer may hold (default 0)\n"    \
    "  --max-tokens N, --max-calls N, --max-wall-ms N, --max-cost-micro-usd N\n"                   \
    "                          what the run may spend; then it ends FAILED, BUDGET\n"              \
    "  --same-code N, --same-failure N\n"                                                          \
    "                          attempts that may be the same, or fail alike, before something\n"   \
    "                          is done about it, 2 to 100 (default as the service is set)\n"

#define CLI_TERMS_OPTIONS(terms)                                                                   \
    CLI_TAKEN("terms", (terms), cli_terms_take_file),                                              \
        CLI_TAKEN("answer-form", (terms), cli_terms_take_form),                                    \
        CLI_TAKEN("output-file", (terms), cli_terms_take_output),                                  \
        CLI_NUMBER("tool-calls", &(terms)->tool_calls, 0, 10),                                     \
        CLI_NUMBER("more-files", &(terms)->more_files, 0, CLI_OUTPUT_FILES_MAX),                   \
        CLI_NUMBER("same-code", &(terms)->same_code, 2, 100),                                      \
        CLI_NUMBER("same-failure", &(terms)->same_failure, 2, 100),                                \
        CLI_NUMBER("max-tokens", &(terms)->max_tokens, 1, UINT32_MAX),                             \
        CLI_NUMBER("max-calls", &(terms)->max_calls, 1, UINT32_MAX),                               \
        CLI_NUMBER("max-wall-ms", &(terms)->wall_ms, 1, UINT32_MAX),                               \
        CLI_NUMBER("max-cost-micro-usd", &(terms)->cost_micro_usd, 1, UINT32_MAX)

/* For the table above. Print what is wrong. */
int cli_terms_take_file(void *user, const char *path);
int cli_terms_take_form(void *user, const char *name);
int cli_terms_take_output(void *user, const char *path);

/*
 * The message of all of it, to be freed with cli_terms_done(); NULL when
 * nothing was said. Returns 0 or -ENOMEM, which is printed.
 */
int cli_terms_make(struct cli_terms *terms, Crisol__Agent__V1__TaskTerms **ret_message);
void cli_terms_done(struct cli_terms *terms);
