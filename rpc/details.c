/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/details.h"

#include "common/auto.h"
#include "common/unconst.h"
#include "common/utf8.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "rpc/codec.h"
#include "rpc/status.h"

#include <errno.h>
#include <string.h>

/* Who gives the reasons their meaning (google/rpc/error_details.proto, ErrorInfo.domain). */
#define REASON_DOMAIN "crisol"

#define TYPE_PREFIX "type.googleapis.com/"
#define DETAILS_MAX 3

/*
 * Clients on C core drop a call whose trailers pass 8 KiB, counting base64 and
 * percent encoding; the message itself may need half of that.
 */
#define VIOLATION_BYTES_MAX 2048

/* The texts of all details and what protobuf adds to them. */
#define VALUE_BYTES_MAX (VIOLATION_BYTES_MAX + 1024)

#define PARSE_CAP_BYTES 262144

/* google.rpc.Status under construction. */
struct details {
    Google__Protobuf__Any anys[DETAILS_MAX];
    Google__Protobuf__Any *list[DETAILS_MAX];
    size_t count;
    uint8_t values[VALUE_BYTES_MAX]; /* of the anys, one behind the other */
    size_t used;
};

static void add_detail(struct details *details, const char *type_url,
                       const ProtobufCMessage *message)
{
    Google__Protobuf__Any *any = &details->anys[details->count];
    size_t size = protobuf_c_message_get_packed_size(message);

    if (size > sizeof(details->values) - details->used)
        return; /* the fields of a status cannot add up to this */
    google__protobuf__any__init(any);
    any->type_url = cr_unconst(type_url); /* packing only reads it */
    any->value.data = details->values + details->used;
    any->value.len = protobuf_c_message_pack(message, any->value.data);
    details->used += size;
    details->list[details->count++] = any;
}

static void add_bad_request(struct details *details, const struct rpc_status *status)
{
    Google__Rpc__BadRequest__FieldViolation violations[RPC_VIOLATIONS_MAX];
    Google__Rpc__BadRequest__FieldViolation *list[RPC_VIOLATIONS_MAX];
    Google__Rpc__BadRequest request = GOOGLE__RPC__BAD_REQUEST__INIT;
    size_t room = VIOLATION_BYTES_MAX;

    for (size_t i = 0; i < status->violation_count; i++) {
        const struct rpc_violation *violation = &status->violations[i];
        size_t size = strlen(violation->field) + strlen(violation->description);

        if (size > room)
            break;
        room -= size;
        google__rpc__bad_request__field_violation__init(&violations[i]);
        violations[i].field = cr_unconst(violation->field);
        violations[i].description = cr_unconst(violation->description);
        list[i] = &violations[i];
        request.n_field_violations++;
    }
    request.field_violations = list;
    add_detail(details, TYPE_PREFIX "google.rpc.BadRequest", &request.base);
}

static void add_retry_info(struct details *details, const struct rpc_status *status)
{
    Google__Rpc__RetryInfo__Delay delay = GOOGLE__RPC__RETRY_INFO__DELAY__INIT;
    Google__Rpc__RetryInfo info = GOOGLE__RPC__RETRY_INFO__INIT;

    delay.seconds = status->retry_after_ms / 1000;
    delay.nanos = status->retry_after_ms % 1000 * 1000000;
    info.retry_delay = &delay;
    add_detail(details, TYPE_PREFIX "google.rpc.RetryInfo", &info.base);
}

static void add_error_info(struct details *details, const struct rpc_status *status)
{
    Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;

    info.reason = cr_unconst(status->reason);
    info.domain = cr_unconst(REASON_DOMAIN);
    add_detail(details, TYPE_PREFIX "google.rpc.ErrorInfo", &info.base);
}

static void add_all(struct details *details, const struct rpc_status *status)
{
    if (status->violation_count > 0)
        add_bad_request(details, status);
    if (status->retry_after_ms > 0)
        add_retry_info(details, status);
    if (status->reason[0])
        add_error_info(details, status);
}

static int pack_status(struct details *details, const struct rpc_status *status, uint8_t **ret_data,
                       size_t *ret_size)
{
    Google__Rpc__Status packed = GOOGLE__RPC__STATUS__INIT;
    uint8_t *data;

    packed.code = (int32_t)status->code;
    packed.message = cr_unconst(status->message);
    packed.n_details = details->count;
    packed.details = details->list;
    data = malloc(google__rpc__status__get_packed_size(&packed) + 1);
    if (!data)
        return -ENOMEM;
    *ret_size = google__rpc__status__pack(&packed, data);
    *ret_data = data;
    return 0;
}

