/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * W3C Trace Context (https://www.w3.org/TR/trace-context/): which request,
 * across all services, something was done for. Plain values, no ownership.
 */
struct cr_trace {
    uint8_t trace_id[16]; /* all zero: there is none */
    uint8_t span_id[8];   /* the span that it is done in */
    uint8_t flags;        /* CR_TRACE_SAMPLED; other bits are not passed on (they are reserved) */
    bool is_remote;       /* the span is somebody else's, who sent it */
};

#define CR_TRACE_SAMPLED 1U
#define CR_TRACE_ID_SIZE 33U     /* as text, with the NUL */
#define CR_TRACE_SPAN_SIZE 17U   /* as text, with the NUL */
#define CR_TRACE_PARENT_SIZE 56U /* "00-…-…-01", with the NUL */
/* Of a header that is read at all: a version of the future may be longer than ours. */
#define CR_TRACE_PARENT_MAX 256U

/*
 * Reads the value of a header traceparent. Pure. False when it is not valid, and then it is as if
 * it were not there (§3.2.2.3); a higher version is read as far as version 00 goes (§4.3).
 * Untouched on failure.
 */
bool cr_trace_parse(const char *text, size_t size, struct cr_trace *ret_trace);

/* Writes it as version 00. */
void cr_trace_format(const struct cr_trace *trace, char text[CR_TRACE_PARENT_SIZE]);

bool cr_trace_is_set(const struct cr_trace *trace);

/* A trace of our own, with its first span. `is_sampled`: somebody will want to see it. */
struct cr_trace cr_trace_new(bool is_sampled);

/* The same trace with a span of its own. */
struct cr_trace cr_trace_child(const struct cr_trace *parent);

/* Lower-case hexadecimal digits. */
void cr_trace_id_text(const struct cr_trace *trace, char text[CR_TRACE_ID_SIZE]);
void cr_trace_span_text(const uint8_t span_id[8], char text[CR_TRACE_SPAN_SIZE]);

/*
 * What the calling thread works for: lines of the log have its ids, and calls to other services
 * pass it on. Returns what was there before, to be put back. NULL: nothing.
 */
struct cr_trace cr_trace_enter(const struct cr_trace *trace);
const struct cr_trace *cr_trace_current(void); /* NULL: nothing */
