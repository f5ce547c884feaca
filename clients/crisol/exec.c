/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/request.h"
#include "clients/crisol/verdict.h"
#include "common/buf.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define JSON_BYTES_MAX (512U << 20) /* two streams at the largest output limit, escaped */

struct stream_state {
    int exit_code;
    bool has_result;
    bool is_pipe_closed;
};

/* Prints the line that goes with an exit code which is not the program's own. */
static int explain(const Crisol__Sandbox__V1__ExecuteResult *result)
{
    int code = cli_verdict_exit_code(result);

    /* What a compiler says belongs to nobody else's output: the program never started. */
    if (result->phase == CRISOL__SANDBOX__V1__PHASE__PHASE_COMPILE && result->compile)
        (void)cli_write_all(STDERR_FILENO, result->compile->output.data,
                            result->compile->output.len);
    if (!cli_verdict_is_programs_own(result)) {
        (void)fputs("crisol: ", stderr);
        cli_print_untrusted(stderr, result->summary, strlen(result->summary));
        (void)fputc('\n', stderr);
    }
    return code;
}

static bool on_message(void *user, const ProtobufCMessage *base)
{
    struct stream_state *state = user;
    const Crisol__Sandbox__V1__ExecuteResponse *message = (const void *)base;

    switch (message->event_case) {
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT: {
        const Crisol__Sandbox__V1__Output *output = message->output;
        int fd = output->stream == CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR
                     ? STDERR_FILENO
                     : STDOUT_FILENO;

        state->is_pipe_closed = cli_write_all(fd, output->data.data, output->data.len) < 0;
        return !state->is_pipe_closed;
    }
    case CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT:
        state->exit_code = explain(message->result);
        state->has_result = true;
        return true;
    default:
        return true;
    }
}

static int run_streaming(struct rpc_channel *channel, const struct cli_request *request,
                         int cancel_fd)
{
    struct stream_state state = {.exit_code = CLI_EXIT_SERVICE};
    struct rpc_status status = RPC_STATUS_INIT;

    (void)rpc_stream_blocking(channel, &cli_method_execute, &request->message.base, 0, cancel_fd,
                              on_message, &state, &status);
    if (state.has_result)
        return state.exit_code;
    return state.is_pipe_closed ? CLI_EXIT_SIGNAL + SIGPIPE
                                : cli_explain_end(request->address, cancel_fd, &status);
}

/* ---- one document ---- */

static int print_document(const ProtobufCMessage *response)
{
    const struct rpc_json_style style = {
        .use_snake_case = true, .with_defaults = true, .int64_as_number = true};
    CR_AUTO_BUF struct cr_buf json = {0};

    cr_buf_init(&json, JSON_BYTES_MAX);
    if (rpc_json_write(response, &style, &json) < 0 || cr_buf_add_char(&json, '\n') < 0)
        return cli_fail("out of memory for the JSON document");
    if (cli_write_all(STDOUT_FILENO, json.data, json.size) < 0)
        return CLI_EXIT_SIGNAL + SIGPIPE;
    return cli_verdict_exit_code(
        ((const Crisol__Sandbox__V1__RunResponse *)(const void *)response)->result);
}

static bool on_response(void *user, const ProtobufCMessage *response)
{
    struct stream_state *state = user;

    state->exit_code = print_document(response);
    state->has_result = true;
    return true;
}

/* A stream of one answer: like one, it is ended by a signal. */
static int run_json(struct rpc_channel *channel, struct cli_request *request, int cancel_fd)
{
    struct stream_state state = {.exit_code = CLI_EXIT_SERVICE};
    struct rpc_status status = RPC_STATUS_INIT;

    request->message.output_text = true;
    (void)rpc_stream_blocking(channel, &cli_method_run, &request->message.base, 0, cancel_fd,
                              on_response, &state, &status);
    return state.has_result ? state.exit_code
                            : cli_explain_end(request->address, cancel_fd, &status);
}

static int call(struct cli_request *request)
{
    struct rpc_channel *channel;
    int code = CLI_EXIT_SERVICE;
    int cancel_fd = cli_begin_calls();

    if (cancel_fd < 0)
        return CLI_EXIT_SERVICE;
    channel = cli_connect(request->address);
    if (channel)
        code = request->is_json ? run_json(channel, request, cancel_fd)
                                : run_streaming(channel, request, cancel_fd);
    (void)rpc_channel_free(channel);
    cli_end_calls(cancel_fd);
    return code;
}

int cli_exec(int argc, char **argv)
{
    struct cli_request *request = malloc(sizeof(*request));
    int code = CLI_EXIT_SERVICE;
    int r;

    if (!request)
        return cli_fail("out of memory");
    r = cli_request_parse(request, argc, argv);
    if (r == 0)
        code = call(request);
    else if (r > 0)
        code = CLI_EXIT_OK;
    cli_request_done(request);
    free(request);
    return code;
}
