/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/diff.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 3
#define LINES_MAX 8192
/* Cells of the table below: 2 MiB, some milliseconds of the engine's thread. */
#define CELLS_MAX 1048576U
/* Kept free in the buffer for the line that says that the diff was cut. */
#define CUT_NOTE "... (diff cut)\n"

struct line {
    const char *data;
    size_t size; /* without the line feed */
};

struct text {
    struct line *lines;
    size_t count;
};

/* One line of the result: ' ' kept, '-' only old, '+' only new. */
struct step {
    char kind;
    struct line line;
};

struct script {
    struct step *steps;
    size_t count;
};

static void free_text(struct text *text)
{
    free(text->lines);
}

#define AUTO_TEXT __attribute__((cleanup(free_text)))

static int split(const char *data, struct text *ret_text)
{
    size_t count = 0;
    struct line *lines;

    for (const char *at = data; *at && count < LINES_MAX; at = *at ? at + 1 : at) {
        at = strchrnul(at, '\n');
        count++;
    }
    lines = calloc(count + 1, sizeof(*lines));
    if (!lines)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *end = strchrnul(data, '\n');

        lines[i] = (struct line){data, (size_t)(end - data)};
        data = *end ? end + 1 : end;
    }
    *ret_text = (struct text){lines, count};
    return 0;
}

