/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/options.h"
#include "clients/crisol/verdict.h"
#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "rpc/client.h"
#include "rpc/status.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>

#define CHUNK_MAX 4096U
#define WALL_DEFAULT_MS 300000U

static const char help[] =
    "Usage: crisol shell [OPTIONS] [-- COMMAND [ARGUMENT…]]\n"
    "\n"
    "Runs a program in a sandbox with your terminal as its own (default: /bin/sh). Where standard\n"
    "input is no terminal, the program gets it as it is, while it runs. Exits as 'crisol exec'\n"
    "does. Nothing of the sandbox is kept.\n"
    "\n"
    "  --runtime NAME       whose root file system and limits (default shell)\n"
    "  --wall-ms N          wall clock limit in ms (default 300000)\n"
    "  --memory-mib N       memory limit in MiB\n"
    "  --sandbox ADDRESS    [CRISOL_SANDBOX, default " CLI_DEFAULT_SANDBOX "]\n";

struct shell_options {
    const char *runtime;
    const char *address;
    unsigned long long wall_time_ms;
    unsigned long long memory_mib; /* 0: the default */
    char **command;
    size_t command_count;
    int window_fd; /* SIGWINCH */
};

struct shell {
    const struct shell_options *options; /* borrowed */
    struct rpc_client_call *call;
    int wake_fd;
    bool is_terminal;
    bool has_started; /* start was sent */
    bool has_resized; /* the new size was not sent yet */
    bool has_input_ended;
    bool is_closed; /* the end of the input was sent */
    uint8_t input[CHUNK_MAX];
    size_t input_size; /* read and not sent yet */

    pthread_mutex_t lock; /* guards everything below */
    bool has_ended;
    bool has_result;
    bool is_output_closed;
    int exit_code;
    char summary[256]; /* what goes with an exit code that is not the program's own */
    struct rpc_status status;
};

/* ---- the client loop's thread ---- */

static void wake(const struct shell *shell)
{
    const uint64_t one = 1;

    (void)!write(shell->wake_fd, &one, sizeof(one));
}

/* The program drives the terminal: that is what it is for. */
static bool on_message(void *user, const ProtobufCMessage *base)
{
    struct shell *shell = user;
    const Crisol__Sandbox__V1__ExecuteResponse *event =
        ((const Crisol__Sandbox__V1__ExecuteInteractiveResponse *)(const void *)base)->event;
    bool is_output_closed = false;

    if (event && event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT) {
        int fd = event->output->stream == CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR
                     ? STDERR_FILENO
                     : STDOUT_FILENO;

        is_output_closed = cli_write_all(fd, event->output->data.data, event->output->data.len) < 0;
    }
    (void)pthread_mutex_lock(&shell->lock);
    shell->is_output_closed = shell->is_output_closed || is_output_closed;
    if (event && event->event_case == CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_RESULT) {
        shell->has_result = true;
        shell->exit_code = cli_verdict_exit_code(event->result);
        if (!cli_verdict_is_programs_own(event->result))
            (void)snprintf(shell->summary, sizeof(shell->summary), "%s", event->result->summary);
    }
    (void)pthread_mutex_unlock(&shell->lock);
    return !is_output_closed;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct shell *shell = user;

    (void)pthread_mutex_lock(&shell->lock);
    shell->has_ended = true;
    shell->status = *status;
    (void)pthread_mutex_unlock(&shell->lock);
    wake(shell);
}

static void on_writable(void *user)
{
    wake(user);
}

/* ---- the command's thread ---- */

static void fill_size(Crisol__Sandbox__V1__TerminalSize *size)
{
    struct winsize window = {.ws_col = 80, .ws_row = 24};

    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &window);
    crisol__sandbox__v1__terminal_size__init(size);
    size->columns = window.ws_col > 0 ? window.ws_col : 80;
    size->rows = window.ws_row > 0 ? window.ws_row : 24;
}

