/* SPDX-License-Identifier: Apache-2.0 */
#include "common/metrics.h"

#include "common/buf.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* From a warm sandbox to a run that waits for a slow model. */
static const struct {
    uint64_t us;
    const char *seconds;
} bounds[CR_HISTOGRAM_BOUNDS] = {
    {5000, "0.005"},  {10000, "0.01"},  {25000, "0.025"}, {50000, "0.05"},    {100000, "0.1"},
    {250000, "0.25"}, {500000, "0.5"},  {1000000, "1"},   {2500000, "2.5"},   {5000000, "5"},
    {10000000, "10"}, {30000000, "30"}, {60000000, "60"}, {300000000, "300"}, {1800000000, "1800"},
};

void cr_metrics_lower(const char *name, char *text, size_t size)
{
    size_t length = 0;

    for (; *name && length + 1 < size; name++)
        text[length++] = (char)tolower((unsigned char)*name);
    text[length] = '\0';
}

void cr_metrics_begin(struct cr_metrics *metrics, struct cr_buf *buf)
{
    *metrics = (struct cr_metrics){.buf = buf};
}

int cr_metrics_end(const struct cr_metrics *metrics)
{
    return metrics->error;
}

static void note(struct cr_metrics *metrics, int result)
{
    if (result < 0 && metrics->error == 0)
        metrics->error = result;
}

static void add(struct cr_metrics *metrics, const char *text, size_t size)
{
    if (metrics->error == 0)
        note(metrics, cr_buf_add(metrics->buf, text, size));
}

static void add_str(struct cr_metrics *metrics, const char *text)
{
    add(metrics, text, strlen(text));
}

void cr_metrics_family(struct cr_metrics *metrics, const char *name, const char *type,
                       const char *help)
{
    metrics->family = name;
    if (metrics->error == 0)
        note(metrics,
             cr_buf_printf(metrics->buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type));
}

static void add_label_value(struct cr_metrics *metrics, const char *value)
{
    for (const char *at = value; *at; at++) {
        if (*at == '\n') {
            add_str(metrics, "\\n");
            continue;
        }
        if (*at == '"' || *at == '\\')
            add_str(metrics, "\\");
        add(metrics, at, 1);
    }
}

/* The name of a sample: family, `suffix`, labels; `bound` is the label "le" of a bucket, or NULL.
 */
static void add_name(struct cr_metrics *metrics, const char *suffix,
                     const struct cr_metrics_label *labels, const char *bound)
{
    const char *before = "{";

    add_str(metrics, metrics->family);
    add_str(metrics, suffix);
    for (size_t i = 0; labels && i < CR_METRICS_LABELS_MAX && labels[i].name; i++) {
        add_str(metrics, before);
        add_str(metrics, labels[i].name);
        add_str(metrics, "=\"");
        add_label_value(metrics, labels[i].value);
        add_str(metrics, "\"");
        before = ",";
    }
    if (bound) {
        add_str(metrics, before);
        add_str(metrics, "le=\"");
        add_str(metrics, bound);
        add_str(metrics, "\"");
        before = ",";
    }
    add_str(metrics, before[0] == ',' ? "} " : " ");
}

static void add_count(struct cr_metrics *metrics, const char *suffix,
                      const struct cr_metrics_label *labels, const char *bound, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
    add_name(metrics, suffix, labels, bound);
    add_str(metrics, text);
}

void cr_metrics_count(struct cr_metrics *metrics, const struct cr_metrics_label *labels,
                      uint64_t value)
{
    add_count(metrics, "", labels, NULL, value);
}

void cr_metrics_value(struct cr_metrics *metrics, const struct cr_metrics_label *labels,
                      double value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.17g\n", value);
    add_name(metrics, "", labels, NULL);
    add_str(metrics, text);
}

void cr_histogram_note(struct cr_histogram *histogram, uint64_t duration_us)
{
    size_t i = 0;

    while (i < CR_HISTOGRAM_BOUNDS && duration_us > bounds[i].us)
        i++;
    atomic_fetch_add_explicit(&histogram->counts[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_us, duration_us, memory_order_relaxed);
}

void cr_metrics_histogram(struct cr_metrics *metrics, const struct cr_metrics_label *labels,
                          const struct cr_histogram *histogram)
{
    uint64_t sum_us = atomic_load_explicit(&histogram->sum_us, memory_order_relaxed);
    uint64_t count = 0;
    char text[32];

    /* The count is that of the last bucket, so that the two agree whatever is noted meanwhile. */
    for (size_t i = 0; i <= CR_HISTOGRAM_BOUNDS; i++) {
        count += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        add_count(metrics, "_bucket", labels, i < CR_HISTOGRAM_BOUNDS ? bounds[i].seconds : "+Inf",
                  count);
    }
    (void)snprintf(text, sizeof(text), "%.6f\n", (double)sum_us / 1e6);
    add_name(metrics, "_sum", labels, NULL);
    add_str(metrics, text);
    add_count(metrics, "_count", labels, NULL, count);
}
