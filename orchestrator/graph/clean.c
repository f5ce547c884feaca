/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/clean.h"

#include "common/buf.h"
#include "common/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Room for the note between head and tail. */
#define NOTE_MAX 48

/* OSC, DCS, SOS, PM and APC begin a string that has an end of its own. */
static bool is_string_start(char character)
{
    return character == ']' || character == 'P' || character == 'X' || character == '^' ||
           character == '_';
}

/* Ends a sequence. Anything else does not belong to it: a line feed, half a character. */
static bool is_final(char character)
{
    return character >= '@' && character <= '~';
}

/* CSI: parameters and intermediate bytes, then the final one. */
static size_t csi_size(const char *text, size_t size)
{
    size_t at = 2;

    while (at < size && (unsigned char)text[at] >= 0x20 && (unsigned char)text[at] < 0x40)
        at++;
    return at < size && is_final(text[at]) ? at + 1 : at;
}

/* A control string ends with BEL or ST. */
static size_t string_size(const char *text, size_t size)
{
    size_t at;

    for (at = 2; at < size && text[at] != '\n'; at++) {
        if (text[at] == '\a')
            return at + 1;
        if (text[at] == '\x1b')
            return at + 1 < size && text[at + 1] == '\\' ? at + 2 : at;
    }
    return at;
}

/*
 * Length of the escape sequence that begins at `text` (ECMA-48 §5.4: CSI;
 * §5.6: control strings). An unfinished one reaches to the end of its line, so
 * that a stray ESC cannot swallow the rest.
 */
static size_t escape_size(const char *text, size_t size)
{
    if (size < 2)
        return size;
    if (text[1] == '[')
        return csi_size(text, size);
    if (is_string_start(text[1]))
        return string_size(text, size);
    return is_final(text[1]) || (text[1] >= ' ' && text[1] < '@') ? 2 : 1;
}

/* Length of "0x" and four or more hexadecimal digits; 0 when it is none. */
static size_t address_size(const char *text, size_t size)
{
    size_t at = 2;

    if (size < 6 || text[0] != '0' || text[1] != 'x')
        return 0;
    while (at < size && isxdigit((unsigned char)text[at]))
        at++;
    return at >= 6 ? at : 0;
}

/* Length of "in 0.12s"; 0 when it is none. */
static size_t timing_size(const char *text, size_t size)
{
    size_t at = 3;

    if (size < 5 || memcmp(text, "in ", 3) != 0 || !isdigit((unsigned char)text[3]))
        return 0;
    while (at < size && (isdigit((unsigned char)text[at]) || text[at] == '.'))
        at++;
    return at < size && text[at] == 's' && (at + 1 == size || !isalnum((unsigned char)text[at + 1]))
               ? at + 1
               : 0;
}

/* Bytes to replace at `text`, and by what. */
static size_t special_size(const char *text, size_t size, const char **ret_by)
{
    unsigned char first = (unsigned char)text[0];
    size_t length;

    *ret_by = "";
    if (first == '\x1b')
        return escape_size(text, size);
    if ((first < ' ' && first != '\n' && first != '\t') || first == 0x7f)
        return 1;
    length = address_size(text, size);
    *ret_by = "0x…";
    if (length > 0)
        return length;
    length = timing_size(text, size);
    *ret_by = "in N s";
    return length;
}

int agt_clean_add(struct cr_buf *buf, const char *text, size_t size)
{
    size_t start = 0;
    size_t at = 0;
    int r = 0;

    while (r == 0 && at < size) {
        const char *by;
        size_t special = special_size(text + at, size - at, &by);

        if (special == 0) {
            at++;
            continue;
        }
        r = cr_buf_add(buf, text + start, at - start);
        if (r == 0)
            r = cr_buf_add_str(buf, by);
        at += special;
        start = at;
    }
    return r == 0 ? cr_buf_add(buf, text + start, at - start) : r;
}

/* Moves a cut back to the end of a line, when one is near, else to a character. */
static size_t cut_head(const char *text, size_t size)
{
    for (size_t at = size; at > size / 2; at--) {
        if (text[at - 1] == '\n')
            return at;
    }
    return cr_utf8_complete_prefix(text, size);
}

/* Start of a tail of at most `size` bytes. */
static size_t cut_tail(const char *text, size_t total, size_t size)
{
    size_t from = total - size;

    for (size_t at = from; at < from + size / 2; at++) {
        if (at == 0 || text[at - 1] == '\n')
            return at;
    }
    while (from < total && ((unsigned char)text[from] & 0xc0) == 0x80)
        from++;
    return from;
}

int agt_clean_add_cut(struct cr_buf *buf, const char *text, size_t size, size_t max)
{
    size_t head;
    size_t tail;
    int r;

    if (size <= max)
        return cr_buf_add(buf, text, size);
    if (max <= NOTE_MAX)
        return cr_buf_add(buf, text, cr_utf8_complete_prefix(text, max));
    head = cut_head(text, (max - NOTE_MAX) / 2);
    tail = cut_tail(text, size, (max - NOTE_MAX) / 2);
    r = cr_buf_add(buf, text, head);
    if (r == 0)
        r = cr_buf_printf(buf, "%s[... %zu bytes omitted ...]\n",
                          head > 0 && text[head - 1] == '\n' ? "" : "\n", tail - head);
    return r == 0 ? cr_buf_add(buf, text + tail, size - tail) : r;
}
