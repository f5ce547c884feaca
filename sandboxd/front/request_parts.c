/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/request_parts.h"

#include "rpc/status.h"
#include "sandboxd/front/env.h"
#include "sandboxd/front/paths.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/glob.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_set(const char *text)
{
    return text && *text;
}

/* ---- argv and environment ---- */

/* Adds the bytes that the kernel counts for one string of argv or the environment. */
static void check_string(struct sbx_checker *check, const char *field, size_t bytes, size_t *total)
{
    *total += bytes + 1;
    if (bytes + 1 > SBX_ARG_BYTES_MAX)
        rpc_status_add_violation(check->status, field, "%zu bytes are more than the maximum of %u",
                                 bytes, SBX_ARG_BYTES_MAX - 1);
}

static void check_strings(struct sbx_checker *check, const char *name, char *const *items,
                          size_t count, size_t *total)
{
    char field[32];

    if (count > SBX_ARGS_MAX) {
        rpc_status_add_violation(check->status, name, "%zu items are more than the maximum of %u",
                                 count, SBX_ARGS_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(field, sizeof(field), "%s[%zu]", name, i);
        check_string(check, field, strlen(items[i]), total);
    }
}

static void check_argv(struct sbx_checker *check, size_t *total)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;

    check_strings(check, "args", message->args, message->n_args, total);
    check_strings(check, "command", message->command, message->n_command, total);
    if (message->n_command == 0)
        return;
    if (message->command[0][0] != '/')
        rpc_status_add_violation(check->status, "command[0]",
                                 "must be an absolute path, e.g. /usr/bin/env");
    if (message->n_args > 0)
        rpc_status_add_violation(check->status, "args",
                                 "belongs to the runtime's own argv; with command, put the "
                                 "arguments there");
}

static void check_env(struct sbx_checker *check, size_t *total)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;
    char field[96];

    if (message->n_env > SBX_ENV_MAX) {
        rpc_status_add_violation(check->status, "env",
                                 "%zu variables are more than the maximum of %u", message->n_env,
                                 SBX_ENV_MAX);
        return;
    }
    for (size_t i = 0; i < message->n_env; i++) {
        const char *name = message->env[i]->key;
        const char *refusal = sbx_env_refusal(name);

        (void)snprintf(field, sizeof(field), "env[\"%.64s\"]", name);
        if (!sbx_env_name_is_valid(name))
            rpc_status_add_violation(check->status, field,
                                     "is not a name: use [A-Za-z_][A-Za-z0-9_]*");
        else if (refusal)
            rpc_status_add_violation(check->status, field, "%s", refusal);
        check_string(check, field, strlen(name) + 1 + strlen(message->env[i]->value), total);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(message->env[j]->key, name) == 0)
                rpc_status_add_violation(check->status, field, "is given twice");
        }
    }
}

/* ---- files ---- */

/* True when the compile stage of the runtime leaves files of that path. */
static bool is_compile_output(const struct sbx_runtime *runtime, const char *path)
{
    for (size_t i = 0; runtime->compile_output[i]; i++) {
        if (sbx_glob_matches(runtime->compile_output[i], strlen(runtime->compile_output[i]), path,
                             strlen(path)))
            return true;
    }
    return false;
}

static void check_one_content(struct sbx_checker *check, size_t index)
{
    const Crisol__Sandbox__V1__InputFile *file = check->message->files[index];
    const bool is_stored = is_set(file->artifact);
    char field[40];

    if (is_stored + is_set(file->text) + (file->data.len > 0) > 1) {
        (void)snprintf(field, sizeof(field), "files[%zu].%s", index,
                       is_stored ? "artifact" : "data");
        rpc_status_add_violation(check->status, field, "set text or data, not both%s",
                                 is_stored ? ", or artifact alone" : "");
    } else if (is_stored && !sbx_file_content(check->rules->contents, file).data &&
               check->status->code == RPC_OK) {
        rpc_status_set(check->status, RPC_NOT_FOUND,
                       "files[%zu].artifact: '%.64s' is not stored here, or no longer: store it "
                       "with WriteArtifact",
                       index, file->artifact);
        (void)snprintf(check->status->reason, sizeof(check->status->reason), "NO_ARTIFACT");
    }
}

/* Returns true when the path can be one. */
static bool check_one_path(struct sbx_checker *check, size_t index)
{
    const Crisol__Sandbox__V1__InputFile *file = check->message->files[index];
    const char *problem = sbx_path_problem(file->path);
    char field[32];

    (void)snprintf(field, sizeof(field), "files[%zu].path", index);
    if (problem)
        rpc_status_add_violation(check->status, field, "%s", problem);
    else if (is_set(check->message->code) && check->runtime->entry_file &&
             sbx_paths_clash(file->path, check->runtime->entry_file))
        rpc_status_add_violation(check->status, field, "clashes with '%s', where code is written",
                                 check->runtime->entry_file);
    else if (check->request->phase == SBX_PHASE_RUN &&
             is_compile_output(check->runtime, file->path))
        rpc_status_add_violation(check->status, field, "is where the compile stage writes to");
    return !problem;
}

static void check_one_file(struct sbx_checker *check, size_t index, uint64_t *total)
{
    const Crisol__Sandbox__V1__InputFile *file = check->message->files[index];
    char field[32];

    check_one_content(check, index);
    if (file->mode & ~UINT32_C(0777)) {
        (void)snprintf(field, sizeof(field), "files[%zu].mode", index);
        rpc_status_add_violation(check->status, field,
                                 "0%" PRIo32 " has bits outside 0777; set-id bits are refused",
                                 file->mode);
    }
    *total += sbx_file_content(check->rules->contents, file).len;
}

