/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/unconst.h"
#include "orchestrator/http/judge_text.h"
#include "rpc/json.h"
#include "rpc/json_value.h"
#include "rpc/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WALL_TIME_MS 3000 /* what people of that judge count with */
#define DEFAULT_NAME_SIZE 32U

struct agt_judge_program {
    Crisol__Sandbox__V1__ExecuteRequest message;
    Crisol__Sandbox__V1__Limits limits;
    Crisol__Sandbox__V1__Limits compile_limits;
    char *code;
    char *path;     /* of the program, where it is not the name alone */
    char **command; /* its items are others' */
    char *input;
    size_t count; /* of files beside the program */
    Crisol__Sandbox__V1__InputFile *files;
    Crisol__Sandbox__V1__InputFile **list;
    char (*names)[DEFAULT_NAME_SIZE];
};

/* ---- checks ---- */

static int refuse(struct rpc_status *status, const char *text)
{
    rpc_status_set(status, RPC_INVALID_ARGUMENT, "%s", text);
    return -EINVAL;
}

static int check_limits(const Crisol__Judge__V1__JudgeRequest *request, struct rpc_status *status)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t max;
    } limits[] = {
        {"run_timeout", request->run_timeout, UINT32_MAX},
        {"run_cpu_time", request->run_cpu_time, UINT32_MAX},
        {"run_memory_limit", request->run_memory_limit, INT64_MAX},
        {"compile_timeout", request->compile_timeout, UINT32_MAX},
        {"compile_cpu_time", request->compile_cpu_time, UINT32_MAX},
        {"compile_memory_limit", request->compile_memory_limit, INT64_MAX},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(limits); i++) {
        if (limits[i].value >= -1 && limits[i].value <= limits[i].max)
            continue;
        rpc_status_set(status, RPC_INVALID_ARGUMENT,
                       "%s must be a number, not negative and not that large", limits[i].name);
        return -EINVAL;
    }
    return 0;
}

/* What is not given has the library's own empty text; an empty file is one. */
static bool is_given(const char *text)
{
    return text != protobuf_c_empty_string;
}

static bool is_text(const Crisol__Judge__V1__JudgeFile *file)
{
    return *file->encoding == '\0' || strcmp(file->encoding, "utf8") == 0 ||
           strcmp(file->encoding, "utf-8") == 0;
}

size_t agt_judge_code_index(const Crisol__Judge__V1__JudgeRequest *request)
{
    size_t index = 0;

    while (index < request->n_files && !is_text(request->files[index]))
        index++;
    return index;
}

static int check(const Crisol__Judge__V1__JudgeRequest *request, struct rpc_status *status)
{
    if (*request->language == '\0')
        return refuse(status, "language is required as a string");
    if (*request->version == '\0')
        return refuse(status, "version is required as a string");
    if (request->n_files == 0)
        return refuse(status, "files is required as an array");
    for (size_t i = 0; i < request->n_files; i++) {
        if (!is_given(request->files[i]->content)) {
            rpc_status_set(status, RPC_INVALID_ARGUMENT,
                           "files[%zu].content is required as a string", i);
            return -EINVAL;
        }
    }
    if (agt_judge_code_index(request) == request->n_files)
        return refuse(status, "files must include at least one utf8 encoded file");
    return check_limits(request, status);
}

int agt_judge_read(const char *text, size_t size, Crisol__Judge__V1__JudgeRequest **ret_request,
                   struct rpc_status *status)
{
    static const struct rpc_json_leniency leniency = {
        .skips_unknown = true, .takes_scalars = true, .rounds_up = true};
    ProtobufCMessage *message = NULL;
    Crisol__Judge__V1__JudgeRequest *request;
    int r = rpc_json_read_leniently(&crisol__judge__v1__judge_request__descriptor, text, size,
                                    &leniency, &message, status);

