/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/payload_build.h"

#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/front/compiled.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define DEFAULT_MODE 0644U
#define CODE_MODE 0644U

static int add_arg(struct cr_buf *buf, const char *arg)
{
    return sbx_payload_add(buf, SBX_PAYLOAD_ARG, 0, 0, NULL, 0, arg, strlen(arg));
}

static int add_cells(struct cr_buf *buf, const struct sbx_runtime *runtime)
{
    int r = add_arg(buf, "-c");

    return r == 0 ? add_arg(buf, runtime->cells) : r;
}

static int add_argv(struct cr_buf *buf, const Crisol__Sandbox__V1__ExecuteRequest *message,
                    const struct sbx_request *request)
{
    const struct sbx_runtime *runtime = sbx_request_runtime(request);
    const bool has_cell = (request->flags & SBX_RUN_HAS_CELL) != 0;
    int r = 0;

    if (request->phase == SBX_PHASE_COMPILE) {
        for (size_t i = 0; r == 0 && runtime->compile[i]; i++)
            r = add_arg(buf, runtime->compile[i]);
        return r;
    }
    for (size_t i = 0; r == 0 && i < message->n_command; i++)
        r = add_arg(buf, message->command[i]);
    if (message->n_command > 0)
        return r;
    for (size_t i = 0; r == 0 && runtime->argv[i]; i++) {
        /* The program that runs one cell after the other is told the file that each comes in. */
        if (has_cell && strcmp(runtime->argv[i], runtime->entry_file) == 0)
            r = add_cells(buf, runtime);
        if (r == 0)
            r = add_arg(buf, runtime->argv[i]);
    }
    for (size_t i = 0; r == 0 && i < message->n_args; i++)
        r = add_arg(buf, message->args[i]);
    return r;
}

/* `line` is "NAME=value". */
static int add_env_line(struct cr_buf *buf, const char *line)
{
    size_t name_size = strcspn(line, "=");
    const char *value = line + name_size + 1;

    return sbx_payload_add(buf, SBX_PAYLOAD_ENV, 0, 0, line, name_size, value, strlen(value));
}

static bool is_overridden(const Crisol__Sandbox__V1__ExecuteRequest *message, const char *line)
{
    size_t name_size = strcspn(line, "=");

    for (size_t i = 0; i < message->n_env; i++) {
        const char *name = message->env[i]->key;

        if (strlen(name) == name_size && memcmp(name, line, name_size) == 0)
            return true;
    }
    return false;
}

/* The fixed lines, but those that the request gives another value. */
static int add_fixed_env(struct cr_buf *buf, const Crisol__Sandbox__V1__ExecuteRequest *message,
                         const char *const *lines)
{
    int r = 0;

    for (size_t i = 0; r == 0 && lines[i]; i++) {
        if (!is_overridden(message, lines[i]))
            r = add_env_line(buf, lines[i]);
    }
    return r;
}

static int add_env(struct cr_buf *buf, const Crisol__Sandbox__V1__ExecuteRequest *message,
                   const struct sbx_runtime *runtime, enum sbx_phase phase)
{
    static const Crisol__Sandbox__V1__ExecuteRequest nothing =
        CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    int r;

    if (phase == SBX_PHASE_COMPILE)
        message = &nothing;
    r = add_fixed_env(buf, message, sbx_environment);

    if (r == 0)
        r = add_fixed_env(buf, message, runtime->environment);
    for (size_t i = 0; r == 0 && i < message->n_env; i++) {
        const char *name = message->env[i]->key;
        const char *value = message->env[i]->value;

        r = sbx_payload_add(buf, SBX_PAYLOAD_ENV, 0, 0, name, strlen(name), value, strlen(value));
    }
    return r;
}