static bool is_same(struct line a, struct line b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static void push(struct script *script, char kind, struct line line)
{
    script->steps[script->count++] = (struct step){kind, line};
}

/*
 * The middle part, where the texts differ: longest common subsequence by the
 * plain table. lengths[i][j] is that of a[i…] and b[j…].
 */
static int compare(struct script *script, const struct line *a, size_t a_count,
                   const struct line *b, size_t b_count)
{
    const size_t row = b_count + 1;
    CR_AUTO_FREE uint16_t *lengths = calloc((a_count + 1) * row, sizeof(*lengths));
    size_t i = 0;
    size_t j = 0;

    if (!lengths)
        return -ENOMEM;
    for (size_t x = a_count; x-- > 0;) {
        for (size_t y = b_count; y-- > 0;) {
            uint16_t down = lengths[(x + 1) * row + y];
            uint16_t right = lengths[x * row + y + 1];

            if (is_same(a[x], b[y]))
                lengths[x * row + y] = (uint16_t)(lengths[(x + 1) * row + y + 1] + 1);
            else
                lengths[x * row + y] = down > right ? down : right;
        }
    }
    while (i < a_count || j < b_count) {
        if (i < a_count && j < b_count && is_same(a[i], b[j])) {
            push(script, ' ', a[i]);
            i++;
            j++;
        } else if (j == b_count ||
                   (i < a_count && lengths[(i + 1) * row + j] >= lengths[i * row + j + 1])) {
            push(script, '-', a[i++]);
        } else {
            push(script, '+', b[j++]);
        }
    }
    return 0;
}

static int make_script(const struct text *a, const struct text *b, struct script *script)
{
    size_t head = 0;
    size_t tail = 0;
    size_t a_left;
    size_t b_left;
    int r = 0;

    while (head < a->count && head < b->count && is_same(a->lines[head], b->lines[head]))
        push(script, ' ', a->lines[head++]);
    while (tail < a->count - head && tail < b->count - head &&
           is_same(a->lines[a->count - 1 - tail], b->lines[b->count - 1 - tail]))
        tail++;
    a_left = a->count - head - tail;
    b_left = b->count - head - tail;
    if ((a_left + 1) * (b_left + 1) <= CELLS_MAX) {
        r = compare(script, a->lines + head, a_left, b->lines + head, b_left);
    } else {
        for (size_t i = 0; i < a_left; i++)
            push(script, '-', a->lines[head + i]);
        for (size_t i = 0; i < b_left; i++)
            push(script, '+', b->lines[head + i]);
    }
    for (size_t i = a->count - tail; r == 0 && i < a->count; i++)
        push(script, ' ', a->lines[i]);
    return r;
}

/* First step at or behind `from` that is a change; the count when there is none. */
static size_t find_change(const struct script *script, size_t from)
{
    while (from < script->count && script->steps[from].kind == ' ')
        from++;
    return from;
}

/* End of the hunk that begins with the change at `change`: context of the last one included. */
static size_t find_hunk_end(const struct script *script, size_t change)
{
    size_t end = change;

    for (size_t next = change; next < script->count && next <= end + (size_t)2 * CONTEXT;
         next = find_change(script, end)) {
        end = next;
        while (end < script->count && script->steps[end].kind != ' ')
            end++;
    }
    return end + CONTEXT < script->count ? end + CONTEXT : script->count;
}

static int add_hunk(const struct script *script, size_t from, size_t to, const size_t line[2],
                    struct cr_buf *buf)
{
    size_t old_count = 0;
    size_t new_count = 0;
    int r;

    for (size_t i = from; i < to; i++) {
        old_count += script->steps[i].kind != '+';
        new_count += script->steps[i].kind != '-';
    }
    /* An empty side is numbered by the line before it. */
    r = cr_buf_printf(buf, "@@ -%zu,%zu +%zu,%zu @@\n", line[0] + (old_count > 0), old_count,
                      line[1] + (new_count > 0), new_count);
    for (size_t i = from; r == 0 && i < to; i++) {
        r = cr_buf_add_char(buf, script->steps[i].kind);
        if (r == 0)
            r = cr_buf_add(buf, script->steps[i].line.data, script->steps[i].line.size);
        if (r == 0)
            r = cr_buf_add_char(buf, '\n');
    }
    return r;
}

static int add_script(const char *name, const struct script *script, struct cr_buf *buf)
{
    size_t line[2] = {0, 0}; /* lines of old and new before `at` */
    size_t at = 0;
    int r = cr_buf_printf(buf, "--- a/%s\n+++ b/%s\n", name, name);

    while (r == 0) {
        size_t change = find_change(script, at);
        size_t from = change >= at + CONTEXT ? change - CONTEXT : at;
        size_t to;

        if (change == script->count)
            break;
        line[0] += from - at; /* all of these are context: find_hunk_end() saw to it */
        line[1] += from - at;
        to = find_hunk_end(script, change);
        r = add_hunk(script, from, to, line, buf);
        for (; from < to; from++) {
            line[0] += script->steps[from].kind != '+';
            line[1] += script->steps[from].kind != '-';
        }
        at = to;
    }
    return r;
}

/* Goes back to the last whole line that leaves room for the note. */
static int cut(struct cr_buf *buf, size_t start)
{
    size_t size = buf->cap > sizeof(CUT_NOTE) - 1 ? buf->cap - (sizeof(CUT_NOTE) - 1) : 0;

    if (size > buf->size)
        size = buf->size;
    while (size > start && buf->data[size - 1] != '\n')
        size--;
    buf->size = size > start ? size : start;
    buf->data[buf->size] = '\0';
    return cr_buf_add_str(buf, CUT_NOTE) == -ENOMEM ? -ENOMEM : 0;
}

int agt_diff_add(const char *name, const char *old_text, const char *new_text, struct cr_buf *buf)
{
    CR_AUTO_FREE struct step *steps = NULL;
    AUTO_TEXT struct text a = {0};
    AUTO_TEXT struct text b = {0};
    struct script script = {0};
    size_t start = buf->size;
    int r;

    if (strcmp(old_text, new_text) == 0)
        return 0;
    r = split(old_text, &a);
    if (r == 0)
        r = split(new_text, &b);
    if (r < 0)
        return r;
    steps = calloc(a.count + b.count + 1, sizeof(*steps));
    script.steps = steps;
    r = steps ? make_script(&a, &b, &script) : -ENOMEM;
    if (r == 0 && find_change(&script, 0) < script.count)
        r = add_script(name, &script, buf);
    return r == -ENOSPC ? cut(buf, start) : r;
}