int rpc_details_pack(const struct rpc_status *status, uint8_t **ret_data, size_t *ret_size)
{
    struct details details = {.count = 0};

    add_all(&details, status);
    if (details.count > 0)
        return pack_status(&details, status, ret_data, ret_size);
    *ret_data = NULL;
    *ret_size = 0;
    return 0;
}

/* Texts of a foreign server may be longer than our fields. */
static void copy_text(char *target, size_t room, const char *text)
{
    size_t size = strlen(text);

    if (size >= room)
        size = cr_utf8_complete_prefix(text, room - 1);
    memcpy(target, text, size);
    target[size] = '\0';
}

static void take_bad_request(const ProtobufCMessage *message, struct rpc_status *status)
{
    const Google__Rpc__BadRequest *request = (const Google__Rpc__BadRequest *)(const void *)message;

    status->violation_count = 0;
    status->violations_left_out = 0;
    for (size_t i = 0; i < request->n_field_violations; i++) {
        const Google__Rpc__BadRequest__FieldViolation *from = request->field_violations[i];
        struct rpc_violation *to = &status->violations[status->violation_count];

        if (status->violation_count == RPC_VIOLATIONS_MAX) {
            status->violations_left_out++;
            continue;
        }
        copy_text(to->field, sizeof(to->field), from->field);
        copy_text(to->description, sizeof(to->description), from->description);
        status->violation_count++;
    }
}

static void take_retry_info(const ProtobufCMessage *message, struct rpc_status *status)
{
    const Google__Rpc__RetryInfo *info = (const Google__Rpc__RetryInfo *)(const void *)message;
    const Google__Rpc__RetryInfo__Delay *delay = info->retry_delay;
    const int32_t max_s = INT32_MAX / 1000 - 1;

    if (!delay || delay->seconds < 0 || delay->nanos < 0 || delay->nanos >= 1000000000)
        return;
    status->retry_after_ms = delay->seconds > max_s
                                 ? INT32_MAX
                                 : (int32_t)delay->seconds * 1000 + delay->nanos / 1000000;
}

static void take_error_info(const ProtobufCMessage *message, struct rpc_status *status)
{
    const Google__Rpc__ErrorInfo *info = (const Google__Rpc__ErrorInfo *)(const void *)message;

    copy_text(status->reason, sizeof(status->reason), info->reason);
}

static const struct {
    const char *type; /* behind the last '/' of the type URL */
    const ProtobufCMessageDescriptor *descriptor;
    void (*take)(const ProtobufCMessage *message, struct rpc_status *status);
} kinds[] = {
    {"google.rpc.BadRequest", &google__rpc__bad_request__descriptor, take_bad_request},
    {"google.rpc.RetryInfo", &google__rpc__retry_info__descriptor, take_retry_info},
    {"google.rpc.ErrorInfo", &google__rpc__error_info__descriptor, take_error_info},
};

/* A detail that does not parse is skipped: the status itself is worth more than its details. */
static void take_any(struct rpc_arena *arena, const Google__Protobuf__Any *any,
                     struct rpc_status *status)
{
    const char *slash = strrchr(any->type_url, '/');
    struct rpc_status ignored;

    for (size_t i = 0; slash && i < CR_ARRAY_SIZE(kinds); i++) {
        const ProtobufCMessage *message;

        if (strcmp(slash + 1, kinds[i].type) != 0)
            continue;
        message = rpc_unpack(arena, kinds[i].descriptor, any->value.data, any->value.len, &ignored);
        if (message)
            kinds[i].take(message, status);
    }
}

int rpc_details_parse(const void *data, size_t size, struct rpc_status *status)
{
    struct rpc_arena *arena = rpc_arena_new(PARSE_CAP_BYTES);
    struct rpc_status ignored;
    const Google__Rpc__Status *packed;

    if (!arena)
        return -ENOMEM;
    packed = (const Google__Rpc__Status *)(const void *)rpc_unpack(
        arena, &google__rpc__status__descriptor, data, size, &ignored);
    for (size_t i = 0; packed && i < packed->n_details; i++)
        take_any(arena, packed->details[i], status);
    (void)rpc_arena_free(arena);
    return packed ? 0 : -EINVAL;
}
