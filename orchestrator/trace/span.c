/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/trace/span.h"

#include "common/clock.h"
#include "common/utf8.h"

#include <string.h>

void agt_span_begin(struct agt_span *span, const char *name, const struct cr_trace *trace,
                    const struct cr_trace *parent)
{
    int64_t now_ns = cr_clock_real_ns();

    memset(span, 0, sizeof(*span));
    span->name = name;
    span->trace = *trace;
    if (parent)
        memcpy(span->parent, parent->span_id, sizeof(span->parent));
    span->kind = AGT_SPAN_INTERNAL;
    span->start_ns = now_ns;
    span->end_ns = now_ns;
}

void agt_span_set_time(struct agt_span *span, int64_t start_ns, int64_t end_ns)
{
    span->start_ns = start_ns;
    span->end_ns = end_ns > start_ns ? end_ns : start_ns;
}

static struct agt_span_attribute *add(struct agt_span *span, const char *key)
{
    struct agt_span_attribute *attribute;

    if (span->attribute_count == AGT_SPAN_ATTRIBUTES_MAX)
        return NULL;
    attribute = &span->attributes[span->attribute_count++];
    *attribute = (struct agt_span_attribute){.key = key};
    return attribute;
}

void agt_span_add_text(struct agt_span *span, const char *key, const char *text)
{
    struct agt_span_attribute *attribute;
    size_t size = text ? strlen(text) : 0;

    if (!text || !cr_utf8_is_valid(text, size))
        return;
    attribute = add(span, key);
    if (!attribute)
        return;
    if (size >= AGT_SPAN_TEXT_MAX)
        size = cr_utf8_complete_prefix(text, AGT_SPAN_TEXT_MAX - 1);
    memcpy(attribute->text, text, size);
    attribute->text[size] = '\0';
    attribute->is_text = true;
}

void agt_span_add_number(struct agt_span *span, const char *key, int64_t number)
{
    struct agt_span_attribute *attribute = add(span, key);

    if (attribute)
        attribute->number = number;
}
