/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/members.h"

#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/model/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const size_t MAX_ERROR_BODY = 256U << 10;
static const int64_t MAX_DURATION_S = INT64_C(10) * 365 * 86400;

const cJSON *agt_member_array(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);

    return cJSON_IsArray(member) ? member : NULL;
}

const char *agt_member_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

uint32_t agt_member_u32(const cJSON *object, const char *name, uint32_t fallback)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    double value;

    if (cJSON_IsNumber(member)) {
        value = member->valuedouble;
    } else if (cJSON_IsString(member)) {
        char *end = NULL;

        value = strtod(member->valuestring, &end);
        if (end == member->valuestring || *end)
            return fallback;
    } else {
        return fallback;
    }
    if (!(value > 0)) /* also what is not a number */
        return 0;
    return value >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void agt_member_copy(const cJSON *object, const char *name, char *target, size_t room)
{
    const char *text = agt_member_text(object, name);
    struct cr_buf clean;
    size_t size;

    if (!text)
        return;
    /* Three bytes per ill-formed one is the most that cleaning adds. */
    size = strnlen(text, room);
    cr_buf_init(&clean, 3 * room);
    if (cr_utf8_add_lossy(&clean, text, cr_utf8_complete_prefix(text, size)) == 0) {
        size = clean.size < room ? clean.size : room - 1;
        size = cr_utf8_complete_prefix(cr_buf_str(&clean), size);
        memcpy(target, cr_buf_str(&clean), size);
        target[size] = 0;
        for (char *at = target; *at; at++) {
            if ((unsigned char)*at < 0x20 || *at == 0x7F)
                *at = ' ';
        }
    }
    cr_buf_done(&clean);
}

int agt_duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    int64_t unit = 100000000;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        seconds = seconds * 10 + (*at - '0');
        if (seconds > MAX_DURATION_S)
            return -EINVAL;
    }
    if (at == text)
        return -EINVAL;
    if (*at == '.') {
        for (at++; *at >= '0' && *at <= '9'; at++) {
            nanoseconds += (*at - '0') * unit;
            unit /= 10;
        }
    }
    if (strcmp(at, "s") != 0)
        return -EINVAL;
    *ret_ms = seconds * 1000 + (nanoseconds + 999999) / 1000000;
    return 0;
}

static bool is_type(const cJSON *detail, const char *name)
{
    const char *type = agt_member_text(detail, "@type");
    const char *slash = type ? strrchr(type, '/') : NULL;

    return type && strcmp(slash ? slash + 1 : type, name) == 0;
}

static void read_quota(const cJSON *detail, struct agt_reply_error *error)
{
    const cJSON *violation;

    cJSON_ArrayForEach(violation, agt_member_array(detail, "violations"))
    {
        const char *id = agt_member_text(violation, "quotaId");
        const char *value = agt_member_text(violation, "quotaValue");

        if ((id && strstr(id, "PerDay")) || (value && strcmp(value, "0") == 0))
            error->is_used_up = true;
    }
}

static void read_detail(const cJSON *detail, struct agt_reply_error *error)
{
    const char *delay;

    if (is_type(detail, "google.rpc.ErrorInfo"))
        agt_member_copy(detail, "reason", error->reason, sizeof(error->reason));
    if (is_type(detail, "google.rpc.QuotaFailure"))
        read_quota(detail, error);
    if (!is_type(detail, "google.rpc.RetryInfo"))
        return;
    delay = agt_member_text(detail, "retryDelay");
    if (delay)
        (void)agt_duration_parse(delay, &error->retry_delay_ms);
}

/* {"error": {…}}; {"object": "error", …} of older servers; {"error": "text"} of Ollama. */
static const cJSON *find_error(const cJSON *object, struct agt_reply_error *error)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, "error");
    const char *kind = agt_member_text(object, "object");

    if (cJSON_IsObject(member))
        return member;
    if (kind && strcmp(kind, "error") == 0)
        return object;
    if (cJSON_IsString(member)) {
        *error = (struct agt_reply_error){.is_set = true, .retry_delay_ms = -1};
        agt_member_copy(object, "error", error->message, sizeof(error->message));
    }
    return NULL;
}

/* OpenAI's code is a word, "insufficient_quota"; a server's of its kind may be a number or null. */
static void read_code(const cJSON *member, struct agt_reply_error *error)
{
    if (cJSON_IsString(cJSON_GetObjectItemCaseSensitive(member, "code")))
        agt_member_copy(member, "code", error->reason, sizeof(error->reason));
    if (!error->status[0])
        agt_member_copy(member, "type", error->status, sizeof(error->status));
    if (strcmp(error->reason, "insufficient_quota") == 0)
        error->is_used_up = true;
}

bool agt_reply_error_read(const cJSON *object, struct agt_reply_error *error)
{
    struct agt_reply_error plain = AGT_REPLY_ERROR_INIT;
    const cJSON *member = find_error(object, &plain);
    const cJSON *detail;

    if (!member && plain.is_set)
        *error = plain;
    if (!member)
        return plain.is_set;
    *error = (struct agt_reply_error){.is_set = true, .retry_delay_ms = -1};
    error->code = (int)(agt_member_u32(member, "code", 0) % 1000);
    agt_member_copy(member, "status", error->status, sizeof(error->status));
    agt_member_copy(member, "message", error->message, sizeof(error->message));
    cJSON_ArrayForEach(detail, agt_member_array(member, "details"))
    {
        read_detail(detail, error);
    }
    read_code(member, error);
    if (strstr(error->message, "limit: 0"))
        error->is_used_up = true;
    return true;
}

bool agt_reply_error_parse(const char *data, size_t size, struct agt_reply_error *ret_error)
{
    const struct agt_json_options options = {.max_size = MAX_ERROR_BODY, .allow_trailing = true};
    const cJSON *object;
    cJSON *root = NULL;
    bool is_error;

    if (agt_json_parse(data, size, &options, &root, NULL, NULL) < 0)
        return false;
    object = cJSON_IsArray(root) ? cJSON_GetArrayItem(root, 0) : root;
    is_error = agt_reply_error_read(object, ret_error);
    cJSON_Delete(root);
    return is_error;
}
