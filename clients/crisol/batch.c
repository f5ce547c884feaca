/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/batch_items.h"
#include "clients/crisol/batch_options.h"
#include "clients/crisol/cli.h"
#include "clients/crisol/lines.h"
#include "clients/crisol/methods.h"
#include "clients/crisol/verdict.h"
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "rpc/client.h"
#include "rpc/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>

#define CLOSE_MS 5000 /* for the end of a stream that has answered everything */

/* Two threads: the one of the command reads and sends, the one of the client loop takes answers. */
struct batch {
    const struct cli_batch_options *options; /* borrowed */
    struct cli_lines lines;
    struct rpc_channel *channel;
    struct rpc_loop *loop;
    struct rpc_client_call *call; /* NULL: no stream */
    int cancel_fd;                /* borrowed */
    int wake_fd;                  /* the other thread did something */
    bool is_waiting;              /* for the rest of a line */
    bool has_input_ended;
    bool is_closed;       /* nothing more will be sent on the stream */
    int64_t reopen_ns;    /* no stream before */
    uint32_t breaks;      /* streams in a row that brought no answer */
    pthread_mutex_t lock; /* guards everything below */
    struct cli_batch_items *items;
    bool has_stream_ended;
    bool has_answers; /* of this stream */
    bool has_ever_answers;
    struct rpc_status status; /* of the stream that ended */
    int output_error;         /* -errno */
};

/* ---- the client loop's thread ---- */

static void wake(const struct batch *batch)
{
    const uint64_t one = 1;

    (void)!write(batch->wake_fd, &one, sizeof(one));
}

static bool on_message(void *user, const ProtobufCMessage *message)
{
    struct batch *batch = user;
    int r;

    (void)pthread_mutex_lock(&batch->lock);
    batch->has_answers = batch->has_ever_answers = true;
    r = cli_batch_items_answer(
        batch->items, (const Crisol__Sandbox__V1__RunBatchResponse *)(const void *)message);
    if (r < 0)
        batch->output_error = r;
    (void)pthread_mutex_unlock(&batch->lock);
    wake(batch);
    return true;
}

static void on_end(void *user, const struct rpc_status *status)
{
    struct batch *batch = user;

    (void)pthread_mutex_lock(&batch->lock);
    batch->status = *status;
    batch->has_stream_ended = true;
    (void)pthread_mutex_unlock(&batch->lock);
    wake(batch);
}

static void on_writable(void *user)
{
    wake(user);
}

/* ---- the command's thread; with the lock held ---- */

static bool is_over(struct batch *batch)
{
    return batch->has_input_ended && batch->items->used == 0;
}

static int open_stream(struct batch *batch)
{
    const struct rpc_client_handlers handlers = {
        .on_message = on_message, .on_end = on_end, .on_writable = on_writable, .user = batch};
    struct cr_err err = CR_ERR_INIT;

    batch->has_answers = false;
    batch->is_closed = false;
    if (rpc_client_open(batch->loop, batch->channel, &cli_method_run_batch, 0, &handlers,
                        &batch->call, &err) == 0)
        return CLI_EXIT_OK;
    return cli_fail("%s", err.text);
}

/* Whether the same stream may be opened again with another outcome. */
static bool is_hopeless(const struct batch *batch)
{
    if (!batch->has_ever_answers && batch->status.code == RPC_UNAVAILABLE)
        return true;
    if (cr_clock_mono_ns() - batch->items->progress_ns > batch->items->give_up_ns)
        return true;
    switch (batch->status.code) {
    case RPC_INVALID_ARGUMENT:
    case RPC_NOT_FOUND:
    case RPC_PERMISSION_DENIED:
    case RPC_UNIMPLEMENTED:
    case RPC_UNAUTHENTICATED:
        return true;
    default:
        return false;
    }
}

/* The stream has ended. Returns an exit code. */
static int after_stream(struct batch *batch)
{
    batch->call = rpc_client_unref(batch->call);
    batch->has_stream_ended = false;
    if (is_over(batch))
        return CLI_EXIT_OK;
    cli_batch_items_lost(batch->items);
    if (is_hopeless(batch))
        return cli_report(batch->options->address, &batch->status);
    batch->breaks = batch->has_answers ? 0 : batch->breaks + 1;
    batch->reopen_ns = cr_clock_mono_ns() + cli_batch_backoff_ns(batch->items, batch->breaks);
    return CLI_EXIT_OK;
}

