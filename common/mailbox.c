/* SPDX-License-Identifier: Apache-2.0 */
#include "common/mailbox.h"

#include "common/auto.h"
#include "common/err.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <sys/eventfd.h>

struct cr_mailbox {
    pthread_mutex_t lock; /* guards the list and `count` */
    struct cr_mail *first;
    struct cr_mail *last;
    size_t count;
    size_t cap;
    int event_fd;
};

int cr_mailbox_new(size_t cap, struct cr_mailbox **ret_mailbox, struct cr_err *err)
{
    struct cr_mailbox *mailbox = calloc(1, sizeof(*mailbox));

    if (!mailbox)
        return cr_err_set(err, ENOMEM, "out of memory for a mailbox");
    mailbox->cap = cap;
    mailbox->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->event_fd < 0) {
        int error = errno;

        free(mailbox);
        return cr_err_sys(err, error, "create eventfd of a mailbox");
    }
    (void)pthread_mutex_init(&mailbox->lock, NULL); /* cannot fail with default attributes */
    *ret_mailbox = mailbox;
    return 0;
}

struct cr_mailbox *cr_mailbox_free(struct cr_mailbox *mailbox)
{
    if (!mailbox)
        return NULL;
    (void)pthread_mutex_destroy(&mailbox->lock);
    (void)close(mailbox->event_fd);
    free(mailbox);
    return NULL;
}

int cr_mailbox_post(struct cr_mailbox *mailbox, struct cr_mail *mail, bool is_urgent)
{
    const uint64_t one = 1;
    bool was_empty;

    (void)pthread_mutex_lock(&mailbox->lock);
    if (mailbox->count >= mailbox->cap && !is_urgent) {
        (void)pthread_mutex_unlock(&mailbox->lock);
        return -ENOSPC;
    }
    was_empty = mailbox->count == 0;
    mail->next = NULL;
    if (mailbox->last)
        mailbox->last->next = mail;
    else
        mailbox->first = mail;
    mailbox->last = mail;
    mailbox->count++;
    /* Under the lock, so that take_all cannot reset the eventfd between the two. */
    if (was_empty)
        (void)!write(mailbox->event_fd, &one, sizeof(one));
    (void)pthread_mutex_unlock(&mailbox->lock);
    return 0;
}

struct cr_mail *cr_mailbox_take_all(struct cr_mailbox *mailbox)
{
    struct cr_mail *first;
    uint64_t count;

    (void)pthread_mutex_lock(&mailbox->lock);
    first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = NULL;
    mailbox->count = 0;
    if (first)
        (void)!read(mailbox->event_fd, &count, sizeof(count));
    (void)pthread_mutex_unlock(&mailbox->lock);
    return first;
}

int cr_mailbox_fd(const struct cr_mailbox *mailbox)
{
    return mailbox->event_fd;
}
