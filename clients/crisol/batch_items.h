/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest number of cli_batch_items.window. */
#define CLI_BATCH_WINDOW_MAX 256U
#define CLI_BATCH_LINE_MAX (4U << 20) /* what the service takes in one message */

enum cli_item_state {
    CLI_ITEM_FREE,
    CLI_ITEM_READY, /* to be sent, from due_ns on */
    CLI_ITEM_SENT,  /* an answer is to come */
    CLI_ITEM_DONE,  /* its output is to be written */
};

/* One line of the input, until its answer is written. */
struct cli_item {
    enum cli_item_state state;
    uint64_t line;
    Crisol__Sandbox__V1__RunBatchRequest *request; /* NULL: the line was no request */
    char *id;     /* of the line, else its number; what is sent is the number */
    size_t bytes; /* of the line */
    int64_t due_ns;
    uint32_t tries;  /* answers that were no result */
    uint32_t losses; /* of these: the sandbox failed */
    struct cr_buf output;
};

/* What every line gets that does not say otherwise. */
struct cli_batch_defaults {
    const char *runtime;
    const char *code; /* NULL: none */
    uint32_t wall_time_ms;
};

/*
 * The lines in hand, at most `window`, and what became of all others in
 * numbers. Not thread-safe.
 */
struct cli_batch_items {
    struct cli_item items[CLI_BATCH_WINDOW_MAX];
    uint32_t window;
    bool is_ordered; /* write in the order of the lines */
    char prefix[24]; /* of the request ids that we draw */
    uint32_t random; /* state */
    size_t bytes;    /* of the lines in hand */
    uint32_t used;   /* not free */
    int output_fd;   /* borrowed */
    int64_t give_up_ns;
    int64_t progress_ns; /* when the last line got its end */
    uint64_t lines, ran, bad, not_run, retries;
    uint32_t verdicts[64]; /* by code */
};

/* Returns 0 or -errno. */
int cli_batch_items_init(struct cli_batch_items *items, uint32_t window, bool is_ordered,
                         int output_fd);
void cli_batch_items_done(struct cli_batch_items *items);

/* True when one more line may be read. */
bool cli_batch_items_has_room(const struct cli_batch_items *items);

/*
 * A line of the input. One that is no request gets its answer at once, and
 * stderr says what is wrong; so does one that was too long (`text` NULL).
 * Returns 0, or -errno for the output.
 */
int cli_batch_items_add(struct cli_batch_items *items, uint64_t line, const char *text, size_t size,
                        const struct cli_batch_defaults *defaults);

/* The first line that is to be sent by now. NULL: none; then *ret_due_ns is when one will be
 * (INT64_MAX: none). */
struct cli_item *cli_batch_items_next(struct cli_batch_items *items, int64_t now_ns,
                                      int64_t *ret_due_ns);

/* An answer. Unknown ids are left out. Returns 0, or -errno for the output. */
int cli_batch_items_answer(struct cli_batch_items *items,
                           const Crisol__Sandbox__V1__RunBatchResponse *response);

/* The stream broke: what has no answer is to be sent again. */
void cli_batch_items_lost(struct cli_batch_items *items);

/* Nothing more is sent: each line in hand gets this error. Returns 0, or -errno for the output. */
int cli_batch_items_fail(struct cli_batch_items *items, uint32_t code, const char *message);

/* For the next try after `tries` that failed, with some chance in it. */
int64_t cli_batch_backoff_ns(struct cli_batch_items *items, uint32_t tries);