/* Reads lines for as long as there is room and something to read. Returns an exit code. */
static int take_lines(struct batch *batch)
{
    const char *text = NULL;
    size_t size = 0;

    batch->is_waiting = false;
    while (!batch->has_input_ended && cli_batch_items_has_room(batch->items)) {
        enum cli_line kind = cli_lines_next(&batch->lines, &text, &size);
        int r = 0;

        if (kind == CLI_LINE_WAIT) {
            batch->is_waiting = true;
            return CLI_EXIT_OK;
        }
        if (kind == CLI_LINE_END)
            batch->has_input_ended = true;
        else if (kind == CLI_LINE_TOO_LONG)
            r = cli_batch_items_add(batch->items, batch->lines.number, NULL, 0,
                                    &batch->options->defaults);
        else if (size > strspn(text, " \t\r")) /* empty lines are none */
            r = cli_batch_items_add(batch->items, batch->lines.number, text, size,
                                    &batch->options->defaults);
        if (r == -ENOMEM)
            return cli_fail("out of memory for line %" PRIu64, batch->lines.number);
        if (r < 0) {
            batch->output_error = r;
            return CLI_EXIT_OK;
        }
    }
    return CLI_EXIT_OK;
}

/* Sends the next line that is due, if any. *ret_due_ns: when to look again. */
static int send_next(struct batch *batch, int64_t *ret_due_ns)
{
    int64_t now_ns = cr_clock_mono_ns();
    struct cli_item *item = cli_batch_items_next(batch->items, now_ns, ret_due_ns);

    if (is_over(batch)) {
        batch->is_closed = batch->is_closed || !batch->call || rpc_client_close_send(batch->call);
        return CLI_EXIT_OK;
    }
    if (!item)
        return CLI_EXIT_OK;
    if (!batch->call && now_ns < batch->reopen_ns) {
        *ret_due_ns = batch->reopen_ns;
        return CLI_EXIT_OK;
    }
    if (!batch->call && open_stream(batch) != CLI_EXIT_OK)
        return CLI_EXIT_SERVICE;
    /* When another is on its way: on_writable wakes us. */
    if (rpc_client_send(batch->call, &item->request->base))
        item->state = CLI_ITEM_SENT;
    return CLI_EXIT_OK;
}

/* One look at everything. Returns an exit code. */
static int step(struct batch *batch, int64_t *ret_due_ns)
{
    int code = CLI_EXIT_OK;

    *ret_due_ns = INT64_MAX;
    (void)pthread_mutex_lock(&batch->lock);
    if (batch->has_stream_ended)
        code = after_stream(batch);
    if (code == CLI_EXIT_OK && batch->output_error == 0)
        code = take_lines(batch);
    if (code == CLI_EXIT_OK && batch->output_error == 0)
        code = send_next(batch, ret_due_ns);
    (void)pthread_mutex_unlock(&batch->lock);
    return code;
}

/* ---- the command's thread ---- */

static int poll_timeout(int64_t due_ns)
{
    int64_t left_ns = due_ns - cr_clock_mono_ns();

    if (due_ns == INT64_MAX)
        return -1;
    return left_ns <= 0 ? 0 : (int)(left_ns / CR_NS_PER_MS + 1);
}

/* Waits for whatever comes first. Returns an exit code. */
static int wait_for_something(struct batch *batch, int64_t due_ns)
{
    struct pollfd fds[3] = {
        {.fd = batch->cancel_fd, .events = POLLIN},
        {.fd = batch->wake_fd, .events = POLLIN},
        {.fd = batch->is_waiting ? batch->lines.fd : -1, .events = POLLIN},
    };
    uint64_t count;
    int r = 0;

    if (poll(fds, CR_ARRAY_SIZE(fds), poll_timeout(due_ns)) < 0 && errno != EINTR)
        return cli_fail("cannot wait: %s", strerrordesc_np(errno));
    if (fds[0].revents != 0)
        return CLI_EXIT_SIGNAL + cli_cancel_signal(batch->cancel_fd);
    if (fds[1].revents != 0)
        (void)!read(batch->wake_fd, &count, sizeof(count));
    if (fds[2].revents != 0)
        r = cli_lines_read(&batch->lines);
    if (r < 0)
        return cli_fail("cannot read the input: %s", strerrordesc_np(-r));
    return CLI_EXIT_OK;
}

/* Until every line has its answer. Returns an exit code. */
static int turn(struct batch *batch)
{
    int64_t close_ns = INT64_MAX;
    int64_t due_ns;

    for (;;) {
        int code = step(batch, &due_ns);

        if (code != CLI_EXIT_OK)
            return code;
        if (batch->output_error == -EPIPE)
            return CLI_EXIT_SIGNAL + SIGPIPE;
        if (batch->output_error < 0)
            return cli_fail("cannot write the answers: %s", strerrordesc_np(-batch->output_error));
        if (batch->is_closed) {
            /* The answers are written: how the stream ends changes nothing. */
            if (!batch->call || cr_clock_mono_ns() >= close_ns)
                return CLI_EXIT_OK;
            if (close_ns == INT64_MAX)
                close_ns = cr_clock_mono_ns() + CLOSE_MS * CR_NS_PER_MS;
            due_ns = close_ns;
        }
        code = wait_for_something(batch, due_ns);
        if (code != CLI_EXIT_OK)
            return code;
    }
}