static int add_files(struct cr_buf *buf, const Crisol__Sandbox__V1__ExecuteRequest *message,
                     const struct sbx_request *request)
{
    const struct sbx_runtime *runtime = sbx_request_runtime(request);
    const uint32_t flags = request->session != 0 ? SBX_PAYLOAD_FILE_REPLACE : 0;
    int r = 0;

    if (*message->code && request->phase != SBX_PHASE_RUN)
        r = sbx_payload_add(buf, SBX_PAYLOAD_FILE, flags, CODE_MODE, runtime->entry_file,
                            strlen(runtime->entry_file), message->code, strlen(message->code));
    for (size_t i = 0; r == 0 && i < message->n_files; i++) {
        const Crisol__Sandbox__V1__InputFile *file = message->files[i];
        ProtobufCBinaryData content = sbx_file_content(request->contents, file);

        r = sbx_payload_add(buf, SBX_PAYLOAD_FILE,
                            file->read_only ? SBX_PAYLOAD_FILE_READ_ONLY : flags,
                            file->mode ? file->mode : DEFAULT_MODE, file->path, strlen(file->path),
                            content.data, content.len);
    }
    return r;
}

static int add_compile_output(struct cr_buf *buf, const struct sbx_runtime *runtime)
{
    const uint32_t files = sbx_compile_max_files(runtime);
    int r = 0;

    for (size_t i = 0; r == 0 && runtime->compile_output[i]; i++) {
        const char *pattern = runtime->compile_output[i];

        r = sbx_payload_add(
            buf, SBX_PAYLOAD_COLLECT, SBX_PAYLOAD_COLLECT_REQUIRED | SBX_PAYLOAD_COLLECT_GLOB,
            SBX_COMPILED_BYTES_MAX, pattern, strlen(pattern), &files, sizeof(files));
    }
    return r;
}

static int add_collect(struct cr_buf *buf, const Crisol__Sandbox__V1__ExecuteRequest *message,
                       const struct sbx_request *request)
{
    const char *report = sbx_request_runtime(request)->report_file;
    int r = 0;

    if (request->phase == SBX_PHASE_COMPILE)
        return add_compile_output(buf, sbx_request_runtime(request));
    for (size_t i = 0; r == 0 && i < message->n_collect; i++) {
        const Crisol__Sandbox__V1__CollectSpec *spec = message->collect[i];
        uint32_t files = sbx_collect_max_files(spec);
        const char *name = sbx_collect_name(spec);

        r = sbx_payload_add(buf, SBX_PAYLOAD_COLLECT,
                            (spec->required ? SBX_PAYLOAD_COLLECT_REQUIRED : 0) |
                                (files > 0 ? SBX_PAYLOAD_COLLECT_GLOB : 0),
                            sbx_collect_max_bytes(spec), name, strlen(name), &files,
                            files > 0 ? sizeof(files) : 0);
    }
    if (r == 0 && sbx_request_wants_report(message, request))
        r = sbx_payload_add(buf, SBX_PAYLOAD_COLLECT, 0, SBX_REPORT_BYTES_MAX, report,
                            strlen(report), NULL, 0);
    return r;
}

/* What was compiled earlier; what is compiled now comes when it is there. */
static int add_compiled(struct cr_buf *buf, const Crisol__Sandbox__V1__ExecuteRequest *message,
                        const struct sbx_request *request)
{
    ProtobufCBinaryData compiled;

    if (request->phase != SBX_PHASE_RUN || request->has_compile)
        return 0;
    compiled = sbx_request_compiled(request->contents, message);
    return sbx_compiled_add(compiled.data, compiled.len, buf);
}

int sbx_payload_build(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request *request, struct cr_buf *buf, struct cr_err *err)
{
    const struct sbx_runtime *runtime = sbx_request_runtime(request);
    int r;

    cr_buf_init(buf, SBX_PAYLOAD_MAX);
    r = sbx_payload_begin(buf);
    if (r == 0)
        r = add_argv(buf, message, request);
    if (r == 0)
        r = add_env(buf, message, runtime, request->phase);
    if (r == 0)
        r = add_files(buf, message, request);
    if (r == 0)
        r = add_compiled(buf, message, request);
    if (r == 0)
        r = add_collect(buf, message, request);
    if (r < 0)
        return cr_err_sys(err, -r, "pack the payload");
    sbx_payload_end(buf);
    return 0;
}
