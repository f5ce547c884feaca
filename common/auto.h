/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Ownership on scope: a local declared with CR_AUTO_* is released when it goes
 * out of scope; cr_take_* is the only way to let it escape.
 * Always initialise such a local (NULL or -1).
 */
#define CR_AUTO_CLOSE __attribute__((cleanup(cr_closep)))
#define CR_AUTO_FREE __attribute__((cleanup(cr_freep)))
#define CR_AUTO_FCLOSE __attribute__((cleanup(cr_fclosep)))

static inline void cr_closep(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

/* Takes void * so that it fits every pointer type: the argument is a pointer to it. */
static inline void cr_freep(void *pointer)
{
    free(*(void **)pointer);
}

static inline void cr_fclosep(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

/* Returns the fd and leaves -1 behind. */
static inline int cr_take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

/* Closes the fd when open and leaves -1 behind. */
static inline void cr_close_fd(int *fd)
{
    cr_closep(fd);
    *fd = -1;
}

/* Yields the pointer and leaves NULL behind. */
#define cr_take_ptr(pointer_to_owner)                                                              \
    __extension__({                                                                                \
        __auto_type cr_owner_ = (pointer_to_owner);                                                \
        __auto_type cr_taken_ = *cr_owner_;                                                        \
        *cr_owner_ = NULL;                                                                         \
        cr_taken_;                                                                                 \
    })

#define CR_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
