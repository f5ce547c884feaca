/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/batch_items.h"

#include "clients/crisol/cli.h"
#include "common/auto.h"
#include "common/clock.h"
#include "common/unconst.h"
#include "rpc/json.h"
#include "rpc/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#define BYTES_MAX (64U << 20)        /* of the lines in hand, but one alone may always be */
#define OUTPUT_BYTES_MAX (64U << 20) /* an answer of 4 MiB, escaped */
#define BACKOFF_MS 50
#define BACKOFF_DOUBLINGS 6U
#define LOSSES_MAX 3U

int cli_batch_items_init(struct cli_batch_items *items, uint32_t window, bool is_ordered,
                         int output_fd)
{
    uint64_t drawn;

    if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
        return -errno;
    *items = (struct cli_batch_items){
        .window = window,
        .is_ordered = is_ordered,
        .output_fd = output_fd,
        .random = (uint32_t)drawn | 1U,
        .progress_ns = cr_clock_mono_ns(),
    };
    (void)snprintf(items->prefix, sizeof(items->prefix), "batch-%016" PRIx64, drawn);
    for (uint32_t i = 0; i < CLI_BATCH_WINDOW_MAX; i++)
        cr_buf_init(&items->items[i].output, OUTPUT_BYTES_MAX);
    return 0;
}

static void free_item(struct cli_batch_items *items, struct cli_item *item)
{
    if (item->state == CLI_ITEM_FREE)
        return;
    items->bytes -= item->bytes;
    items->used--;
    if (item->request)
        protobuf_c_message_free_unpacked(&item->request->base, NULL);
    free(item->id);
    cr_buf_done(&item->output);
    *item = (struct cli_item){.output = item->output};
}

void cli_batch_items_done(struct cli_batch_items *items)
{
    for (uint32_t i = 0; i < items->window; i++)
        free_item(items, &items->items[i]);
}

bool cli_batch_items_has_room(const struct cli_batch_items *items)
{
    return items->used < items->window &&
           (items->used == 0 || items->bytes + CLI_BATCH_LINE_MAX <= BYTES_MAX);
}

/* ---- output ---- */

/* The line that is to be written next: the first that is done, in order only if none before it is
 * in hand. NULL: none. */
static struct cli_item *next_done(struct cli_batch_items *items)
{
    struct cli_item *first = NULL;

    for (uint32_t i = 0; i < items->window; i++) {
        struct cli_item *item = &items->items[i];
        bool counts =
            items->is_ordered ? item->state != CLI_ITEM_FREE : item->state == CLI_ITEM_DONE;

        if (counts && (!first || item->line < first->line))
            first = item;
    }
    return first && first->state == CLI_ITEM_DONE ? first : NULL;
}

static int write_done(struct cli_batch_items *items)
{
    struct cli_item *item;

    while ((item = next_done(items)) != NULL) {
        int r = cli_write_all(items->output_fd, item->output.data, item->output.size);

        if (r < 0)
            return r;
        free_item(items, item);
    }
    return 0;
}

/* The end of a line. `response` is borrowed; its id is replaced. */
static int finish(struct cli_batch_items *items, struct cli_item *item,
                  const Crisol__Sandbox__V1__RunBatchResponse *response)
{
    static const struct rpc_json_style style = {
        .use_snake_case = true, .with_defaults = true, .int64_as_number = true};
    Crisol__Sandbox__V1__RunBatchResponse named = *response;
    int r;

    /* cppcheck-suppress unreadVariable ; read through its base */
    named.id = item->id;
    r = rpc_json_write(&named.base, &style, &item->output);
    if (r == 0)
        r = cr_buf_add_char(&item->output, '\n');
    if (r < 0)
        return r;
    item->state = CLI_ITEM_DONE;
    items->progress_ns = cr_clock_mono_ns();
    return write_done(items);
}

static int finish_error(struct cli_batch_items *items, struct cli_item *item, uint32_t code,
                        const char *message)
{
    Crisol__Sandbox__V1__RunBatchResponse response = CRISOL__SANDBOX__V1__RUN_BATCH_RESPONSE__INIT;
    Crisol__Sandbox__V1__BatchError error = CRISOL__SANDBOX__V1__BATCH_ERROR__INIT;

    error.code = code;
    error.code_name = cr_unconst(rpc_code_name((enum rpc_code)code));
    error.message = cr_unconst(message);
    response.error = &error;
    return finish(items, item, &response);
}

/* ---- input ---- */

