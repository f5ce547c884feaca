/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/paths.h"

#include "rpc/status.h"
#include "sandboxd/front/request.h"
#include "sandboxd/wire/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESERVED ".crisol"

const char *sbx_path_problem(const char *path)
{
    if (*path == '\0')
        return "is required";
    if (*path == '/')
        return "must be relative to /workspace";
    if (!sbx_path_is_safe(path, strlen(path)))
        return "must be 1 to 16 components of 1 to 255 bytes, 1,024 bytes in all, without '.', "
               "'..' and control characters";
    if (strncmp(path, RESERVED, sizeof(RESERVED) - 1) == 0)
        return "names beginning with '" RESERVED "' are reserved";
    return NULL;
}

bool sbx_paths_clash(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (*a == '\0' && (*b == '\0' || *b == '/')) || (*b == '\0' && *a == '/');
}

struct entry {
    const char *path;
    size_t index;
};

/* '/' sorts before everything else, so that a folder is followed at once by what lies in it. */
static int compare(const void *left, const void *right)
{
    const unsigned char *a = (const unsigned char *)((const struct entry *)left)->path;
    const unsigned char *b = (const unsigned char *)((const struct entry *)right)->path;

    while (*a && *a == *b) {
        a++;
        b++;
    }
    if (*a == *b)
        return 0;
    if (*a == '\0' || *b == '\0')
        return *a == '\0' ? -1 : 1;
    if (*a == '/' || *b == '/')
        return *a == '/' ? -1 : 1;
    return *a < *b ? -1 : 1;
}

void sbx_paths_check_clashes(const char *const *paths, size_t count, struct rpc_status *status)
{
    struct entry entries[SBX_FILES_MAX];
    char field[32];

    for (size_t i = 0; i < count; i++)
        entries[i] = (struct entry){paths[i], i};
    // cppcheck-suppress uninitvar // as many as are sorted were just set
    qsort(entries, count, sizeof(entries[0]), compare);
    for (size_t i = 1; i < count; i++) {
        const struct entry *first = &entries[i - 1];
        const struct entry *second = &entries[i];

        if (*first->path == '\0' || !sbx_paths_clash(first->path, second->path))
            continue;
        (void)snprintf(field, sizeof(field), "files[%zu].path",
                       first->index > second->index ? first->index : second->index);
        rpc_status_add_violation(status, field,
                                 strcmp(first->path, second->path) == 0
                                     ? "is the path of files[%zu] too"
                                     : "clashes with files[%zu]: one is a folder of the other",
                                 first->index > second->index ? second->index : first->index);
    }
}

size_t sbx_paths_inodes(const char *const *paths, size_t count)
{
    size_t inodes = count;

    for (size_t i = 0; i < count; i++) {
        for (const char *slash = strchr(paths[i], '/'); slash; slash = strchr(slash + 1, '/'))
            inodes +=
                i == 0 || strncmp(paths[i], paths[i - 1], (size_t)(slash - paths[i]) + 1) != 0;
    }
    return inodes;
}
