/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/store/writer.h"

#include "common/err.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include <sys/prctl.h>

#define RETRY_MS 200

struct agt_writer {
    const struct agt_writer_ops *ops;
    struct agt_store *store; /* borrowed */
    void *user;
    struct cr_mailbox *mailbox; /* of batches */
    pthread_t thread;
    atomic_bool must_stop;
    atomic_bool is_hurried;
};

static void finish(struct agt_store_batch *first, int error)
{
    struct cr_mail *next;

    for (struct cr_mail *mail = &first->link; mail; mail = next) {
        struct agt_store_batch *batch = (struct agt_store_batch *)(void *)mail;

        next = mail->next;
        batch->on_done(batch, error ? error : batch->error);
    }
}

/* Tries until it is written: a run goes on when its journal does, and never before. */
static void write_all(struct agt_writer *writer, struct agt_store_batch *first)
{
    bool is_written = writer->ops->write(writer->user, first, false);

    while (!is_written && !atomic_load(&writer->is_hurried)) {
        (void)poll(NULL, 0, RETRY_MS);
        if (writer->ops->keep_up)
            writer->ops->keep_up(writer->user);
        is_written = writer->ops->write(writer->user, first, true);
    }
    finish(first, is_written ? 0 : -ECANCELED);
}

/* Takes what reads out of a list, in order. */
static struct agt_store_batch *split_reads(struct cr_mail **list)
{
    struct cr_mail *reads = NULL;
    struct cr_mail **end = &reads;

    while (*list) {
        struct cr_mail *mail = *list;

        if (((struct agt_store_batch *)(void *)mail)->on_event) {
            *list = mail->next;
            mail->next = NULL;
            *end = mail;
            end = &mail->next;
        } else {
            list = &mail->next;
        }
    }
    return (struct agt_store_batch *)(void *)reads;
}

static int tell_batch(void *user, const struct agt_store_event *event)
{
    struct agt_store_batch *batch = user;

    return batch->on_event(batch, event);
}

static void read_all(struct agt_writer *writer, struct agt_store_batch *first)
{
    struct cr_mail *next;

    for (struct cr_mail *mail = first ? &first->link : NULL; mail; mail = next) {
        struct agt_store_batch *batch = (struct agt_store_batch *)(void *)mail;

        next = mail->next;
        batch->on_done(batch, writer->store->ops->load_events(writer->store, batch->run_id,
                                                              tell_batch, batch, NULL));
    }
}

static void wait_for_work(struct agt_writer *writer)
{
    struct pollfd waiters[2] = {
        {.fd = cr_mailbox_fd(writer->mailbox), .events = POLLIN},
        {.fd = writer->ops->fd ? writer->ops->fd(writer->user) : -1, .events = POLLIN},
    };

    (void)poll(waiters, 2, RETRY_MS);
}

static void *writer_main(void *user)
{
    struct agt_writer *writer = user;
    bool is_last = false;

    (void)prctl(PR_SET_NAME, "store", 0, 0, 0);
    while (!is_last) {
        struct agt_store_batch *reads;
        struct cr_mail *mails;

        wait_for_work(writer);
        is_last = atomic_load(&writer->must_stop); /* before the take: nothing is left behind */
        mails = cr_mailbox_take_all(writer->mailbox);
        reads = split_reads(&mails);
        if (mails) /* all that came meanwhile, in one transaction */
            write_all(writer, (struct agt_store_batch *)(void *)mails);
        read_all(writer, reads);
        if (!is_last)
            writer->ops->look_after(writer->user);
    }
    return NULL;
}

int agt_writer_start(const struct agt_writer_ops *ops, struct agt_store *store, void *user,
                     struct agt_writer **ret_writer, struct cr_err *err)
{
    struct agt_writer *writer = calloc(1, sizeof(*writer));
    int r;

    if (!writer)
        return cr_err_set(err, ENOMEM, "out of memory for the store");
    writer->ops = ops;
    writer->store = store;
    writer->user = user;
    r = cr_mailbox_new(65536, &writer->mailbox, err);
    if (r == 0) {
        r = -pthread_create(&writer->thread, NULL, writer_main, writer);
        if (r < 0)
            (void)cr_err_sys(err, -r, "start the thread of the store");
    }
    if (r < 0) {
        (void)cr_mailbox_free(writer->mailbox);
        free(writer);
        return r;
    }
    *ret_writer = writer;
    return 0;
}

void agt_writer_append(struct agt_writer *writer, struct agt_store_batch *take_batch)
{
    /* Urgent: a run has a bounded number of batches on their way. */
    (void)cr_mailbox_post(writer->mailbox, &take_batch->link, true);
}

void agt_writer_hurry(struct agt_writer *writer)
{
    atomic_store(&writer->is_hurried, true);
}

struct agt_writer *agt_writer_stop(struct agt_writer *writer)
{
    if (!writer)
        return NULL;
    agt_writer_hurry(writer);
    atomic_store(&writer->must_stop, true);
    (void)pthread_join(writer->thread, NULL);
    (void)cr_mailbox_free(writer->mailbox);
    free(writer);
    return NULL;
}