/* Replaces a string of an unpacked message. */
static int set_string(char **field, const char *value)
{
    char *copy = strdup(value);

    if (!copy)
        return -ENOMEM;
    if (*field != (const char *)protobuf_c_empty_string)
        free(*field);
    *field = copy;
    return 0;
}

static int add_limits(Crisol__Sandbox__V1__ExecuteRequest *request, uint32_t wall_time_ms)
{
    if (!request->limits) {
        request->limits = malloc(sizeof(*request->limits));
        if (!request->limits)
            return -ENOMEM;
        crisol__sandbox__v1__limits__init(request->limits);
    }
    if (request->limits->wall_time_ms == 0)
        request->limits->wall_time_ms = wall_time_ms;
    return 0;
}

static int add_program(Crisol__Sandbox__V1__ExecuteRequest *request,
                       const struct cli_batch_defaults *defaults)
{
    int r = 0;

    if (defaults->code && *request->code == '\0' && request->n_command == 0)
        r = set_string(&request->code, defaults->code);
    if (r == 0 && *request->runtime == '\0')
        r = set_string(&request->runtime, defaults->runtime);
    if (r == 0 && defaults->wall_time_ms > 0)
        r = add_limits(request, defaults->wall_time_ms);
    return r;
}

/* What is sent: the number of the line as its id, and a request id to try again by. */
static int complete(const struct cli_batch_items *items, struct cli_item *item,
                    const struct cli_batch_defaults *defaults)
{
    Crisol__Sandbox__V1__RunBatchRequest *message = item->request;
    char number[24];
    char request_id[64];
    int r = 0;

    if (!message->request) {
        message->request = malloc(sizeof(*message->request));
        if (!message->request)
            return -ENOMEM;
        crisol__sandbox__v1__execute_request__init(message->request);
    }
    (void)snprintf(number, sizeof(number), "%" PRIu64, item->line);
    (void)snprintf(request_id, sizeof(request_id), "%s-%s", items->prefix, number);
    if (*message->id != '\0') {
        item->id = message->id;
        message->id = cr_unconst(protobuf_c_empty_string);
    } else {
        item->id = strdup(number);
        r = item->id ? 0 : -ENOMEM;
    }
    if (r == 0)
        r = set_string(&message->id, number);
    if (r == 0 && *message->request->request_id == '\0')
        r = set_string(&message->request->request_id, request_id);
    message->request->output_text = true;
    return r == 0 ? add_program(message->request, defaults) : r;
}

static int refuse_line(struct cli_batch_items *items, struct cli_item *item, const char *problem)
{
    char text[RPC_MESSAGE_MAX + 64];

    (void)snprintf(text, sizeof(text), "line %" PRIu64 ": %s", item->line, problem);
    (void)fputs("crisol: ", stderr);
    cli_print_untrusted(stderr, text, strlen(text));
    (void)fputc('\n', stderr);
    items->bad++;
    if (!item->id && asprintf(&item->id, "%" PRIu64, item->line) < 0) {
        item->id = NULL;
        return -ENOMEM;
    }
    return finish_error(items, item, RPC_INVALID_ARGUMENT, text);
}

static struct cli_item *take_free(struct cli_batch_items *items)
{
    struct cli_item *item = items->items;

    while (item->state != CLI_ITEM_FREE) /* has_room was asked before */
        item++;
    items->used++;
    return item;
}

int cli_batch_items_add(struct cli_batch_items *items, uint64_t line, const char *text, size_t size,
                        const struct cli_batch_defaults *defaults)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct cli_item *item = take_free(items);
    ProtobufCMessage *message = NULL;
    int r;

    item->state = CLI_ITEM_READY;
    item->line = line;
    item->bytes = size;
    items->bytes += size;
    items->lines++;
    if (!text)
        return refuse_line(items, item, "is longer than 4 MiB, the most that a request holds");
    r = rpc_json_read(&crisol__sandbox__v1__run_batch_request__descriptor, text, size, &message,
                      &status);
    if (r == -EINVAL)
        return refuse_line(items, item, status.message);
    if (r < 0)
        return r;
    item->request = (Crisol__Sandbox__V1__RunBatchRequest *)(void *)message;
    return complete(items, item, defaults);
}

/* ---- service ---- */

struct cli_item *cli_batch_items_next(struct cli_batch_items *items, int64_t now_ns,
                                      int64_t *ret_due_ns)
{
    struct cli_item *first = NULL;
    int64_t due_ns = INT64_MAX;

    for (uint32_t i = 0; i < items->window; i++) {
        struct cli_item *item = &items->items[i];

        if (item->state != CLI_ITEM_READY)
            continue;
        if (item->due_ns > now_ns)
            due_ns = item->due_ns < due_ns ? item->due_ns : due_ns;
        else if (!first || item->line < first->line)
            first = item;
    }
    *ret_due_ns = due_ns;
    return first;
}