static void check_files(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;
    uint64_t room = check->request->limits.value[SBX_LIMIT_WORKSPACE_BYTES];
    uint64_t inodes = check->request->limits.value[SBX_LIMIT_WORKSPACE_INODES];
    uint64_t total = strlen(message->code);
    const char *paths[SBX_FILES_MAX];

    if (message->n_files > SBX_FILES_MAX) {
        rpc_status_add_violation(check->status, "files",
                                 "%zu files are more than the maximum of %u", message->n_files,
                                 SBX_FILES_MAX);
        return;
    }
    for (size_t i = 0; i < message->n_files; i++) {
        /* One that is refused may be as long as a message: nobody compares that any more. */
        paths[i] = check_one_path(check, i) ? message->files[i]->path : "";
        check_one_file(check, i, &total);
    }
    sbx_paths_check_clashes(paths, message->n_files, check->status);
    if (total > room)
        rpc_status_add_violation(check->status, "files",
                                 "%" PRIu64 " bytes do not fit limits.workspace_bytes of %" PRIu64,
                                 total, room);
    if (sbx_paths_inodes(paths, message->n_files) >= inodes)
        rpc_status_add_violation(check->status, "files",
                                 "%zu files and their folders do not fit limits.workspace_inodes "
                                 "of %" PRIu64,
                                 message->n_files, inodes);
}

static void check_stdin(struct sbx_checker *check)
{
    if (is_set(check->message->stdin_text) && check->message->stdin_data.len > 0)
        rpc_status_add_violation(check->status, "stdin_data",
                                 "set stdin_text or stdin_data, not both");
}

static void check_output(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__OutputOptions *output = check->message->output;
    Crisol__Sandbox__V1__OverflowPolicy policy =
        output ? output->on_overflow
               : CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_UNSPECIFIED;

    if (policy == CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_UNSPECIFIED)
        policy = CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_KILL;
    if ((int)policy < CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_KILL ||
        policy > CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_HEAD_TAIL)
        rpc_status_add_violation(check->status, "output.on_overflow",
                                 "%d is not a policy: KILL, TRUNCATE or HEAD_TAIL", (int)policy);
    check->request->on_overflow = policy;
    check->request->as_text = check->message->output_text || (output && output->as_text);
}

/* What the caller calls them: ReadFiles has a field of its own for the same list. */
static const char *collect_field(const struct sbx_checker *check)
{
    return check->rules->is_files_only ? "files" : "collect";
}

/* Exactly one of path and pattern, and its own rules. */
static void check_collect_name(struct sbx_checker *check, size_t index)
{
    const Crisol__Sandbox__V1__CollectSpec *spec = check->message->collect[index];
    const bool is_glob = is_set(spec->glob);
    const char *problem =
        is_glob ? sbx_glob_problem(spec->glob, strlen(spec->glob)) : sbx_path_problem(spec->path);
    char field[40];

    (void)snprintf(field, sizeof(field), "%s[%zu].%s", collect_field(check), index,
                   is_glob ? "glob" : "path");
    if (is_glob && is_set(spec->path))
        problem = "set path or glob, not both";
    if (problem)
        rpc_status_add_violation(check->status, field, "%s", problem);
}

static void check_collect_spec(struct sbx_checker *check, size_t index)
{
    const Crisol__Sandbox__V1__CollectSpec *spec = check->message->collect[index];
    char field[40];

    check_collect_name(check, index);
    (void)snprintf(field, sizeof(field), "%s[%zu].max_bytes", collect_field(check), index);
    if (spec->max_bytes > SBX_COLLECT_BYTES_MAX)
        rpc_status_add_violation(check->status, field, "%" PRIu32 " is more than the maximum of %u",
                                 spec->max_bytes, SBX_COLLECT_BYTES_MAX);
    (void)snprintf(field, sizeof(field), "%s[%zu].max_files", collect_field(check), index);
    if (spec->max_files > SBX_COLLECT_FILES_MAX)
        rpc_status_add_violation(check->status, field, "%" PRIu32 " is more than the maximum of %u",
                                 spec->max_files, SBX_COLLECT_FILES_MAX);
    else if (spec->max_files > 0 && !is_set(spec->glob))
        rpc_status_add_violation(check->status, field, "belongs to glob; a path is one file");
}

static void check_collect(struct sbx_checker *check)
{
    const Crisol__Sandbox__V1__ExecuteRequest *message = check->message;
    uint64_t files = 0;

    if (message->n_collect > SBX_COLLECT_MAX) {
        rpc_status_add_violation(check->status, collect_field(check),
                                 "%zu files are more than the maximum of %u", message->n_collect,
                                 SBX_COLLECT_MAX);
        return;
    }
    for (size_t i = 0; i < message->n_collect; i++) {
        uint32_t most = sbx_collect_max_files(message->collect[i]);

        check_collect_spec(check, i);
        files += most <= SBX_COLLECT_FILES_MAX ? most : 0; /* was named on its own */
    }
    if (files > SBX_COLLECT_FILES_MAX)
        rpc_status_add_violation(check->status, collect_field(check),
                                 "max_files of all patterns together is %" PRIu64
                                 ", more than the maximum of %u",
                                 files, SBX_COLLECT_FILES_MAX);
}

void sbx_request_check_parts(struct sbx_checker *check)
{
    size_t total = 0;

    check_argv(check, &total);
    check_env(check, &total);
    if (total > SBX_ARGV_BYTES_MAX)
        rpc_status_add_violation(check->status, check->message->n_command > 0 ? "command" : "args",
                                 "%zu bytes of arguments and environment are more than the maximum "
                                 "of %u",
                                 total, SBX_ARGV_BYTES_MAX);
    check_files(check);
    check_stdin(check);
    check_output(check);
    check_collect(check);
}
