/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/tool.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/node_model.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/model/json_front.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#define WALL_MS 10000U
#define CODE_MAX 65536U
/* Of each stream, what the model is shown: the beginning and the end. */
#define SHOWN_MAX 4096U

const struct agt_model_function agt_tool_function = {
    .name = AGT_TOOL_NAME,
    .description = "Runs a Python 3 program of its own in a sandbox without network, for at most "
                   "ten seconds, and gives back what it printed. Use it to try an idea or to check "
                   "a value before you hand in the files. Nothing is kept between calls.",
    .parameters = "{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"string\"}},"
                  "\"required\":[\"code\"]}",
};

struct agt_tools {
    struct agt_model_turn turns[AGT_TOOL_CALLS_MAX]; /* the strings are owned, the name static */
    size_t count;                                    /* of turns whose output is there */
    size_t called; /* of turns; those behind `count` wait, or run */
    uint32_t asked;
    bool is_off; /* the sandbox had a fault: this question goes on without */
};

static void turn_done(struct agt_model_turn *turn)
{
    free(cr_unconst(turn->arguments));
    free(cr_unconst(turn->id));
    free(cr_unconst(turn->signature));
    free(cr_unconst(turn->output));
    *turn = (struct agt_model_turn){.name = NULL};
}

struct agt_tools *agt_tools_free(struct agt_tools *tools)
{
    if (!tools)
        return NULL;
    for (size_t i = 0; i < AGT_TOOL_CALLS_MAX; i++)
        turn_done(&tools->turns[i]);
    free(tools);
    return NULL;
}

void agt_tools_reset(struct agt_run *run)
{
    run->tools = agt_tools_free(run->tools);
}

uint32_t agt_tools_left(const struct agt_run *run, bool *ret_is_on)
{
    uint32_t allowed = run->terms ? run->terms->max_tool_calls : 0;
    uint32_t used = run->tools ? (uint32_t)run->tools->count : 0;

    *ret_is_on = allowed > 0 && !(run->tools && run->tools->is_off);
    return *ret_is_on && used < allowed ? allowed - used : 0;
}

const struct agt_model_turn *agt_tools_turns(const struct agt_run *run, size_t *ret_count)
{
    bool is_there = run->tools && !run->tools->is_off;

    *ret_count = is_there ? run->tools->count : 0;
    return is_there ? run->tools->turns : NULL;
}

uint32_t agt_tools_asked(const struct agt_run *run)
{
    return run->tools ? run->tools->asked : 0;
}

static bool is_tool(const char *name)
{
    return name && strcmp(name, AGT_TOOL_NAME) == 0;
}

/* Whoever hands in beside it has no more use for the program. */
bool agt_tool_is_called(const struct agt_call *call)
{
    bool is_called = is_tool(call->call_name);

    for (size_t i = 0; i < call->more_call_count; i++) {
        if (!is_tool(call->more_calls[i].name))
            return false;
    }
    return is_called;
}

static void ask_again(struct agt_run *run)
{
    run->tools->asked++;
    agt_generator_ask(run);
}

/* The text of the member "code", on the heap; NULL: there is none that could be run. */
static char *read_code(const char *arguments)
{
    const struct agt_json_options options = {.max_size = 4 * (size_t)CODE_MAX};
    cJSON *root = NULL;
    const char *text;
    char *code = NULL;

    if (agt_json_parse(arguments, strlen(arguments), &options, &root, NULL, NULL) < 0)
        return NULL;
    text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "code"));
    if (text && *text && strlen(text) <= CODE_MAX)
        code = strdup(text);
    cJSON_Delete(root);
    return code;
}

static void emit_call(struct agt_run *run, const char *code)
{
    Crisol__Agent__V1__ToolCall tool = CRISOL__AGENT__V1__TOOL_CALL__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    tool.name = cr_unconst(AGT_TOOL_NAME);
    tool.number = (uint32_t)run->tools->count + 1;
    tool.code = cr_unconst(code);
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_TOOL_CALL;
    event.tool_call = &tool;
    agt_run_emit(run, &event);
}

static void emit_result(struct agt_run *run, const Crisol__Sandbox__V1__ExecuteResult *result,
                        const char *output)
{
    Crisol__Agent__V1__ToolResult tool = CRISOL__AGENT__V1__TOOL_RESULT__INIT;
    Crisol__Agent__V1__RunEvent event = CRISOL__AGENT__V1__RUN_EVENT__INIT;

    tool.name = cr_unconst(AGT_TOOL_NAME);
    tool.number = (uint32_t)run->tools->count;
    tool.output = cr_unconst(output);
    if (result) {
        tool.summary = result->summary;
        tool.wall_ms = result->usage ? (uint32_t)(result->usage->wall_us / 1000) : 0;
    }
    event.event_case = CRISOL__AGENT__V1__RUN_EVENT__EVENT_TOOL_RESULT;
    event.tool_result = &tool;
    agt_run_emit(run, &event);
}

/* A fault of the sandbox is none of the program's: the model answers without. */
static void turn_off(struct agt_run *run, const char *message)
{
    agt_list_add(&run->warnings,
                 "A program of the model could not be run (%s); it was asked again without.",
                 message);
    run->tools->is_off = true;
    ask_again(run);
}

