/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cr_err;

/*
 * Messages from many threads to one loop: an intrusive queue, a mutex and an
 * eventfd that is readable while there is something to take. The cap bounds
 * it; a producer that meets the cap is told so and drops or retries.
 */
struct cr_mailbox;

/* Put first into every message, so that a struct cr_mail * is the message. */
struct cr_mail {
    struct cr_mail *next;
};

/* `cap` is in messages. */
int cr_mailbox_new(size_t cap, struct cr_mailbox **ret_mailbox, struct cr_err *err);

/* Must be empty, or its messages leak. NULL is allowed; always returns NULL. */
struct cr_mailbox *cr_mailbox_free(struct cr_mailbox *mailbox);

/*
 * Takes the message. Any thread. Returns 0, or -ENOSPC at the cap; then the
 * message stays the caller's. `is_urgent` passes the cap: for ends and
 * cancels, of which there is at most one per live object.
 */
int cr_mailbox_post(struct cr_mailbox *mailbox, struct cr_mail *mail, bool is_urgent);

/* All messages in the order they came, NULL when there are none; resets the eventfd. */
struct cr_mail *cr_mailbox_take_all(struct cr_mailbox *mailbox);

/* Borrowed; readable while there is something to take. */
int cr_mailbox_fd(const struct cr_mailbox *mailbox);
