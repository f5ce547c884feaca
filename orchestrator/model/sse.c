/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/sse.h"

#include <string.h>

void agt_sse_init(struct agt_sse *sse, size_t max_event, const struct agt_sse_handlers *handlers)
{
    *sse = (struct agt_sse){.handlers = *handlers};
    cr_buf_init(&sse->line, max_event);
    cr_buf_init(&sse->event, max_event);
    cr_buf_init(&sse->unframed, max_event);
}

void agt_sse_done(struct agt_sse *sse)
{
    cr_buf_done(&sse->line);
    cr_buf_done(&sse->event);
    cr_buf_done(&sse->unframed);
}

static int flush_event(struct agt_sse *sse, bool is_cut)
{
    int r;

    if (!sse->has_data)
        return 0;
    r = sse->handlers.on_event(sse->handlers.user, (char *)sse->event.data, sse->event.size,
                               is_cut);
    cr_buf_clear(&sse->event);
    sse->has_data = false;
    return r;
}

static int flush_unframed(struct agt_sse *sse)
{
    int r;

    if (!sse->is_unframed)
        return 0;
    r = sse->handlers.on_unframed(sse->handlers.user, (char *)sse->unframed.data,
                                  sse->unframed.size);
    cr_buf_clear(&sse->unframed);
    sse->is_unframed = false;
    return r;
}

static int add_unframed(struct agt_sse *sse, const char *line, size_t size)
{
    int r = cr_buf_add(&sse->unframed, line, size);

    sse->is_unframed = true;
    return r < 0 ? r : cr_buf_add_char(&sse->unframed, '\n');
}

static bool starts_json(const char *line, size_t size)
{
    size_t at = 0;

    while (at < size && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return at < size && (line[at] == '{' || line[at] == '[');
}

static int add_data(struct agt_sse *sse, const char *value, size_t size)
{
    int r = 0;

    if (size > 0 && value[0] == ' ') {
        value++;
        size--;
    }
    if (sse->has_data)
        r = cr_buf_add_char(&sse->event, '\n');
    sse->has_data = true;
    return r < 0 ? r : cr_buf_add(&sse->event, value, size);
}

static bool is_data_line(const char *line, size_t size)
{
    return size >= 4 && memcmp(line, "data", 4) == 0 && (size == 4 || line[4] == ':');
}

static int take_line(struct agt_sse *sse, const char *line, size_t size)
{
    if (is_data_line(line, size)) {
        int r = flush_unframed(sse);

        if (r < 0)
            return r;
        return size == 4 ? add_data(sse, "", 0) : add_data(sse, line + 5, size - 5);
    }
    /* Pretty-printed JSON has lines that look like fields ("a": 1) and may have blank ones. */
    if (sse->is_unframed || starts_json(line, size))
        return add_unframed(sse, line, size);
    if (size == 0)
        return flush_event(sse, false);
    return 0; /* a comment, or a field of no use here */
}

static int end_line(struct agt_sse *sse)
{
    const char *line = cr_buf_str(&sse->line);
    size_t size = sse->line.size;
    int r;

    if (sse->lines == 0 && size >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
        line += 3;
        size -= 3;
    }
    sse->lines++;
    r = take_line(sse, line, size);
    cr_buf_clear(&sse->line);
    return r;
}

static size_t plain_size(const uint8_t *data, size_t size)
{
    size_t i = 0;

    while (i < size && data[i] != '\n' && data[i] != '\r')
        i++;
    return i;
}

int agt_sse_feed(struct agt_sse *sse, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    int r = 0;

    for (size_t at = 0; at < size && r == 0;) {
        size_t plain = plain_size(bytes + at, size - at);

        if (sse->skip_lf && bytes[at] == '\n') {
            sse->skip_lf = false;
            at++;
            continue;
        }
        sse->skip_lf = false;
        r = cr_buf_add(&sse->line, bytes + at, plain);
        at += plain;
        if (r < 0 || at == size)
            return r;
        sse->skip_lf = bytes[at] == '\r';
        at++;
        r = end_line(sse);
    }
    return r;
}

int agt_sse_end(struct agt_sse *sse)
{
    int r = sse->line.size > 0 ? end_line(sse) : 0;

    if (r == 0)
        r = flush_event(sse, true);
    if (r == 0)
        r = flush_unframed(sse);
    return r;
}
