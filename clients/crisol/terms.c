/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/terms.h"

#include "clients/crisol/cli.h"
#include "common/buf.h"
#include "rpc/client.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TERMS_BYTES_MAX (4U << 20)

static int read_terms(const char *text, size_t size, struct cli_terms *terms,
                      struct rpc_status *status)
{
    ProtobufCMessage *message = NULL;
    int r = rpc_json_read(&crisol__agent__v1__task_terms__descriptor, text, size, &message, status);

    if (r < 0)
        return r;
    cli_terms_done(terms);
    terms->message = (Crisol__Agent__V1__TaskTerms *)message;
    return 0;
}

int cli_terms_take_file(void *user, const char *path)
{
    struct rpc_status status = RPC_STATUS_INIT;
    CR_AUTO_BUF struct cr_buf text = {0};

    cr_buf_init(&text, TERMS_BYTES_MAX);
    if (cli_read_file(path, &text) < 0)
        return -EINVAL;
    if (read_terms(cr_buf_str(&text), text.size, user, &status) < 0) {
        (void)cli_fail("--terms: %s: %s", path, status.message);
        return -EINVAL;
    }
    return 0;
}

int cli_terms_take_form(void *user, const char *name)
{
    const ProtobufCEnumDescriptor *forms = &crisol__agent__v1__answer_form__descriptor;
    struct cli_terms *terms = user;

    for (unsigned i = 1; i < forms->n_values; i++) { /* 0 is the unspecified one */
        if (strcasecmp(forms->values[i].name + strlen("ANSWER_FORM_"), name) == 0) {
            terms->answer_form = (Crisol__Agent__V1__AnswerForm)forms->values[i].value;
            return 0;
        }
    }
    (void)cli_fail("--answer-form: '%s' is no form: fenced, json or call", name);
    return -EINVAL;
}

int cli_terms_take_output(void *user, const char *path)
{
    struct cli_terms *terms = user;

    if (terms->output_file_count == CLI_OUTPUT_FILES_MAX) {
        (void)cli_fail("--output-file: at most %d files", CLI_OUTPUT_FILES_MAX);
        return -EINVAL;
    }
    terms->output_files[terms->output_file_count++] = path;
    return 0;
}

static bool has_budget(const struct cli_terms *terms)
{
    return terms->max_tokens || terms->max_calls || terms->wall_ms || terms->cost_micro_usd;
}

static bool has_stall(const struct cli_terms *terms)
{
    return terms->same_code || terms->same_failure;
}

static bool has_options(const struct cli_terms *terms)
{
    return has_budget(terms) || terms->answer_form || terms->tool_calls || terms->more_files ||
           terms->output_file_count > 0 || has_stall(terms);
}

static void set(uint32_t *field, unsigned long long value)
{
    if (value > 0)
        *field = (uint32_t)value;
}

static int set_budget(const struct cli_terms *terms)
{
    Crisol__Agent__V1__Budget *budget = terms->message->budget;

    if (!budget) {
        budget = malloc(sizeof(*budget));
        if (!budget)
            return -ENOMEM;
        crisol__agent__v1__budget__init(budget);
        terms->message->budget = budget;
    }
    set(&budget->max_tokens, terms->max_tokens);
    set(&budget->max_calls, terms->max_calls);
    set(&budget->wall_time_ms, terms->wall_ms);
    set(&budget->max_cost_micro_usd, terms->cost_micro_usd);
    return 0;
}

static int set_stall(const struct cli_terms *terms)
{
    Crisol__Agent__V1__StallRules *stall = terms->message->stall;

    if (!stall) {
        stall = malloc(sizeof(*stall));
        if (!stall)
            return -ENOMEM;
        crisol__agent__v1__stall_rules__init(stall);
        terms->message->stall = stall;
    }
    set(&stall->same_code, terms->same_code);
    set(&stall->same_failure, terms->same_failure);
    return 0;
}

/* In place of those of the file. */
static int set_outputs(const struct cli_terms *terms)
{
    Crisol__Agent__V1__TaskTerms *message = terms->message;
    char **paths = calloc(terms->output_file_count, sizeof(*paths));

    if (!paths)
        return -ENOMEM;
    for (size_t i = 0; i < message->n_output_files; i++)
        free(message->output_files[i]);
    free(message->output_files);
    message->output_files = paths;
    message->n_output_files = 0;
    for (size_t i = 0; i < terms->output_file_count; i++) {
        paths[i] = strdup(terms->output_files[i]);
        if (!paths[i])
            return -ENOMEM;
        message->n_output_files++;
    }
    return 0;
}

int cli_terms_make(struct cli_terms *terms, Crisol__Agent__V1__TaskTerms **ret_message)
{
    struct rpc_status status = RPC_STATUS_INIT;
    int r = 0;

    *ret_message = terms->message;
    if (!has_options(terms))
        return 0;
    if (!terms->message)
        r = read_terms("{}", 2, terms, &status);
    if (r == 0 && has_budget(terms))
        r = set_budget(terms);
    if (r == 0 && has_stall(terms))
        r = set_stall(terms);
    if (r == 0 && terms->output_file_count > 0)
        r = set_outputs(terms);
    if (r < 0) {
        (void)cli_fail("out of memory for the terms of the task");
        return r;
    }
    if (terms->answer_form)
        terms->message->answer_form = terms->answer_form;
    set(&terms->message->max_tool_calls, terms->tool_calls);
    set(&terms->message->max_more_files, terms->more_files);
    *ret_message = terms->message;
    return 0;
}

void cli_terms_done(struct cli_terms *terms)
{
    if (terms->message)
        rpc_message_free(&terms->message->base);
    terms->message = NULL;
}
