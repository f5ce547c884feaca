/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stddef.h>

/*
 * An error with its chain of context, outermost first.
 *
 * Lives on the stack of whoever wants the text; never allocates, so that it
 * works when memory is gone and between clone and exec. Functions return 0 or
 * a negative errno and fill in the text only when `err` is not NULL.
 * Texts may hold host paths: log them, do not send them to a client.
 */
#define CR_ERR_TEXT_MAX 512

struct cr_err {
    int code;                   /* negative errno, 0 when nothing failed */
    char text[CR_ERR_TEXT_MAX]; /* always terminated */
};

#define CR_ERR_INIT                                                                                \
    {                                                                                              \
        0,                                                                                         \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* A failure of our own: sets code to -`errnum` and the text. Returns -`errnum`. */
int cr_err_set(struct cr_err *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A failed system call: as cr_err_set(), with the description of `errnum` appended. */
int cr_err_sys(struct cr_err *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Puts "`format`: " in front of the text. Keeps the code.
 * Returns err->code, or -EINVAL when err is NULL (callers that pass NULL
 * return their own code).
 */
int cr_err_wrap(struct cr_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
