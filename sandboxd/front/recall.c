/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/recall.h"

#include "common/buf.h"
#include "common/clock.h"
#include "sandboxd/front/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sbx_record {
    struct sbx_record *previous;
    struct sbx_record *next;
    struct sbx_recall *recall; /* borrowed: outlives every record; NULL: not in it any more */
    struct sbx_waiter *waiters;
    unsigned int refs;
    bool has_ended;
    bool is_too_large;
    int64_t ended_ns;
    char *caller; /* one allocation with the request id */
    const char *request_id;
    char digest[SBX_DIGEST_SIZE];
    struct cr_buf frames; /* each: its size, then a packed message */
};

static struct sbx_record *ref(struct sbx_record *record)
{
    record->refs++;
    return record;
}

struct sbx_record *sbx_record_unref(struct sbx_record *record)
{
    if (!record || --record->refs > 0)
        return NULL;
    cr_buf_done(&record->frames);
    free(record->caller);
    free(record);
    return NULL;
}

/* ---- the list ---- */

static void append(struct sbx_recall *recall, struct sbx_record *record)
{
    record->recall = recall;
    record->previous = recall->last;
    record->next = NULL;
    *(recall->last ? &recall->last->next : &recall->first) = record;
    recall->last = record;
}

static void take_out(struct sbx_recall *recall, const struct sbx_record *record)
{
    *(record->previous ? &record->previous->next : &recall->first) = record->next;
    *(record->next ? &record->next->previous : &recall->last) = record->previous;
}

static void forget(struct sbx_recall *recall, struct sbx_record *record)
{
    take_out(recall, record);
    recall->bytes -= record->frames.size;
    recall->ended -= record->has_ended ? 1 : 0;
    record->recall = NULL;
    (void)sbx_record_unref(record);
}

void sbx_recall_done(struct sbx_recall *recall)
{
    while (recall->first)
        forget(recall, recall->first);
}

void sbx_recall_expire(struct sbx_recall *recall, int64_t now_ns)
{
    struct sbx_record *record = recall->first;

    while (record) {
        struct sbx_record *next = record->next;

        if (record->has_ended &&
            now_ns - record->ended_ns >= SBX_RECALL_LIFE_MS * (int64_t)CR_NS_PER_MS)
            forget(recall, record);
        record = next;
    }
}

/* ---- bounds ---- */

/* The oldest answer that may go: of `caller`, or of anybody when it is NULL. */
static struct sbx_record *oldest(const struct sbx_recall *recall, const char *caller)
{
    for (struct sbx_record *record = recall->first; record; record = record->next) {
        if (record->has_ended && (!caller || strcmp(record->caller, caller) == 0))
            return record;
    }
    return NULL;
}

static void measure(const struct sbx_recall *recall, const char *caller, size_t *ret_bytes,
                    size_t *ret_ended)
{
    *ret_bytes = 0;
    *ret_ended = 0;
    for (const struct sbx_record *record = recall->first; record; record = record->next) {
        if (strcmp(record->caller, caller) == 0) {
            *ret_bytes += record->frames.size;
            *ret_ended += record->has_ended ? 1 : 0;
        }
    }
}

/* Lets answers go until `size` more bytes fit. The caller's own go first. */
static bool make_room(struct sbx_recall *recall, const char *caller, size_t size)
{
    struct sbx_record *victim;
    size_t bytes;
    size_t ended;

    for (;;) {
        bool is_caller_over;

        measure(recall, caller, &bytes, &ended);
        is_caller_over = bytes + size > SBX_RECALL_CALLER_BYTES_MAX;
        if (!is_caller_over && recall->bytes + size <= SBX_RECALL_BYTES_MAX)
            return true;
        victim = oldest(recall, is_caller_over ? caller : NULL);
        if (!victim)
            return false;
        forget(recall, victim);
    }
}

static void forget_oldest(struct sbx_recall *recall, const char *caller)
{
    struct sbx_record *victim = oldest(recall, caller);

    if (victim)
        forget(recall, victim);
}

static void bound_count(struct sbx_recall *recall, const char *caller)
{
    size_t bytes;
    size_t ended;

    measure(recall, caller, &bytes, &ended);
    if (ended > SBX_RECALL_CALLER_ANSWERS_MAX)
        forget_oldest(recall, caller);
    if (recall->ended > SBX_RECALL_ANSWERS_MAX)
        forget_oldest(recall, NULL);
}

/* ---- claims ---- */

static struct sbx_record *find(const struct sbx_recall *recall, const struct sbx_recall_key *key)
{
    for (struct sbx_record *record = recall->first; record; record = record->next) {
        if (strcmp(record->request_id, key->request_id) == 0 &&
            strcmp(record->caller, key->caller) == 0)
            return record;
    }
    return NULL;
}

static struct sbx_record *new_record(const struct sbx_recall_key *key)
{
    size_t caller_size = strlen(key->caller) + 1;
    size_t id_size = strlen(key->request_id) + 1;
    struct sbx_record *record = calloc(1, sizeof(*record));

    if (!record)
        return NULL;
    record->caller = malloc(caller_size + id_size);
    if (!record->caller) {
        free(record);
        return NULL;
    }
    memcpy(record->caller, key->caller, caller_size);
    memcpy(record->caller + caller_size, key->request_id, id_size);
    record->request_id = record->caller + caller_size;
    memcpy(record->digest, key->digest, strnlen(key->digest, SBX_DIGEST_SIZE - 1));
    record->refs = 1;
    cr_buf_init(&record->frames, SBX_RECALL_ANSWER_BYTES_MAX);
    return record;
}

