/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/glob.h"

#include "common/utf8.h"
#include "sandboxd/wire/payload.h"

#include <stdint.h>
#include <string.h>

#define NOWHERE SIZE_MAX
/* As in requests: the report of a runtime is no output of the program. */
#define RESERVED ".crisol"

struct span {
    const char *text;
    size_t size;
};

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

/* Bytes of the character at `at`: continuation bytes belong to the one before them. */
static size_t character_size(struct span name, size_t at)
{
    size_t size = 1;

    while (at + size < name.size && ((unsigned char)name.text[at + size] & 0xc0) == 0x80)
        size++;
    return size;
}

/* Size of the set that begins at `at`, both brackets included; 0: it has no end, or nothing in it.
 * A ']' that comes first is a character. */
static size_t set_size(struct span pattern, size_t at)
{
    size_t first = at + 1;

    if (first < pattern.size && pattern.text[first] == '!')
        first++;
    for (size_t i = first + 1; i < pattern.size; i++) {
        if (pattern.text[i] == ']')
            return i + 1 - at;
    }
    return 0;
}

/* Whether the set [at, at + size) of the pattern has the character. */
static bool set_has(struct span pattern, size_t at, size_t size, char c)
{
    const bool is_negated = pattern.text[at + 1] == '!';
    const size_t end = at + size - 1;
    bool is_in = false;

    for (size_t i = at + 1 + is_negated; i < end; i++) {
        char low = pattern.text[i];
        char high = low;

        if (i + 2 < end && pattern.text[i + 1] == '-') {
            high = pattern.text[i + 2];
            i += 2;
        }
        is_in = is_in || (c >= low && c <= high);
    }
    /* Negated sets hold every character that is not ASCII, others none. */
    return is_ascii(c) ? is_in != is_negated : is_negated;
}

/* One character of the name against what stands at `at` of the pattern; returns the size of that in
 * the pattern, 0 when they differ. */
static size_t match_character(struct span pattern, size_t at, struct span name, size_t name_at)
{
    const char c = name.text[name_at];
    size_t size;

    if (pattern.text[at] == '?')
        return 1;
    if (pattern.text[at] != '[')
        return pattern.text[at] == c ? 1 : 0;
    size = set_size(pattern, at);
    return size > 0 && set_has(pattern, at, size, c) ? size : 0;
}

/* Sets and '?' take a whole character, a literal one byte. */
static size_t taken(struct span pattern, size_t at, struct span name, size_t name_at)
{
    const char p = pattern.text[at];

    return p == '?' || p == '[' ? character_size(name, name_at) : 1;
}

/* Going back to the last '*' is enough: what an earlier one took is never taken too long. */
static bool match_component(struct span pattern, struct span name)
{
    size_t star = NOWHERE;
    size_t mark = 0;
    size_t p = 0;
    size_t n = 0;

    while (n < name.size) {
        size_t used = 0;

        if (p < pattern.size && pattern.text[p] == '*') {
            star = p++;
            mark = n;
            continue;
        }
        if (p < pattern.size)
            used = match_character(pattern, p, name, n);
        if (used > 0) {
            n += taken(pattern, p, name, n);
            p += used;
        } else if (star != NOWHERE) {
            mark += character_size(name, mark);
            n = mark;
            p = star + 1;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.text[p] == '*')
        p++;
    return p == pattern.size;
}

/* The component at `at`; the one behind it begins at `at` + its size + 1. */
static struct span component(struct span path, size_t at)
{
    const char *slash = memchr(path.text + at, '/', path.size - at);
    const size_t end = slash ? (size_t)(slash - path.text) : path.size;

    return (struct span){path.text + at, end - at};
}

static bool is_any_folders(struct span part)
{
    return part.size == 2 && part.text[0] == '*' && part.text[1] == '*';
}

bool sbx_glob_matches(const char *pattern, size_t pattern_size, const char *path, size_t path_size)
{
    const struct span patterns = {pattern, pattern_size};
    const struct span names = {path, path_size};
    size_t star = NOWHERE; /* the component behind the last "**" */
    size_t mark = 0;
    size_t p = 0;
    size_t n = 0;

    /* A position behind the last component is size + 1. */
    while (n <= path_size) {
        const struct span name = component(names, n);
        const struct span part =
            p <= pattern_size ? component(patterns, p) : (struct span){NULL, 0};

        if (part.text && is_any_folders(part)) {
            star = p = p + part.size + 1;
            mark = n;
        } else if (part.text && match_component(part, name)) {
            p += part.size + 1;
            n += name.size + 1;
        } else if (star != NOWHERE) {
            mark += component(names, mark).size + 1;
            n = mark;
            p = star;
        } else {
            return false;
        }
    }
    return p > pattern_size;
}

static const char *component_problem(struct span part)
{
    for (size_t i = 0; i < part.size; i++) {
        size_t size;

        if (part.text[i] == '*' && i + 1 < part.size && part.text[i + 1] == '*' && part.size > 2)
            return "'**' must stand alone between slashes";
        if (part.text[i] != '[')
            continue;
        size = set_size(part, i);
        if (size == 0)
            return "'[' has no ']' behind it; [[] is the character itself";
        for (size_t j = i; j < i + size; j++) {
            if (!is_ascii(part.text[j]))
                return "a set may hold ASCII characters only";
        }
        i += size - 1;
    }
    return NULL;
}

const char *sbx_glob_problem(const char *pattern, size_t size)
{
    const struct span patterns = {pattern, size};

    if (!sbx_path_is_safe(pattern, size))
        return "must be 1 to 16 components of 1 to 255 bytes, 1,024 bytes in all, relative to "
               "/workspace, without '.', '..' and control characters";
    for (size_t at = 0; at <= size;) {
        const struct span part = component(patterns, at);
        const char *problem = component_problem(part);

        if (problem)
            return problem;
        at += part.size + 1;
    }
    return NULL;
}

bool sbx_glob_may_give(const char *path, size_t size)
{
    return sbx_path_is_safe(path, size) && cr_utf8_is_valid(path, size) &&
           (size < sizeof(RESERVED) - 1 || memcmp(path, RESERVED, sizeof(RESERVED) - 1) != 0);
}
