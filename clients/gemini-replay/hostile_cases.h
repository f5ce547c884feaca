/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What servers of models, and the gateways before them, have been seen to
 * send. One table; which of it applies is the name of the model asked for,
 * "gemini-wire-" and the name of the case.
 *
 * Texts of the table are written with ' for " and these marks:
 *   ^         the bytes before and behind go in writes of their own
 *   |         (events only) ends an event
 *   @KEY@     the key that came with the request
 *   @NAME@    what stands behind the last '-' of the case's name
 *   @PORT@    the port that is served
 *   @DATE@    the next second, as an HTTP date
 */
#define HOSTILE_MODEL "gemini-wire-"

enum hostile_lines {
    HOSTILE_LINES_SEED, /* one of the others, as the seed says */
    HOSTILE_LINES_CRLF,
    HOSTILE_LINES_LF,
    HOSTILE_LINES_CR,
};

enum hostile_chop {
    HOSTILE_CHOP_SEED,  /* writes of random sizes */
    HOSTILE_CHOP_BYTES, /* each byte in a write of its own */
    HOSTILE_CHOP_MARKS, /* at the marks only */
};

enum hostile_after {
    HOSTILE_CLOSE,
    HOSTILE_RESET,
    HOSTILE_HOLD, /* nothing more comes, and the connection stays */
};

struct hostile_response {
    const char *before;  /* sent before the head as it is: interim answers; NULL: nothing */
    const char *status;  /* NULL: "200 OK" */
    const char *type;    /* of the content; NULL: text/event-stream */
    const char *headers; /* further ones, each with its CRLF; NULL: none */
    const char *events;  /* JSON texts that become events; NULL: none */
    const char *body;    /* behind the events, as it is; NULL: nothing */
    const char *fill;    /* behind that, fill_count times; NULL: nothing */
    uint32_t fill_count;
    const char *tail; /* behind that; NULL: nothing */
    enum hostile_lines lines;
    enum hostile_chop chop;
    enum hostile_after after;
    uint32_t delay_ms;  /* between two writes */
    bool is_marked;     /* begins with a byte order mark */
    bool is_split;      /* the JSON of an event goes in several data lines */
    bool lacks_end;     /* no blank line behind the last event */
    bool has_comments;  /* lines to keep the connection alive between the events */
    bool is_silent;     /* nothing is sent, not even a head */
    bool is_compressed; /* gzip, whoever may read it */
};

/* Two requests for a case get its answers in turn; the third begins again. */
struct hostile_case {
    const char *name; /* begins with the number of the case in the list of known faults */
    struct hostile_response answers[2];
    size_t answer_count;
};

#define HOSTILE_NUMBERS 34

extern const struct hostile_case hostile_cases[];
extern const size_t hostile_case_count;

/* NULL: there is none of that name (the `size` bytes at `name`). */
const struct hostile_case *hostile_case_find(const char *name, size_t size);
