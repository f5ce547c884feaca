/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trace/otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#define STATUS_OK 1 /* opentelemetry.proto.trace.v1.Status.StatusCode */
#define STATUS_ERROR 2

/* Each of these is false when there is no memory; the whole is then dropped. */

static bool add_number_text(cJSON *object, const char *name, int64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    return cJSON_AddStringToObject(object, name, text) != NULL;
}

/* The new last item of an array. */
static cJSON *add_item(cJSON *array)
{
    cJSON *item = array ? cJSON_CreateObject() : NULL;

    if (item && !cJSON_AddItemToArray(array, item)) {
        cJSON_Delete(item);
        return NULL;
    }
    return item;
}

static bool add_attribute(cJSON *array, const struct agt_span_attribute *attribute)
{
    cJSON *item = add_item(array);
    cJSON *value;

    if (!item || !cJSON_AddStringToObject(item, "key", attribute->key))
        return false;
    value = cJSON_AddObjectToObject(item, "value");
    if (!value)
        return false;
    if (attribute->is_text)
        return cJSON_AddStringToObject(value, "stringValue", attribute->text) != NULL;
    return add_number_text(value, "intValue", attribute->number);
}

static bool add_attributes(cJSON *object, const struct agt_span_attribute *attributes, size_t count)
{
    cJSON *array = cJSON_AddArrayToObject(object, "attributes");
    bool is_added = array != NULL;

    for (size_t i = 0; is_added && i < count; i++)
        is_added = add_attribute(array, &attributes[i]);
    return is_added;
}

static bool add_ids(cJSON *object, const struct agt_span *span)
{
    static const uint8_t none[sizeof(span->parent)];
    char trace_id[CR_TRACE_ID_SIZE];
    char span_id[CR_TRACE_SPAN_SIZE];
    char parent[CR_TRACE_SPAN_SIZE];

    cr_trace_id_text(&span->trace, trace_id);
    cr_trace_span_text(span->trace.span_id, span_id);
    cr_trace_span_text(span->parent, parent);
    return cJSON_AddStringToObject(object, "traceId", trace_id) &&
           cJSON_AddStringToObject(object, "spanId", span_id) &&
           (memcmp(span->parent, none, sizeof(none)) == 0 ||
            cJSON_AddStringToObject(object, "parentSpanId", parent));
}

static bool add_status(cJSON *object, bool is_error)
{
    cJSON *status = cJSON_AddObjectToObject(object, "status");

    return status && cJSON_AddNumberToObject(status, "code", is_error ? STATUS_ERROR : STATUS_OK);
}

static bool add_span(cJSON *array, const struct agt_span *span)
{
    cJSON *object = add_item(array);

    return object && add_ids(object, span) && cJSON_AddStringToObject(object, "name", span->name) &&
           cJSON_AddNumberToObject(object, "kind", span->kind) &&
           add_number_text(object, "startTimeUnixNano", span->start_ns) &&
           add_number_text(object, "endTimeUnixNano", span->end_ns) &&
           add_attributes(object, span->attributes, span->attribute_count) &&
           add_status(object, span->is_error);
}

static bool add_resource(cJSON *object, const char *service, const char *version)
{
    struct agt_span_attribute attributes[] = {
        {.key = "service.name", .is_text = true},
        {.key = "service.version", .is_text = true},
    };
    cJSON *resource = cJSON_AddObjectToObject(object, "resource");

    (void)snprintf(attributes[0].text, sizeof(attributes[0].text), "%s", service);
    (void)snprintf(attributes[1].text, sizeof(attributes[1].text), "%s", version);
    return resource && add_attributes(resource, attributes, 2);
}

static bool add_scope(cJSON *object, const char *version, const struct agt_span *spans,
                      size_t count)
{
    cJSON *scopes = add_item(cJSON_AddArrayToObject(object, "scopeSpans"));
    cJSON *scope = scopes ? cJSON_AddObjectToObject(scopes, "scope") : NULL;
    cJSON *list = scope ? cJSON_AddArrayToObject(scopes, "spans") : NULL;
    bool is_added = list && cJSON_AddStringToObject(scope, "name", "crisol") &&
                    cJSON_AddStringToObject(scope, "version", version);

    for (size_t i = 0; is_added && i < count; i++)
        is_added = add_span(list, &spans[i]);
    return is_added;
}

char *agt_otlp_write(const char *service, const char *version, const struct agt_span *spans,
                     size_t count)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *item = root ? add_item(cJSON_AddArrayToObject(root, "resourceSpans")) : NULL;
    char *text = NULL;

    if (item && add_resource(item, service, version) && add_scope(item, version, spans, count))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}
