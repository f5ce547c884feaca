/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/glob.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>

#define PATH_SIZE_MAX 24U /* the slow matcher below takes exponential time */

/* Splits off the first component: returns its size. */
static size_t first(const char *text, size_t size)
{
    const char *slash = memchr(text, '/', size);

    return slash ? (size_t)(slash - text) : size;
}

/*
 * The meaning of "*" and "**" written down without any cleverness; every
 * single component without a star is the matcher's own. Sets with a star or
 * characters of more bytes than one are left to the unit test.
 */
static bool slow_component(const char *pattern, size_t pattern_size, const char *name, size_t size)
{
    if (pattern_size == 0)
        return size == 0;
    if (pattern[0] == '*')
        return slow_component(pattern + 1, pattern_size - 1, name, size) ||
               (size > 0 && slow_component(pattern, pattern_size, name + 1, size - 1));
    return size > 0 && (pattern[0] == '?' || pattern[0] == name[0]) &&
           slow_component(pattern + 1, pattern_size - 1, name + 1, size - 1);
}

static bool slow_match(const char *pattern, size_t pattern_size, const char *path, size_t size)
{
    const size_t part = first(pattern, pattern_size);
    const size_t name = first(path, size);
    const bool is_last_part = part == pattern_size;
    const bool is_last_name = name == size;

    if (part == 2 && memcmp(pattern, "**", 2) == 0) {
        if (is_last_part)
            return true; /* it has at least one component to stand for */
        return slow_match(pattern + 3, pattern_size - 3, path, size) ||
               (!is_last_name &&
                slow_match(pattern, pattern_size, path + name + 1, size - name - 1));
    }
    if (!slow_component(pattern, part, path, name) || is_last_part != is_last_name)
        return false;
    return is_last_part || slow_match(pattern + part + 1, pattern_size - part - 1, path + name + 1,
                                      size - name - 1);
}

static bool is_simple(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] >= 0x80 || text[i] == '[')
            return false;
    }
    return true;
}

/* The pattern, a newline, the path. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *border = size > 0 ? memchr(text, '\n', size) : NULL;
    const size_t pattern_size = border ? (size_t)(border - text) : 0;
    const char *path = border ? border + 1 : NULL;
    const size_t path_size = border ? size - pattern_size - 1 : 0;
    bool is_match;

    if (!border || sbx_glob_problem(text, pattern_size) || !sbx_glob_may_give(path, path_size))
        return 0;
    is_match = sbx_glob_matches(text, pattern_size, path, path_size);
    if (pattern_size <= PATH_SIZE_MAX && path_size <= PATH_SIZE_MAX &&
        is_simple(text, pattern_size) && is_simple(path, path_size))
        FUZZ_CHECK(is_match == slow_match(text, pattern_size, path, path_size));
    FUZZ_CHECK(sbx_glob_matches("**", 2, path, path_size));
    return 0;
}