int sbx_recall_claim(struct sbx_recall *recall, const struct sbx_recall_key *key, int64_t now_ns,
                     struct sbx_waiter *waiter, struct sbx_record **ret_record)
{
    struct sbx_record *record;

    sbx_recall_expire(recall, now_ns);
    record = find(recall, key);
    if (!record) {
        record = new_record(key);
        if (!record)
            return -ENOMEM;
        append(recall, record);
        *ret_record = ref(record);
        return SBX_CLAIM_OWN;
    }
    if (strcmp(record->digest, key->digest) != 0)
        return SBX_CLAIM_OTHER;
    if (record->has_ended && record->is_too_large)
        return SBX_CLAIM_NOT_KEPT;
    *ret_record = ref(record);
    if (record->has_ended)
        return SBX_CLAIM_ANSWERED;
    waiter->next = record->waiters;
    record->waiters = waiter;
    return SBX_CLAIM_WAIT;
}

void sbx_record_leave(struct sbx_record *record, struct sbx_waiter *waiter)
{
    struct sbx_waiter **slot = &record->waiters;

    while (*slot && *slot != waiter)
        slot = &(*slot)->next;
    if (*slot)
        *slot = waiter->next;
}

static void wake_all(struct sbx_record *record)
{
    while (record->waiters) {
        struct sbx_waiter *waiter = record->waiters;

        record->waiters = waiter->next;
        waiter->wake(waiter->user);
    }
}

/* ---- the owner ---- */

static void give_up_keeping(struct sbx_record *record)
{
    record->is_too_large = true;
    record->recall->bytes -= record->frames.size;
    cr_buf_done(&record->frames);
}

void sbx_record_add(struct sbx_record *record, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed;

    if (!record->recall || record->is_too_large)
        return;
    packed = size <= SBX_RECALL_ANSWER_BYTES_MAX &&
                     make_room(record->recall, record->caller, size + sizeof(size))
                 ? malloc(size + sizeof(size))
                 : NULL;
    if (!packed) {
        give_up_keeping(record);
        return;
    }
    memcpy(packed, &size, sizeof(size));
    (void)protobuf_c_message_pack(message, packed + sizeof(size));
    if (cr_buf_add(&record->frames, packed, size + sizeof(size)) < 0)
        give_up_keeping(record);
    else
        record->recall->bytes += size + sizeof(size);
    free(packed);
}

void sbx_record_end(struct sbx_record *record, int64_t now_ns)
{
    if (!record->recall || record->has_ended)
        return;
    record->has_ended = true;
    record->ended_ns = now_ns;
    record->recall->ended++;
    take_out(record->recall, record); /* to the end of the list: oldest first */
    append(record->recall, record);
    bound_count(record->recall, record->caller);
    wake_all(record);
}

void sbx_record_drop(struct sbx_record *record)
{
    if (!record->recall || record->has_ended)
        return;
    forget(record->recall, record); /* the owner still has its reference */
    wake_all(record);
}

/* ---- readers ---- */

bool sbx_record_is_known(const struct sbx_record *record)
{
    return record->has_ended || record->recall;
}

bool sbx_record_has_ended(const struct sbx_record *record)
{
    return record->has_ended;
}

bool sbx_record_is_kept(const struct sbx_record *record)
{
    return !record->is_too_large;
}

bool sbx_record_next(const struct sbx_record *record, size_t *at, const uint8_t **ret_data,
                     size_t *ret_size)
{
    size_t size;

    if (record->frames.size - *at < sizeof(size))
        return false;
    memcpy(&size, record->frames.data + *at, sizeof(size));
    *ret_data = record->frames.data + *at + sizeof(size);
    *ret_size = size;
    *at += sizeof(size) + size;
    return true;
}

bool sbx_record_is_last(const struct sbx_record *record, size_t at)
{
    return at >= record->frames.size;
}

/* ---- the digest of a request ---- */

static int compare_names(const void *a, const void *b)
{
    const Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *const *left = a;
    const Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *const *right = b;

    return strcmp((*left)->key, (*right)->key);
}

int sbx_recall_digest(const char *method, const Crisol__Sandbox__V1__ExecuteRequest *message,
                      char ret_digest[SBX_DIGEST_SIZE])
{
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *sorted[SBX_ENV_MAX];
    Crisol__Sandbox__V1__ExecuteRequest copy = *message;
    size_t method_size = strlen(method);
    size_t size;
    uint8_t *packed;

    /* A map has no order on the wire: two packings of one request must be one request. */
    if (message->n_env > 0 && message->n_env <= SBX_ENV_MAX) {
        memcpy((void *)sorted, (const void *)message->env, message->n_env * sizeof(void *));
        qsort((void *)sorted, message->n_env, sizeof(void *), compare_names);
        copy.env = sorted;
    }
    size = crisol__sandbox__v1__execute_request__get_packed_size(&copy);
    packed = malloc(method_size + size);
    if (!packed)
        return -ENOMEM;
    memcpy(packed, method, method_size);
    (void)crisol__sandbox__v1__execute_request__pack(&copy, packed + method_size);
    sbx_digest(packed, method_size + size, ret_digest);
    free(packed);
    return ret_digest[0] ? 0 : -ENOMEM;
}