static bool send_start(struct shell *shell)
{
    static char term[] = "TERM";
    static char plain[] = "dumb";
    static char shell_path[] = "/bin/sh";
    char *standard[] = {shell_path};
    const struct shell_options *options = shell->options;
    Crisol__Sandbox__V1__ExecuteInteractiveRequest message =
        CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INIT;
    Crisol__Sandbox__V1__ExecuteRequest request = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    Crisol__Sandbox__V1__Limits limits = CRISOL__SANDBOX__V1__LIMITS__INIT;
    Crisol__Sandbox__V1__OutputOptions output = CRISOL__SANDBOX__V1__OUTPUT_OPTIONS__INIT;
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry entry =
        CRISOL__SANDBOX__V1__EXECUTE_REQUEST__ENV_ENTRY__INIT;
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *entries[] = {&entry};
    Crisol__Sandbox__V1__TerminalSize size;
    char *kind = getenv("TERM"); // NOLINT(concurrency-mt-unsafe): nobody changes the environment

    limits.wall_time_ms = (uint32_t)options->wall_time_ms;
    limits.memory_bytes = (uint64_t)options->memory_mib << 20;
    entry.key = term;
    entry.value = kind && *kind ? kind : plain;
    request.runtime = cr_unconst(options->runtime);
    request.limits = &limits;
    request.output = &output;
    output.on_overflow = CRISOL__SANDBOX__V1__OVERFLOW_POLICY__OVERFLOW_POLICY_KILL;
    request.n_env = shell->is_terminal ? 1 : 0;
    request.env = entries;
    request.n_command = options->command_count > 0 ? options->command_count : 1;
    request.command = options->command_count > 0 ? options->command : standard;
    message.input_case = CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_START;
    message.start = &request;
    if (shell->is_terminal) {
        fill_size(&size);
        message.terminal = &size;
    }
    return rpc_client_send(shell->call, &message.base);
}

static bool send_resize(struct shell *shell)
{
    Crisol__Sandbox__V1__ExecuteInteractiveRequest message =
        CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INIT;
    Crisol__Sandbox__V1__TerminalSize size;

    fill_size(&size);
    message.input_case = CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_RESIZE;
    message.resize = &size;
    return rpc_client_send(shell->call, &message.base);
}

static bool send_input(struct shell *shell)
{
    Crisol__Sandbox__V1__ExecuteInteractiveRequest message =
        CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INIT;

    if (shell->input_size > 0) {
        message.input_case = CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_STDIN_DATA;
        message.stdin_data = (ProtobufCBinaryData){.len = shell->input_size, .data = shell->input};
    } else {
        message.input_case = CRISOL__SANDBOX__V1__EXECUTE_INTERACTIVE_REQUEST__INPUT_CLOSE_STDIN;
        message.close_stdin = true;
    }
    return rpc_client_send(shell->call, &message.base);
}

/* One message, if there is something to say and the one before has left. */
static void send_next(struct shell *shell)
{
    if (!shell->has_started) {
        shell->has_started = send_start(shell);
    } else if (shell->has_resized) {
        shell->has_resized = !send_resize(shell);
    } else if (shell->input_size > 0) {
        if (send_input(shell))
            shell->input_size = 0;
    } else if (shell->has_input_ended && !shell->is_closed) {
        shell->is_closed = send_input(shell);
    }
}

static void read_input(struct shell *shell)
{
    ssize_t size = read(STDIN_FILENO, shell->input, sizeof(shell->input));

    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    shell->has_input_ended = size <= 0;
    shell->input_size = size > 0 ? (size_t)size : 0;
}

static bool has_ended(struct shell *shell)
{
    bool ended;

    (void)pthread_mutex_lock(&shell->lock);
    ended = shell->has_ended || shell->is_output_closed;
    (void)pthread_mutex_unlock(&shell->lock);
    return ended;
}

/* Until the end. Returns the number of a signal that came instead, or 0. */
static int turn(struct shell *shell, int cancel_fd)
{
    struct signalfd_siginfo info;
    uint64_t count;

    while (!has_ended(shell)) {
        struct pollfd fds[4] = {
            {.fd = cancel_fd, .events = POLLIN},
            {.fd = shell->wake_fd, .events = POLLIN},
            {.fd = shell->options->window_fd, .events = POLLIN},
            {.fd = shell->input_size > 0 || shell->has_input_ended ? -1 : STDIN_FILENO,
             .events = POLLIN},
        };

        send_next(shell);
        if (poll(fds, CR_ARRAY_SIZE(fds), -1) < 0)
            continue;
        if (fds[0].revents)
            return cli_cancel_signal(cancel_fd);
        if (fds[1].revents)
            (void)!read(shell->wake_fd, &count, sizeof(count));
        if (fds[2].revents && read(shell->options->window_fd, &info, sizeof(info)) > 0)
            shell->has_resized = shell->is_terminal;
        if (fds[3].revents)
            read_input(shell);
    }
    return 0;
}

/*
 * What was typed for the program, or what the terminal answered it, must not
 * become commands of the caller's own shell. The first flush takes what is on
 * the way within the terminal, too (tty_ioctl(TCFLSH) in the kernel), which
 * TCSAFLUSH does not.
 */
