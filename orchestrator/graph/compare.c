/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/graph/journal.h"
#include "rpc/pack.h"

#include <stdlib.h>
#include <string.h>

#define RESULT CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT

/* The first member that is different: a person looks there first. */
static const char *name_difference(const ProtobufCMessage *emitted, const ProtobufCMessage *stored)
{
    for (unsigned i = 0; i < emitted->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &emitted->descriptor->fields[i];
        const uint8_t *left = (const uint8_t *)emitted + field->offset;
        const uint8_t *right = (const uint8_t *)stored + field->offset;

        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            continue;
        if (field->type == PROTOBUF_C_TYPE_STRING &&
            strcmp(*(char *const *)(const void *)left, *(char *const *)(const void *)right) != 0)
            return field->name;
    }
    return "something";
}

static int compare_packed(const ProtobufCMessage *emitted, const ProtobufCMessage *stored,
                          struct cr_err *err)
{
    CR_AUTO_FREE uint8_t *left = NULL;
    CR_AUTO_FREE uint8_t *right = NULL;
    size_t left_size = 0;
    size_t right_size = 0;

    if (rpc_pack(emitted, &left, &left_size) < 0 || rpc_pack(stored, &right, &right_size) < 0)
        return cr_err_set(err, ENOMEM, "out of memory");
    if (left_size == right_size && memcmp(left, right, left_size) == 0)
        return 0;
    return cr_err_set(err, EBADMSG, "%s is not what the journal has",
                      name_difference(emitted, stored));
}

/* The last link and the head cover the time that the run took, so they cannot be made again. */
static int compare_results(Crisol__Agent__V1__RunEvent *emitted,
                           Crisol__Agent__V1__RunEvent *stored, struct cr_err *err)
{
    Crisol__Agent__V1__Receipt *before = stored->result->receipt;
    Crisol__Agent__V1__Receipt *now = emitted->result->receipt;
    Crisol__Agent__V1__Receipt own;
    int r = agt_receipt_verify(stored->result, NULL, err);

    if (r < 0)
        return cr_err_wrap(err, "the result in the journal does not fit its receipt");
    if (!now)
        return cr_err_set(err, ENOMEM, "out of memory");
    if (now->n_links != before->n_links)
        return cr_err_set(err, EBADMSG, "the receipt has another number of links");
    emitted->result->elapsed_ms = stored->result->elapsed_ms;
    own = *now;
    now->head = before->head;
    now->signature = before->signature; /* who repeats it has no key */
    now->key_id = before->key_id;
    now->n_links--;
    before->n_links--;
    r = compare_packed(&emitted->base, &stored->base, err);
    before->n_links++;
    *now = own;
    return r;
}

int agt_replay_compare(Crisol__Agent__V1__RunEvent *emitted, Crisol__Agent__V1__RunEvent *stored,
                       struct cr_err *err)
{
    emitted->time_ms = stored->time_ms;
    if (emitted->event_case == RESULT && stored->result->receipt)
        return compare_results(emitted, stored, err);
    return compare_packed(&emitted->base, &stored->base, err);
}
