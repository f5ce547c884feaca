/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cr_err;

/*
 * One line per event on stderr: time, level, component, message, key=value
 * pairs. Lines are written with one write(2), so that processes sharing a
 * stderr do not mix. Control characters are escaped; a line is cut at 2 KiB.
 * A line of a thread that works for a trace (common/trace.h) has its ids.
 *
 * As JSON each line is an object with time, level, component, version, pid,
 * message and, of a trace, trace_id and span_id: names that do not change. It
 * is valid UTF-8 whatever came in.
 *
 * Never pass prompts, keys, program code or program output.
 */
enum cr_log_level {
    CR_LOG_ERROR,
    CR_LOG_WARN,
    CR_LOG_INFO,
    CR_LOG_DEBUG,
    CR_LOG_LEVEL_COUNT,
};

enum cr_log_format {
    CR_LOG_TEXT,
    CR_LOG_JSON,
};

/*
 * Called once, first thing in main. `component` is borrowed for ever
 * ("sandboxd-front").
 */
void cr_log_setup(const char *component, enum cr_log_level level, enum cr_log_format format);

/*
 * The same from the texts of the settings --log-level ("error", "warn", "info",
 * "debug") and --log-format ("text", "json"). Returns 0, or -EINVAL with the
 * name of the setting that is wrong.
 */
int cr_log_setup_by_name(const char *component, const char *level, const char *format,
                         struct cr_err *err);

/* True when lines of this level are written. */
bool cr_log_is_on(enum cr_log_level level);

/*
 * Writes one line: `format` is the message followed by key=value pairs of our
 * own, e.g. cr_log_info("run ended execution=%s verdict=%s", id, name).
 * Text that came from outside goes through "%s" and is escaped.
 * Safe from any thread; not async-signal-safe.
 */
void cr_log_write(enum cr_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define cr_log_error(...) cr_log_write(CR_LOG_ERROR, __VA_ARGS__)
#define cr_log_warn(...) cr_log_write(CR_LOG_WARN, __VA_ARGS__)
#define cr_log_info(...) cr_log_write(CR_LOG_INFO, __VA_ARGS__)
#define cr_log_debug(...) cr_log_write(CR_LOG_DEBUG, __VA_ARGS__)
