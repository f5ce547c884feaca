/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include "common/config.h"
#include "common/err.h"
#include "common/trace.h"
#include "common/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define TRACE_MAX_BYTES 96 /* the ids of a trace, behind a line that is full */

static const char *const level_names[] = {
    [CR_LOG_ERROR] = "error",
    [CR_LOG_WARN] = "warn",
    [CR_LOG_INFO] = "info",
    [CR_LOG_DEBUG] = "debug",
};
_Static_assert(sizeof(level_names) / sizeof(level_names[0]) == CR_LOG_LEVEL_COUNT, "one name each");

/* Set once before any thread starts, read-only afterwards. */
static struct {
    const char *component;
    enum cr_log_level level;
    enum cr_log_format format;
} config = {"crisol", CR_LOG_INFO, CR_LOG_TEXT};

void cr_log_setup(const char *component, enum cr_log_level level, enum cr_log_format format)
{
    config.component = component;
    config.level = level;
    config.format = format;
}

static int parse_level(const char *text, enum cr_log_level *ret_level)
{
    for (int i = 0; i < CR_LOG_LEVEL_COUNT; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret_level = (enum cr_log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

int cr_log_setup_by_name(const char *component, const char *level, const char *format,
                         struct cr_err *err)
{
    bool is_json = strcmp(format, "json") == 0;
    enum cr_log_level parsed;

    if (parse_level(level, &parsed) < 0)
        return cr_err_set(err, EINVAL, "--log-level: '%s' is not error, warn, info or debug",
                          level);
    if (!is_json && strcmp(format, "text") != 0)
        return cr_err_set(err, EINVAL, "--log-format: '%s' is neither text nor json", format);
    cr_log_setup(component, parsed, is_json ? CR_LOG_JSON : CR_LOG_TEXT);
    return 0;
}

bool cr_log_is_on(enum cr_log_level level)
{
    return level <= config.level;
}

/* A line while it is put together. */
struct line {
    char text[LINE_MAX_BYTES + TRACE_MAX_BYTES + 8];
    size_t used;
};

/*
 * Appends `text` with control characters (and, for JSON, quotes) escaped. What is not UTF-8 would
 * make a whole JSON document unreadable: of such text each byte beyond ASCII is escaped, too.
 */
static void add_escaped(struct line *line, const char *text, size_t size)
{
    static const char HEX[] = "0123456789abcdef";
    static const char ESCAPE[] = {'\\', 'u', '0', '0'};
    bool is_json = config.format == CR_LOG_JSON;
    bool is_broken = is_json && !cr_utf8_is_valid(text, size);

    for (size_t i = 0; i < size && line->used + 8 < LINE_MAX_BYTES; i++) {
        uint8_t byte = (uint8_t)text[i];

        if (is_json && (byte == '"' || byte == '\\')) {
            line->text[line->used++] = '\\';
            line->text[line->used++] = (char)byte;
        } else if (byte < 0x20 || byte == 0x7F || (is_broken && byte > 0x7F)) {
            memcpy(line->text + line->used, ESCAPE, sizeof(ESCAPE));
            line->text[line->used + 4] = HEX[byte >> 4];
            line->text[line->used + 5] = HEX[byte & 15];
            line->used += 6;
        } else {
            line->text[line->used++] = (char)byte;
        }
    }
    if (is_json) /* it may be full in the middle of a character */
        line->used = cr_utf8_complete_prefix(line->text, line->used);
}

static void begin(struct line *line, enum cr_log_level level)
{
    struct timespec now = {0};
    struct tm utc = {0};
    int n;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    /* cppcheck-suppress ctuuninitvar ; it is filled in here */
    n = snprintf(line->text, sizeof(line->text),
                 config.format == CR_LOG_JSON
                     ? "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"level\":\"%s\","
                       "\"component\":\"%s\",\"pid\":%d"
                     : "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %s[%d] ",
                 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                 utc.tm_sec, now.tv_nsec / 1000000, level_names[level], config.component,
                 (int)getpid());
    line->used = n > 0 ? (size_t)n : 0;
}

/* What the thread works for. */
static void add_trace(struct line *line)
{
    const struct cr_trace *trace = cr_trace_current();
    char id[CR_TRACE_ID_SIZE];
    char span[CR_TRACE_SPAN_SIZE];
    int n;

    if (!trace)
        return;
    cr_trace_id_text(trace, id);
    cr_trace_span_text(trace->span_id, span);
    n = snprintf(line->text + line->used, sizeof(line->text) - line->used,
                 config.format == CR_LOG_JSON ? ",\"trace_id\":\"%s\",\"span_id\":\"%s\""
                                              : " trace_id=%s span_id=%s",
                 id, span);
    line->used += n > 0 ? (size_t)n : 0;
}

static void add_text(struct line *line, const char *text)
{
    static const char BEFORE[] = ",\"version\":\"" CR_VERSION "\",\"message\":\"";

    if (config.format == CR_LOG_TEXT) {
        add_escaped(line, text, strlen(text));
        add_trace(line);
        return;
    }
    add_trace(line);
    memcpy(line->text + line->used, BEFORE, sizeof(BEFORE) - 1);
    line->used += sizeof(BEFORE) - 1;
    add_escaped(line, text, cr_utf8_complete_prefix(text, strlen(text)));
    line->text[line->used++] = '"';
    line->text[line->used++] = '}';
}

void cr_log_write(enum cr_log_level level, const char *format, ...)
{
    char message[LINE_MAX_BYTES];
    struct line line;
    va_list args;

    if (!cr_log_is_on(level))
        return;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    begin(&line, level);
    add_text(&line, message);
    line.text[line.used++] = '\n';
    /* A full or closed stderr must not stop the service. */
    (void)!write(STDERR_FILENO, line.text, line.used);
}