/* The turn is whole: the model is told. Takes the output. False: the run has failed. */
static bool end_turn(struct agt_run *run, const Crisol__Sandbox__V1__ExecuteResult *result,
                     char *take_output)
{
    struct agt_tools *tools = run->tools;

    if (!take_output) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for the output of a program.");
        return false;
    }
    tools->turns[tools->count++].output = take_output;
    emit_result(run, result, take_output);
    return true;
}

/* Starts the next program. False: it could not be run, and the model has been, or is to be, told.
 */
static bool start_program(struct agt_run *run, const char *code)
{
    struct agt_execution execution = {.wall_time_ms = WALL_MS, .code = code};
    char suffix[24];

    (void)snprintf(suffix, sizeof(suffix), ".tool.%zu", run->tools->count + 1);
    execution.suffix = suffix;
    return agt_sandbox_execute(run, &execution, &run->call, NULL) == 0;
}

/* Runs what the model has called, one program after the other; then it is asked again. */
static void go_on(struct agt_run *run)
{
    const struct agt_tools *tools = run->tools;

    while (tools->count < tools->called) {
        CR_AUTO_FREE char *code = read_code(tools->turns[tools->count].arguments);

        emit_call(run, code ? code : "");
        if (code) {
            if (!start_program(run, code))
                turn_off(run, "the call could not be started");
            return;
        }
        if (!end_turn(run, NULL,
                      strdup("error: 'code' is missing, empty, or larger than 65536 bytes")))
            return;
    }
    ask_again(run);
}

static bool keep_turn(struct agt_tools *tools, const char *arguments, const char *id,
                      const char *signature)
{
    struct agt_model_turn *turn = &tools->turns[tools->called];

    turn_done(turn);
    turn->name = agt_tool_function.name;
    turn->arguments = strdup(arguments ? arguments : "{}");
    turn->id = strdup(id ? id : "");
    turn->signature = strdup(signature ? signature : "");
    turn->group = tools->asked + 1;
    tools->called++;
    return turn->arguments && turn->id && turn->signature;
}

/* The calls of one answer, as many as may still be run. */
static bool keep_turns(struct agt_run *run, const struct agt_call *call, uint32_t left)
{
    bool is_kept;

    if (!run->tools)
        run->tools = calloc(1, sizeof(*run->tools));
    if (!run->tools)
        return false;
    is_kept = keep_turn(run->tools, call->call_arguments, call->call_id, call->call_signature);
    for (size_t i = 0; is_kept && i < call->more_call_count && i + 1 < left; i++)
        is_kept = keep_turn(run->tools, call->more_calls[i].arguments, call->more_calls[i].id,
                            call->more_calls[i].signature);
    return is_kept;
}

void agt_tool_begin(struct agt_run *run, const struct agt_call *call)
{
    bool is_on;
    uint32_t left = agt_tools_left(run, &is_on);

    if (left == 0) {
        agt_model_ask_again(run, AGT_TOOL_NAME " cannot be called (any more). Hand in the files.");
        return;
    }
    if (!keep_turns(run, call, left)) {
        agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_INTERNAL,
                     "There was no memory for a program of the model.");
        return;
    }
    go_on(run);
}

/* Beginning and end of what was printed, with what is left out in between. */
static int add_stream(struct cr_buf *buf, const char *name, const struct cr_buf *bytes,
                      uint64_t omitted)
{
    CR_AUTO_FREE char *text = agt_sandbox_text(bytes);
    size_t size = text ? strlen(text) : 0;
    size_t head = SHOWN_MAX / 2;
    size_t tail = size - SHOWN_MAX / 2;

    if (!text)
        return -ENOMEM;
    if (size == 0)
        return 0;
    if (size <= SHOWN_MAX)
        return cr_buf_printf(buf, "%s:\n%s%s", name, text, omitted > 0 ? "\n[...]\n" : "\n");
    head = cr_utf8_complete_prefix(text, head);
    while (tail < size && ((unsigned char)text[tail] & 0xC0) == 0x80)
        tail++;
    return cr_buf_printf(buf, "%s:\n%.*s\n[... %" PRIu64 " bytes are left out ...]\n%s\n", name,
                         (int)head, text, omitted + (tail - head), text + tail);
}

static char *describe(const struct agt_call *call)
{
    struct cr_buf buf;
    char *text = NULL;
    int r;

    cr_buf_init(&buf, 8 * (size_t)SHOWN_MAX);
    r = cr_buf_printf(&buf, "%s\n", call->result->summary);
    if (r == 0)
        r = add_stream(&buf, "stdout", &call->out, call->out_omitted);
    if (r == 0)
        r = add_stream(&buf, "stderr", &call->err, call->err_omitted);
    if (r == 0)
        text = cr_buf_take_str(&buf);
    cr_buf_done(&buf);
    return text;
}

void agt_tool_on_end(struct agt_run *run, struct agt_call *call)
{
    const char *message = "";

    if (run->stop != AGT_STOP_NONE)
        return; /* the caller of the node ends it */
    if (agt_fault_of_call(call, &message) != AGT_FAULT_NONE)
        turn_off(run, message);
    else if (end_turn(run, call->result, describe(call)))
        go_on(run);
}