    if (r < 0)
        return r;
    request = (Crisol__Judge__V1__JudgeRequest *)(void *)message;
    r = check(request, status);
    if (r == 0)
        *ret_request = request;
    else
        crisol__judge__v1__judge_request__free_unpacked(request, NULL);
    return r;
}

/* ---- content ---- */

static int digit(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    character |= 0x20;
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

static bool decode_hex(const char *text, size_t size, uint8_t *out, size_t *ret_size)
{
    if (size % 2 != 0)
        return false;
    for (size_t i = 0; i < size; i += 2) {
        int high = digit(text[i]);
        int low = digit(text[i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    *ret_size = size / 2;
    return true;
}

/* Encoders of mail cut lines. `out` has room for the text. */
static bool decode_base64(const char *text, uint8_t *out, size_t *ret_size)
{
    size_t used = 0;

    for (; *text; text++) {
        if (!strchr("\r\n\t ", *text))
            out[used++] = (uint8_t)*text;
    }
    return rpc_json_parse_base64((const char *)out, used, out, ret_size);
}

/* The content of a file, with a NUL behind it; owned by the caller. */
static int decode(const Crisol__Judge__V1__JudgeFile *file, size_t index, uint8_t **ret_data,
                  size_t *ret_size, struct rpc_status *status)
{
    const char *encoding = file->encoding;
    size_t size = strlen(file->content);
    CR_AUTO_FREE uint8_t *data = malloc(size + 1);
    bool is_read = true;

    if (!data)
        return -ENOMEM;
    if (is_text(file))
        memcpy(data, file->content, size);
    else if (strcmp(encoding, "base64") == 0)
        is_read = decode_base64(file->content, data, &size);
    else if (strcmp(encoding, "hex") == 0)
        is_read = decode_hex(file->content, size, data, &size);
    else
        is_read = false;
    if (!is_read) {
        rpc_status_set(status, RPC_INVALID_ARGUMENT,
                       "files[%zu].content is not what files[%zu].encoding says: utf8, base64 or "
                       "hex",
                       index, index);
        return -EINVAL;
    }
    data[size] = 0;
    *ret_data = cr_take_ptr(&data);
    *ret_size = size;
    return 0;
}

/* ---- the program ---- */

/* How the first text becomes the program. */
enum way {
    WAY_CODE,    /* as the runtime's entry file, whatever its name */
    WAY_FILE,    /* as a file like the others, of which another has the name of that */
    WAY_COMMAND, /* the same, and the runtime's argv runs it by its own name */
};

/* The entry file in the argv of a runtime; n_argv: it is not there. */
static size_t find_entry(const Crisol__Sandbox__V1__Runtime *runtime)
{
    size_t at = 0;

    while (at < runtime->n_argv && strcmp(runtime->argv[at], runtime->entry_file) != 0)
        at++;
    return at;
}

/* A program of one file is not asked for its name, and an interpreter that waits serves it. One of
 * several may be named in the others: there it has its name, where the runtime can have that. */
static enum way way_of(const Crisol__Judge__V1__JudgeRequest *request,
                       const Crisol__Sandbox__V1__Runtime *runtime)
{
    const size_t code_index = agt_judge_code_index(request);
    const char *name = request->files[code_index]->name;
    const bool is_named = *name && strcmp(name, runtime->entry_file) != 0;
    bool is_taken = false;

    if (request->n_files < 2)
        return WAY_CODE;
    if (is_named && runtime->n_compile_argv == 0 && find_entry(runtime) < runtime->n_argv)
        return WAY_COMMAND;
    for (size_t i = 0; i < request->n_files; i++) {
        const char *other = request->files[i]->name;

        is_taken = is_taken || (*other && strcmp(other, runtime->entry_file) == 0);
    }
    return is_named && is_taken ? WAY_FILE : WAY_CODE;
}

size_t agt_judge_hidden_index(const Crisol__Judge__V1__JudgeRequest *request,
                              const Crisol__Sandbox__V1__Runtime *runtime)
{
    return way_of(request, runtime) == WAY_CODE ? agt_judge_code_index(request) : request->n_files;
}

/* As an argument a name must not be taken for an option. */
static int add_path(struct agt_judge_program *program, char *name, char **ret_path)
{
    if (*name != '-' && *name != '+') {
        *ret_path = name;
        return 0;
    }
    if (asprintf(&program->path, "./%s", name) < 0) {
        program->path = NULL;
        return -ENOMEM;
    }
    *ret_path = program->path;
    return 0;
}

/* The runtime's argv with another file in it, and the arguments. */
static int add_command(struct agt_judge_program *program,
                       const Crisol__Judge__V1__JudgeRequest *request,
                       const Crisol__Sandbox__V1__Runtime *runtime)
{
    char *path = NULL;
    int r = add_path(program, request->files[agt_judge_code_index(request)]->name, &path);

    if (r < 0)
        return r;
    program->command = calloc(runtime->n_argv + request->n_args, sizeof(*program->command));
    if (!program->command)
        return -ENOMEM;
    memcpy(program->command, runtime->argv, runtime->n_argv * sizeof(*program->command));
    program->command[find_entry(runtime)] = path;
    if (request->n_args > 0)
        memcpy(program->command + runtime->n_argv, request->args,
               request->n_args * sizeof(*program->command));
    program->message.command = program->command;
    program->message.n_command = runtime->n_argv + request->n_args;
    program->message.n_args = 0;
    return 0;
}

/* No text at all would mean that there is no program, which an empty one is. */
static int add_code(struct agt_judge_program *program, const Crisol__Judge__V1__JudgeFile *file)
{
    program->code = strdup(*file->content ? file->content : "\n");
    program->message.code = program->code;
    return program->code ? 0 : -ENOMEM;
}

static int add_file(struct agt_judge_program *program, const Crisol__Judge__V1__JudgeFile *file,
                    size_t index, struct rpc_status *status)
{
    Crisol__Sandbox__V1__InputFile *input = &program->files[program->count];
    char *name = program->names[program->count];

    crisol__sandbox__v1__input_file__init(input);
    (void)snprintf(name, DEFAULT_NAME_SIZE, "file%zu.code", index);
    input->path = *file->name ? file->name : name;
    program->list[program->count++] = input;
    return decode(file, index, &input->data.data, &input->data.len, status);
}

static int add_files(struct agt_judge_program *program,
                     const Crisol__Judge__V1__JudgeRequest *request, size_t code_index,
                     struct rpc_status *status)
{
    int r = 0;

    program->files = calloc(request->n_files, sizeof(*program->files));
    program->list = calloc(request->n_files, sizeof(void *));
    program->names = calloc(request->n_files, sizeof(*program->names));
    if (!program->files || !program->list || !program->names)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < request->n_files; i++)
        r = i == code_index ? add_code(program, request->files[i])
                            : add_file(program, request->files[i], i, status);
    program->message.files = program->list;
    program->message.n_files = program->count;
    return r;
}

/* As that judge does: programs that read line by line count with the end of the last. */
static int add_input(struct agt_judge_program *program, const char *text)
{
    const size_t size = strlen(text);
    const bool is_whole = size > 0 && text[size - 1] == '\n';

    program->input = malloc(size + 2);
    if (!program->input)
        return -ENOMEM;
    (void)snprintf(program->input, size + 2, "%s%s", text, is_whole ? "" : "\n");
    program->message.stdin_text = program->input;
    return 0;
}

static void fill_limits(Crisol__Sandbox__V1__Limits *limits, int64_t wall_time_ms,
                        int64_t cpu_time_ms, int64_t memory_bytes)
{
    crisol__sandbox__v1__limits__init(limits);
    limits->wall_time_ms = wall_time_ms > 0 ? (uint32_t)wall_time_ms : 0;
    limits->cpu_time_ms = cpu_time_ms > 0 ? (uint32_t)cpu_time_ms : 0;
    limits->memory_bytes = memory_bytes > 0 ? (uint64_t)memory_bytes : 0;
}

/* Limits of a stage that a language does not have are always sent along, and mean nothing. */
static void add_limits(struct agt_judge_program *program,
                       const Crisol__Judge__V1__JudgeRequest *request,
                       const Crisol__Sandbox__V1__Runtime *runtime)
{
    fill_limits(&program->limits,
                request->run_timeout > 0 ? request->run_timeout : DEFAULT_WALL_TIME_MS,
                request->run_cpu_time, request->run_memory_limit);
    program->message.limits = &program->limits;
    if (runtime->n_compile_argv == 0)
        return;
    fill_limits(&program->compile_limits, request->compile_timeout, request->compile_cpu_time,
                request->compile_memory_limit);
    program->message.compile_limits = &program->compile_limits;
}

int agt_judge_program_new(const Crisol__Judge__V1__JudgeRequest *request,
                          const Crisol__Sandbox__V1__Runtime *runtime,
                          struct agt_judge_program **ret_program, struct rpc_status *status)
{
    struct agt_judge_program *program = calloc(1, sizeof(*program));
    int r;

    if (!program)
        return -ENOMEM;
    crisol__sandbox__v1__execute_request__init(&program->message);
    program->message.runtime = runtime->name;
    program->message.args = request->args;
    program->message.n_args = request->n_args;
    add_limits(program, request, runtime);
    r = add_input(program, request->stdin);
    if (r == 0)
        r = add_files(program, request, agt_judge_hidden_index(request, runtime), status);
    if (r == 0 && way_of(request, runtime) == WAY_COMMAND)
        r = add_command(program, request, runtime);
    if (r < 0) {
        (void)agt_judge_program_free(program);
        return r;
    }
    *ret_program = program;
    return 0;
}

struct agt_judge_program *agt_judge_program_free(struct agt_judge_program *program)
{
    if (!program)
        return NULL;
    for (size_t i = 0; i < program->count; i++)
        free(program->files[i].data.data);
    free(program->files);
    free(program->list);
    free(program->names);
    free(program->code);
    free(program->path);
    free(program->command);
    free(program->input);
    free(program);
    return NULL;
}

const Crisol__Sandbox__V1__ExecuteRequest *
agt_judge_program_request(const struct agt_judge_program *program)
{
    return &program->message;
}

void agt_judge_translate(const struct rpc_status *status, size_t hidden_index,
                         struct rpc_status *ret_status)
{
    static const struct {
        const char *ours;
        const char *theirs;
    } names[] = {
        {"limits.wall_time_ms", "run_timeout"},
        {"limits.cpu_time_ms", "run_cpu_time"},
        {"limits.memory_bytes", "run_memory_limit"},
        {"compile_limits.wall_time_ms", "compile_timeout"},
        {"compile_limits.cpu_time_ms", "compile_cpu_time"},
        {"compile_limits.memory_bytes", "compile_memory_limit"},
        {"stdin_text", "stdin"},
        {"code", "the program"},
    };

    const char *field = status->violation_count > 0 ? status->violations[0].field : "";
    static const char files[] = "files[";

    *ret_status = *status;
    /* One of their files is our `code`, so those behind it have other numbers. */
    if (strncmp(field, files, sizeof(files) - 1) == 0) {
        char *rest;
        unsigned long index = strtoul(field + sizeof(files) - 1, &rest, 10);

        rpc_status_set(ret_status, status->code, "files[%lu%s: %s", index + (index >= hidden_index),
                       rest, status->violations[0].description);
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        if (strcmp(field, names[i].ours) == 0)
            rpc_status_set(ret_status, status->code, "%s: %s", names[i].theirs,
                           status->violations[0].description);
    }
}
