/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <sys/prctl.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_reallocarray(void *memory, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
int __real_vasprintf(char **ret_text, const char *format, va_list args);
int __wrap_vasprintf(char **ret_text, const char *format, va_list args);

/* Allocations until the failure; negative: none is planned. Atomic, as any thread may meet it. */
static atomic_int countdown = -1;

/* Whose allocations count; NULL: everybody's. Written while nothing is planned. */
static const char *_Atomic thread_name;

void test_fail_alloc(int n)
{
    test_fail_alloc_of(NULL, n);
}

void test_fail_alloc_of(const char *thread, int n)
{
    thread_name = thread;
    countdown = n;
}

static bool is_counted(void)
{
    const char *wanted = thread_name;
    char name[16] = "";

    if (!wanted)
        return true;
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    return strcmp(name, wanted) == 0;
}

int test_stop_alloc(void)
{
    return atomic_exchange(&countdown, -1) < 0;
}

static bool fails_now(void)
{
    int left = countdown;

    if (left < 0 || !is_counted())
        return false;
    while (left >= 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1))
        ;
    if (left != 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails_now() ? NULL : __real_realloc(memory, size);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size)
{
    return fails_now() ? NULL : __real_reallocarray(memory, count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails_now() ? NULL : __real_strndup(text, size);
}

/* The format comes from whoever called vasprintf, so it is no literal here. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
{
    return fails_now() ? -1 : __real_vasprintf(ret_text, format, args);
}

#pragma GCC diagnostic pop
