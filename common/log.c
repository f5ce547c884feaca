/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include "common/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

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

/* Appends `text` with control characters (and, for JSON, quotes) escaped. Returns the new length.
 */
static size_t add_escaped(char *line, size_t used, const char *text)
{
    static const char HEX[] = "0123456789abcdef";
    static const char ESCAPE[] = {'\\', 'u', '0', '0'};

    for (; *text && used + 8 < LINE_MAX_BYTES; text++) {
        uint8_t byte = (uint8_t)*text;

        if (config.format == CR_LOG_JSON && (byte == '"' || byte == '\\')) {
            line[used++] = '\\';
            line[used++] = (char)byte;
        } else if (byte < 0x20 || byte == 0x7F) {
            memcpy(line + used, ESCAPE, sizeof(ESCAPE));
            line[used + 4] = HEX[byte >> 4];
            line[used + 5] = HEX[byte & 15];
            used += 6;
        } else {
            line[used++] = (char)byte;
        }
    }
    return used;
}

void cr_log_write(enum cr_log_level level, const char *format, ...)
{
    char message[LINE_MAX_BYTES];
    char line[LINE_MAX_BYTES + 8];
    struct timespec now = {0};
    struct tm utc = {0};
    va_list args;
    size_t used;
    int n;

    if (!cr_log_is_on(level))
        return;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    n = snprintf(line, sizeof(line),
                 config.format == CR_LOG_JSON
                     ? "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"level\":\"%s\","
                       "\"component\":\"%s\",\"pid\":%d,\"message\":\""
                     : "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %s[%d] ",
                 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                 utc.tm_sec, now.tv_nsec / 1000000, level_names[level], config.component,
                 (int)getpid());
    used = n > 0 ? (size_t)n : 0;
    used = add_escaped(line, used, message);
    if (config.format == CR_LOG_JSON) {
        line[used++] = '"';
        line[used++] = '}';
    }
    line[used++] = '\n';
    /* A full or closed stderr must not stop the service. */
    (void)!write(STDERR_FILENO, line, used);
}
