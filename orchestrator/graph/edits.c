/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/edits.h"

#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/graph/files.h"
#include "orchestrator/graph/run.h"
#include "rpc/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDIT_FILE_MAX 262144U /* bytes */

static bool is_of_every_answer(const char *path)
{
    return strcmp(path, AGT_SOLUTION_NAME) == 0 || strcmp(path, AGT_TESTS_NAME) == 0;
}

__attribute__((format(printf, 4, 5))) static void
complain(struct rpc_status *status, size_t index, const char *member, const char *format, ...)
{
    char description[256];
    char field[32];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(description, sizeof(description), format, args);
    va_end(args);
    (void)snprintf(field, sizeof(field), "files[%zu].%s", index, member);
    rpc_status_add_violation(status, field, "%s", description);
}

/* One of the two, or a further one where the task has such. */
static bool check_path(const struct agt_edits *edits, size_t index,
                       const Crisol__Agent__V1__TaskTerms *terms, struct rpc_status *status)
{
    const char *path = edits->files[index].path;
    const char *fault = agt_files_path_fault(path, strlen(path));

    for (size_t i = 0; i < index; i++) {
        if (strcmp(edits->files[i].path, path) == 0) {
            complain(status, index, "path", "is that of files[%zu], too", i);
            return false;
        }
    }
    if (is_of_every_answer(path))
        return true;
    if (!agt_files_has_more(terms))
        complain(status, index, "path",
                 "must be '%s' or '%s': the task has no further files (output_files, "
                 "max_more_files)",
                 AGT_SOLUTION_NAME, AGT_TESTS_NAME);
    else if (fault)
        complain(status, index, "path", "%s", fault);
    return agt_files_has_more(terms) && !fault;
}

static bool check_text(const struct agt_edits *edits, size_t index, struct rpc_status *status)
{
    const char *text = edits->files[index].text;
    size_t size = strnlen(text, EDIT_FILE_MAX + 1);

    if (size > 0 && size <= EDIT_FILE_MAX && cr_utf8_is_valid(text, size))
        return true;
    complain(status, index, "text", "must be UTF-8 text of 1 to %u bytes", EDIT_FILE_MAX);
    return false;
}

/* Puts a further file where it would be put, on a copy. */
static void try_further(const struct agt_edits *edits, size_t index,
                        const Crisol__Agent__V1__TaskTerms *terms, struct agt_files *tried,
                        struct rpc_status *status)
{
    const char *path = edits->files[index].path;
    char complaint[256];
    char *copy;
    int r;

    if (!agt_files_find(tried, path) &&
        agt_files_admit(terms, tried, path, strlen(path), complaint, sizeof(complaint)) < 0) {
        complain(status, index, "path", "%s", complaint);
        return;
    }
    copy = strdup(edits->files[index].text);
    r = copy ? agt_files_put(tried, path, copy) : -ENOMEM;
    if (r == -ENOSPC && tried->more_count == AGT_MORE_FILES_MAX && !agt_files_find(tried, path))
        complain(status, index, "path", "would be more than %d further files", AGT_MORE_FILES_MAX);
    else if (r == -ENOSPC)
        complain(status, index, "text", "makes more than %u bytes of all further files",
                 AGT_MORE_BYTES_MAX);
    else if (r < 0)
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
}

static void check_files(const struct agt_edits *edits, const Crisol__Agent__V1__TaskTerms *terms,
                        const struct agt_files *files, struct rpc_status *status)
{
    struct agt_files tried = AGT_FILES_INIT;

    if (agt_files_copy_more(files, &tried) < 0)
        rpc_status_set(status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
    for (size_t i = 0; i < edits->file_count && status->code != RPC_RESOURCE_EXHAUSTED; i++) {
        bool is_good = check_path(edits, i, terms, status);

        is_good = check_text(edits, i, status) && is_good;
        if (is_good && !is_of_every_answer(edits->files[i].path))
            try_further(edits, i, terms, &tried, status);
    }
    agt_files_done(&tried);
}

void agt_edits_check(const struct agt_edits *edits, enum agt_node node,
                     const Crisol__Agent__V1__TaskTerms *terms, const struct agt_files *files,
                     struct rpc_status *status)
{
    size_t size = edits->plan ? strnlen(edits->plan, AGT_PLAN_MAX + 1) : 0;

    if (size > 0 && node != AGT_NODE_PLANNER)
        rpc_status_add_violation(status, "plan", "can be replaced behind the planner only");
    else if (size > AGT_PLAN_MAX || (size > 0 && !cr_utf8_is_valid(edits->plan, size)))
        rpc_status_add_violation(status, "plan", "must be UTF-8 text of at most %u bytes",
                                 AGT_PLAN_MAX);
    if (edits->file_count > 0 && node != AGT_NODE_GENERATOR)
        rpc_status_add_violation(status, "files", "can be replaced behind the generator only");
    else
        check_files(edits, terms, files, status);
}