static void restore_terminal(const struct termios *before)
{
    (void)tcflush(STDIN_FILENO, TCIFLUSH);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, before);
}

static int call(struct shell *shell, struct rpc_loop *loop, struct rpc_channel *channel,
                int cancel_fd)
{
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .on_writable = on_writable, .user = shell};
    struct cr_err err = CR_ERR_INIT;
    struct termios before;
    struct termios raw;
    bool is_raw;
    int signal_number;

    if (rpc_client_open(loop, channel, &cli_method_execute_interactive, 0, &handlers, &shell->call,
                        &err) < 0)
        return cli_fail("%s", err.text);
    is_raw = shell->is_terminal && tcgetattr(STDIN_FILENO, &before) == 0;
    if (is_raw) {
        raw = before;
        cfmakeraw(&raw);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    signal_number = turn(shell, cancel_fd);
    if (is_raw)
        restore_terminal(&before);
    return signal_number > 0 ? CLI_EXIT_SIGNAL + signal_number : CLI_EXIT_OK;
}

/* With one thread again. */
static int conclude(const struct shell *shell)
{
    if (shell->has_result && *shell->summary) {
        (void)fputs("crisol: ", stderr);
        cli_print_untrusted(stderr, shell->summary, strlen(shell->summary));
        (void)fputc('\n', stderr);
    }
    if (shell->has_result)
        return shell->exit_code;
    if (shell->is_output_closed)
        return CLI_EXIT_SIGNAL + SIGPIPE;
    if (shell->status.code == RPC_OK)
        return cli_fail("the service ended the stream without a result");
    return cli_report(shell->options->address, &shell->status);
}

static int run(struct shell *shell, int cancel_fd)
{
    struct rpc_channel *channel = cli_connect(shell->options->address);
    struct rpc_loop *loop = NULL;
    struct cr_err err = CR_ERR_INIT;
    int code = CLI_EXIT_SERVICE;

    if (channel && rpc_loop_new(&loop, &err) < 0)
        (void)cli_fail("%s", err.text);
    if (loop)
        code = call(shell, loop, channel, cancel_fd);
    (void)rpc_loop_free(loop);
    shell->call = rpc_client_unref(shell->call);
    (void)rpc_channel_free(channel);
    return loop && code == CLI_EXIT_OK ? conclude(shell) : code;
}

/* Before there is another thread, which would take the signal. */
static int open_window(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGWINCH);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int shell_calls(const void *options, int cancel_fd)
{
    struct shell shell = {.options = options, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int code;

    shell.is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    (void)pthread_mutex_init(&shell.lock, NULL); /* cannot fail with default attributes */
    if (shell.wake_fd < 0 || shell.options->window_fd < 0)
        code = cli_fail("cannot wait for events: %s", strerrordesc_np(errno));
    else
        code = run(&shell, cancel_fd);
    (void)pthread_mutex_destroy(&shell.lock);
    cr_close_fd(&shell.wake_fd);
    return code;
}

int cli_shell(int argc, char **argv)
{
    struct shell_options options = {.runtime = "shell", .wall_time_ms = WALL_DEFAULT_MS};
    const struct cli_option list[] = {
        CLI_TEXT("runtime", &options.runtime),
        CLI_TEXT("sandbox", &options.address),
        CLI_NUMBER("wall-ms", &options.wall_time_ms, 1, UINT32_MAX),
        CLI_NUMBER("memory-mib", &options.memory_mib, 1, UINT32_MAX),
    };
    const struct cli_command command = {
        .name = "shell",
        .help = help,
        .options = list,
        .option_count = CR_ARRAY_SIZE(list),
        .arguments = 0,
        .is_missing = "put the command behind --, as in 'crisol shell -- /usr/bin/python3'"};
    int behind = 1;
    int code;
    int r;

    while (behind < argc && strcmp(argv[behind], "--") != 0)
        behind++;
    r = cli_parse(&command, behind, argv);
    if (r != 0)
        return r > 0 ? CLI_EXIT_OK : CLI_EXIT_SERVICE;
    if (behind + 1 < argc) {
        options.command = argv + behind + 1;
        options.command_count = (size_t)(argc - behind - 1);
    }
    options.address = cli_address(options.address, "CRISOL_SANDBOX", CLI_DEFAULT_SANDBOX);
    options.window_fd = open_window();
    code = cli_with_calls(shell_calls, &options);
    cr_close_fd(&options.window_fd);
    return code;
}