int64_t cli_batch_backoff_ns(struct cli_batch_items *items, uint32_t tries)
{
    uint32_t doublings = tries < BACKOFF_DOUBLINGS ? tries : BACKOFF_DOUBLINGS;
    int64_t base_ns = (BACKOFF_MS * CR_NS_PER_MS) << doublings;

    /* xorshift32: many clients that were refused together do not come back together. */
    items->random ^= items->random << 13;
    items->random ^= items->random >> 17;
    items->random ^= items->random << 5;
    return base_ns / 2 + (int64_t)(items->random % 1024U) * (base_ns / 1024);
}

static bool is_passing(uint32_t code)
{
    return code == RPC_RESOURCE_EXHAUSTED || code == RPC_UNAVAILABLE;
}

/* No wait is longer than we would wait for any answer: past that the next refusal is the last. */
static void try_again(struct cli_batch_items *items, struct cli_item *item, int64_t after_ns)
{
    int64_t wait_ns = cli_batch_backoff_ns(items, item->tries);
    int64_t least_ns = after_ns < items->give_up_ns ? after_ns : items->give_up_ns;

    item->tries++;
    items->retries++;
    item->state = CLI_ITEM_READY;
    item->due_ns = cr_clock_mono_ns() + (wait_ns > least_ns ? wait_ns : least_ns);
}

static int on_error(struct cli_batch_items *items, struct cli_item *item,
                    const Crisol__Sandbox__V1__RunBatchResponse *response)
{
    const Crisol__Sandbox__V1__BatchError *error = response->error;
    bool is_hopeless = cr_clock_mono_ns() - items->progress_ns > items->give_up_ns;

    if (is_passing(error->code) && !is_hopeless) {
        try_again(items, item, (int64_t)error->retry_after_ms * CR_NS_PER_MS);
        return 0;
    }
    if (error->code == RPC_INVALID_ARGUMENT || error->code == RPC_NOT_FOUND) {
        (void)fprintf(stderr, "crisol: line %" PRIu64 ": ", item->line);
        cli_print_untrusted(stderr, error->message, strlen(error->message));
        (void)fputc('\n', stderr);
        items->bad++;
    } else {
        items->not_run++;
    }
    return finish(items, item, response);
}

static int on_result(struct cli_batch_items *items, struct cli_item *item,
                     const Crisol__Sandbox__V1__RunBatchResponse *response)
{
    const Crisol__Sandbox__V1__ExecuteResult *result =
        response->response ? response->response->result : NULL;
    const Crisol__Sandbox__V1__Verdict *verdict = result ? result->verdict : NULL;

    if (!verdict) {
        items->not_run++;
        return finish_error(items, item, RPC_INTERNAL, "the answer has no verdict");
    }
    if (verdict->retryable && item->losses < LOSSES_MAX) {
        item->losses++;
        try_again(items, item, 0);
        return 0;
    }
    if (verdict->retryable)
        items->not_run++;
    else
        items->ran++;
    if ((unsigned)verdict->code < CR_ARRAY_SIZE(items->verdicts))
        items->verdicts[verdict->code]++;
    return finish(items, item, response);
}

int cli_batch_items_answer(struct cli_batch_items *items,
                           const Crisol__Sandbox__V1__RunBatchResponse *response)
{
    for (uint32_t i = 0; i < items->window; i++) {
        struct cli_item *item = &items->items[i];

        if (item->state == CLI_ITEM_SENT && strcmp(item->request->id, response->id) == 0)
            return response->error ? on_error(items, item, response)
                                   : on_result(items, item, response);
    }
    return 0;
}

void cli_batch_items_lost(struct cli_batch_items *items)
{
    for (uint32_t i = 0; i < items->window; i++) {
        if (items->items[i].state == CLI_ITEM_SENT) {
            items->items[i].state = CLI_ITEM_READY;
            items->retries++;
        }
    }
}

int cli_batch_items_fail(struct cli_batch_items *items, uint32_t code, const char *message)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < items->window; i++) {
        struct cli_item *item = &items->items[i];

        if (item->state != CLI_ITEM_READY && item->state != CLI_ITEM_SENT)
            continue;
        items->not_run++;
        r = finish_error(items, item, code, message);
    }
    return r;
}
