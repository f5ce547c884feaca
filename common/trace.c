/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trace.h"

#include <string.h>

#include <sys/random.h>

#define FLAGS_AT 53 /* "00-" 32 "-" 16 "-" */

/* Of one thread each, and of nobody else. The model: or a shared object with this in it would call
 * the dynamic linker for it, which the root process is not linked against. */
static _Thread_local struct cr_trace current __attribute__((tls_model("initial-exec")));

static int digit(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    /* Upper case is not valid (§3.2.2.2). */
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* False when one of them is no lower-case hexadecimal digit. */
static bool read_bytes(const char *text, size_t count, uint8_t *ret_bytes)
{
    for (size_t i = 0; i < count; i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void write_bytes(const uint8_t *bytes, size_t count, char *text)
{
    static const char DIGITS[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        text[2 * i] = DIGITS[bytes[i] >> 4];
        text[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Version 00 ends behind the flags; a later one may go on behind another '-'. */
static bool is_end_valid(const char *text, size_t size, uint8_t version)
{
    if (size == CR_TRACE_PARENT_SIZE - 1)
        return true;
    return version > 0 && size > CR_TRACE_PARENT_SIZE - 1 && size <= CR_TRACE_PARENT_MAX &&
           text[CR_TRACE_PARENT_SIZE - 1] == '-';
}

bool cr_trace_parse(const char *text, size_t size, struct cr_trace *ret_trace)
{
    struct cr_trace trace;
    uint8_t version;
    uint8_t flags;

    if (size < CR_TRACE_PARENT_SIZE - 1 || text[2] != '-' || text[35] != '-' ||
        text[FLAGS_AT - 1] != '-')
        return false;
    if (!read_bytes(text, 1, &version) || version == 0xff || !is_end_valid(text, size, version) ||
        !read_bytes(text + 3, sizeof(trace.trace_id), trace.trace_id) ||
        !read_bytes(text + 36, sizeof(trace.span_id), trace.span_id) ||
        !read_bytes(text + FLAGS_AT, 1, &flags))
        return false;
    if (is_zero(trace.trace_id, sizeof(trace.trace_id)) ||
        is_zero(trace.span_id, sizeof(trace.span_id)))
        return false;
    trace.flags = flags & CR_TRACE_SAMPLED;
    trace.is_remote = true;
    *ret_trace = trace;
    return true;
}

void cr_trace_format(const struct cr_trace *trace, char text[CR_TRACE_PARENT_SIZE])
{
    text[0] = '0'; /* the version */
    text[1] = '0';
    text[2] = '-';
    write_bytes(trace->trace_id, sizeof(trace->trace_id), text + 3);
    text[35] = '-';
    write_bytes(trace->span_id, sizeof(trace->span_id), text + 36);
    text[FLAGS_AT - 1] = '-';
    write_bytes(&trace->flags, 1, text + FLAGS_AT);
}

bool cr_trace_is_set(const struct cr_trace *trace)
{
    return !is_zero(trace->trace_id, sizeof(trace->trace_id));
}

/* getrandom(2) of so few bytes neither blocks after boot nor comes back short; an id may not be all
 * zero. */
static void draw(uint8_t *bytes, size_t size)
{
    (void)!getrandom(bytes, size, 0);
    if (is_zero(bytes, size))
        bytes[size - 1] = 1;
}

struct cr_trace cr_trace_new(bool is_sampled)
{
    struct cr_trace trace = {.flags = is_sampled ? CR_TRACE_SAMPLED : 0};

    draw(trace.trace_id, sizeof(trace.trace_id));
    draw(trace.span_id, sizeof(trace.span_id));
    return trace;
}

struct cr_trace cr_trace_child(const struct cr_trace *parent)
{
    struct cr_trace trace = *parent;

    draw(trace.span_id, sizeof(trace.span_id));
    trace.is_remote = false;
    return trace;
}

void cr_trace_id_text(const struct cr_trace *trace, char text[CR_TRACE_ID_SIZE])
{
    write_bytes(trace->trace_id, sizeof(trace->trace_id), text);
}

void cr_trace_span_text(const uint8_t span_id[8], char text[CR_TRACE_SPAN_SIZE])
{
    write_bytes(span_id, 8, text);
}

struct cr_trace cr_trace_enter(const struct cr_trace *trace)
{
    struct cr_trace before = current;

    current = trace ? *trace : (struct cr_trace){0};
    return before;
}

const struct cr_trace *cr_trace_current(void)
{
    return cr_trace_is_set(&current) ? &current : NULL;
}
