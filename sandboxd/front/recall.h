/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/digest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What was answered to requests that carry a request id, so that a retry gets
 * the first answer instead of running twice.
 *
 * Keyed by caller and request id. Bounded in count and bytes, for all callers
 * together and for each: whoever uses too much loses its own oldest answers.
 * An answer lives for SBX_RECALL_LIFE_MS from its end. Not thread-safe: the
 * completion queue thread has it.
 */
#define SBX_RECALL_LIFE_MS (INT64_C(10) * 60 * 1000)
#define SBX_RECALL_ANSWERS_MAX 1024U       /* that have ended */
#define SBX_RECALL_CALLER_ANSWERS_MAX 256U /* of these, of one caller */
#define SBX_RECALL_BYTES_MAX (32U << 20)   /* all answers together */
#define SBX_RECALL_CALLER_BYTES_MAX (16U << 20)
#define SBX_RECALL_ANSWER_BYTES_MAX (8U << 20) /* one; a larger one is not kept, but known */

/* One request and its answer. Reference-counted: the store, its owner, those who wait or read. */
struct sbx_record;

/* Somebody who waits for the end of a record. Embedded in its owner. */
struct sbx_waiter {
    struct sbx_waiter *next;
    void (*wake)(void *user);
    void *user;
};

struct sbx_recall {
    struct sbx_record *first; /* in order of their end; those without one have none yet */
    struct sbx_record *last;
    size_t bytes;
    size_t ended;
};

enum sbx_claim {
    SBX_CLAIM_OWN,      /* new: run it, add to the record, end or drop it */
    SBX_CLAIM_WAIT,     /* the same runs now: the waiter is woken at its end */
    SBX_CLAIM_ANSWERED, /* read the record */
    SBX_CLAIM_NOT_KEPT, /* it ran, but its answer was too large to be kept */
    SBX_CLAIM_OTHER,    /* the id was used for another request */
};

/* What a request is known by. */
struct sbx_recall_key {
    const char *caller;
    const char *request_id;
    const char *digest; /* of method and body, 64 hexadecimal digits */
};

/* Every record must have been let go by its owner and its waiters. */
void sbx_recall_done(struct sbx_recall *recall);

/*
 * Looks a request up. OWN, WAIT and ANSWERED give a reference in *ret_record,
 * which goes back with sbx_record_unref(); WAIT enters `waiter`, which leaves
 * by itself when it is woken, or with sbx_record_leave().
 * Returns an enum sbx_claim, or -ENOMEM.
 */
int sbx_recall_claim(struct sbx_recall *recall, const struct sbx_recall_key *key, int64_t now_ns,
                     struct sbx_waiter *waiter, struct sbx_record **ret_record);

/* Forgets answers that have outlived their life. */
void sbx_recall_expire(struct sbx_recall *recall, int64_t now_ns);

/* The owner: keeps one message of the answer. What does not fit is not kept. */
void sbx_record_add(struct sbx_record *record, const ProtobufCMessage *message);

/* The owner: the answer is complete. Wakes everybody who waits. */
void sbx_record_end(struct sbx_record *record, int64_t now_ns);

/* The owner: there is no answer; a retry runs anew. Wakes everybody who waits. Nothing after
 * sbx_record_end(). */
void sbx_record_drop(struct sbx_record *record);

/* What claiming anew would yield, for somebody who waited. False: it was dropped, claim again. */
bool sbx_record_is_known(const struct sbx_record *record);
bool sbx_record_has_ended(const struct sbx_record *record);
bool sbx_record_is_kept(const struct sbx_record *record);

/* The message at *at, which moves on. Returns false at the end. */
bool sbx_record_next(const struct sbx_record *record, size_t *at, const uint8_t **ret_data,
                     size_t *ret_size);

/* True when nothing comes after `at`. */
bool sbx_record_is_last(const struct sbx_record *record, size_t at);

/* Safe when the waiter has left already. */
void sbx_record_leave(struct sbx_record *record, struct sbx_waiter *waiter);

/* NULL is allowed; always returns NULL. */
struct sbx_record *sbx_record_unref(struct sbx_record *record);

/* The digest of a key: sha256 of method and body, the environment in order of its names. Returns 0
 * or -ENOMEM. */
int sbx_recall_digest(const char *method, const Crisol__Sandbox__V1__ExecuteRequest *message,
                      char ret_digest[SBX_DIGEST_SIZE]);
