/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGT_SPAN_ATTRIBUTES_MAX 10
#define AGT_SPAN_TEXT_MAX 80

/* Numbers of opentelemetry.proto.trace.v1.Span.SpanKind. */
enum agt_span_kind {
    AGT_SPAN_INTERNAL = 1,
    AGT_SPAN_SERVER = 2,
    AGT_SPAN_CLIENT = 3,
};

struct agt_span_attribute {
    const char *key; /* static storage */
    bool is_text;
    int64_t number;
    char text[AGT_SPAN_TEXT_MAX]; /* UTF-8 */
};

/*
 * Something that took time, as it is told to a collector. A plain value.
 * Never has a prompt, an answer, a program or its output in it.
 */
struct agt_span {
    struct cr_trace trace; /* of which it is the span */
    uint8_t parent[8];     /* all zero: it is the first of its trace */
    const char *name;      /* static storage */
    enum agt_span_kind kind;
    int64_t start_ns; /* since 1970 */
    int64_t end_ns;
    bool is_error;
    size_t attribute_count;
    struct agt_span_attribute attributes[AGT_SPAN_ATTRIBUTES_MAX];
};

/* A span from now on; `parent` NULL: the first of its trace. Nothing is allocated. */
void agt_span_begin(struct agt_span *span, const char *name, const struct cr_trace *trace,
                    const struct cr_trace *parent);

/* The time that ends before a span's end: for stages that are known only afterwards. */
void agt_span_set_time(struct agt_span *span, int64_t start_ns, int64_t end_ns);

/* Further ones than there is room for are left out. A text is cut at a character; one that is not
 * UTF-8 is left out. NULL: nothing. */
void agt_span_add_text(struct agt_span *span, const char *key, const char *text);
void agt_span_add_number(struct agt_span *span, const char *key, int64_t number);
