/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/cgroup_paths.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_SIZE 4096

/* Copies the next line without its end; false at the end of the text. Longer lines are cut. */
static bool next_line(const char **text, char *line)
{
    size_t size = strcspn(*text, "\n");
    size_t kept = size < LINE_SIZE ? size : LINE_SIZE - 1;

    if (**text == '\0')
        return false;
    memcpy(line, *text, kept);
    line[kept] = '\0';
    *text += size + ((*text)[size] == '\n');
    return true;
}

/* True when `word` is one of the comma-separated words of `list`. */
static bool has_word(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");

        if (length == size && memcmp(at, word, size) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static int copy(const char *text, char *ret_path, size_t size)
{
    if (strlen(text) >= size)
        return -ENAMETOOLONG;
    memcpy(ret_path, text, strlen(text) + 1);
    return 0;
}

int sbx_cgroup_own_path(const char *text, const char *controller, char *ret_path, size_t size)
{
    char line[LINE_SIZE];

    while (next_line(&text, line)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;

        if (!path)
            continue;
        *list++ = '\0';
        *path++ = '\0';
        if (controller ? has_word(list, controller) : strcmp(line, "0") == 0 && *list == '\0')
            return copy(path, ret_path, size);
    }
    return -ENOENT;
}

/* mountinfo writes blanks and backslashes as three octal digits: proc(5). */
static void unescape(char *text)
{
    char *out = text;

    for (const char *at = text; *at; at++) {
        if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] && at[3]) {
            *out++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 3;
        } else {
            *out++ = *at;
        }
    }
    *out = '\0';
}

/* The part of `path` below `root`, or NULL when it does not lie below. */
static const char *below(const char *path, const char *root)
{
    size_t size = strlen(root);

    if (strcmp(root, "/") == 0)
        return path;
    if (strncmp(path, root, size) != 0 || (path[size] != '/' && path[size] != '\0'))
        return NULL;
    return path + size;
}

/* Fields of mountinfo: id parent dev root point options … - type source super-options. */
static bool match(char *line, const char *controller, char **ret_root, char **ret_point)
{
    char *tail = strstr(line, " - ");
    char *save = NULL;
    const char *type;
    const char *super;

    if (!tail)
        return false;
    *tail = '\0';
    type = strtok_r(tail + 3, " ", &save);
    (void)strtok_r(NULL, " ", &save);
    super = strtok_r(NULL, " ", &save);
    if (!type || !super)
        return false;
    if (controller ? strcmp(type, "cgroup") != 0 || !has_word(super, controller)
                   : strcmp(type, "cgroup2") != 0)
        return false;
    (void)strtok_r(line, " ", &save);
    (void)strtok_r(NULL, " ", &save);
    (void)strtok_r(NULL, " ", &save);
    *ret_root = strtok_r(NULL, " ", &save);
    *ret_point = strtok_r(NULL, " ", &save);
    return *ret_root && *ret_point;
}

int sbx_cgroup_directory(const char *mountinfo, const char *controller, const char *own_path,
                         char *ret_path, size_t size)
{
    char line[LINE_SIZE];

    assert(own_path);
    while (next_line(&mountinfo, line)) {
        char *root;
        char *point;
        const char *rest;
        int n;

        if (!match(line, controller, &root, &point))
            continue;
        unescape(root);
        unescape(point);
        rest = below(own_path, root);
        if (!rest)
            continue;
        n = snprintf(ret_path, size, "%s%s", point, strcmp(rest, "/") == 0 ? "" : rest);
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
    }
    return -ENOENT;
}