static void print_summary(const struct cli_batch_items *items, bool is_whole, double seconds)
{
    (void)fprintf(stderr,
                  "crisol: %" PRIu64 " lines in %.1f s: %" PRIu64 " ran, %" PRIu64
                  " were wrong, %" PRIu64 " did not run; %" PRIu64 " sent again",
                  items->lines, seconds, items->ran, items->bad, items->not_run, items->retries);
    for (size_t i = 0; i < CR_ARRAY_SIZE(items->verdicts); i++) {
        if (items->verdicts[i] > 0)
            (void)fprintf(stderr, "; %s %" PRIu32, cli_verdict_name((int)i), items->verdicts[i]);
    }
    if (!is_whole)
        (void)fputs("; what comes behind them was not read", stderr);
    (void)fputc('\n', stderr);
}

static int run(struct batch *batch)
{
    struct cr_err err = CR_ERR_INIT;
    int code;

    batch->channel = cli_connect(batch->options->address);
    if (!batch->channel)
        return CLI_EXIT_SERVICE;
    if (rpc_loop_new(&batch->loop, &err) < 0)
        return cli_fail("%s", err.text);
    code = turn(batch);
    /* Ends the stream: from here on there is one thread. */
    batch->loop = rpc_loop_free(batch->loop);
    batch->call = rpc_client_unref(batch->call);
    if (code == CLI_EXIT_SERVICE && batch->output_error == 0) {
        /* It may have been our own fault, such as an input that cannot be read. */
        if (batch->status.code == RPC_OK)
            rpc_status_set(&batch->status, RPC_CANCELLED, "given up before it was answered");
        if (cli_batch_items_fail(batch->items, (uint32_t)batch->status.code,
                                 batch->status.message) < 0)
            (void)cli_fail("cannot write the answers");
    }
    return code;
}

static int run_all(const struct cli_batch_options *options, int input_fd, int cancel_fd)
{
    int64_t begin_ns = cr_clock_mono_ns();
    struct batch batch = {.options = options, .cancel_fd = cancel_fd};
    CR_AUTO_FREE struct cli_batch_items *items = malloc(sizeof(*items));
    int code = CLI_EXIT_SERVICE;

    batch.items = items;
    batch.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (batch.wake_fd < 0 || !items ||
        cli_batch_items_init(items, options->window, options->is_ordered, STDOUT_FILENO) < 0) {
        cr_close_fd(&batch.wake_fd);
        return cli_fail("no memory or no descriptor is left");
    }
    items->give_up_ns = options->give_up_s * CR_NS_PER_S;
    cli_lines_init(&batch.lines, input_fd, CLI_BATCH_LINE_MAX);
    (void)pthread_mutex_init(&batch.lock, NULL); /* cannot fail with default attributes */
    code = run(&batch);
    (void)rpc_channel_free(batch.channel);
    print_summary(items, batch.has_input_ended,
                  (double)(cr_clock_mono_ns() - begin_ns) / (double)CR_NS_PER_S);
    if (code == CLI_EXIT_OK && items->ran != items->lines)
        code = CLI_EXIT_FAILED;
    (void)pthread_mutex_destroy(&batch.lock);
    cli_lines_done(&batch.lines);
    cli_batch_items_done(items);
    cr_close_fd(&batch.wake_fd);
    return code;
}

static int open_and_run(const struct cli_batch_options *options)
{
    CR_AUTO_CLOSE int opened = -1;
    int code;
    int cancel_fd;

    if (strcmp(options->path, "-") != 0) {
        opened = open(options->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (opened < 0)
            return cli_fail("cannot open '%s': %s", options->path, strerrordesc_np(errno));
    }
    cancel_fd = cli_begin_calls();
    if (cancel_fd < 0)
        return CLI_EXIT_SERVICE;
    code = run_all(options, opened < 0 ? STDIN_FILENO : opened, cancel_fd);
    cli_end_calls(cancel_fd);
    return code;
}

int cli_batch(int argc, char **argv)
{
    struct cli_batch_options options;
    int code = CLI_EXIT_SERVICE;
    int r = cli_batch_options_parse(&options, argc, argv);

    if (r == 0)
        code = open_and_run(&options);
    else if (r > 0)
        code = CLI_EXIT_OK;
    cli_batch_options_done(&options);
    return code;
}
