/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/subids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_SIZE 64U /* more than a name of a user has */

/* A number that ends with `end`; *at is then behind that. */
static bool read_number(const char **at, char end, uint32_t *ret_number)
{
    unsigned long long number;
    char *rest;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    number = strtoull(*at, &rest, 10);
    if (errno != 0 || number > UINT32_MAX || *rest != end)
        return false;
    *at = rest + (end != '\0');
    *ret_number = (uint32_t)number;
    return true;
}

/* "owner:first:count" */
static bool read_line(const char *line, size_t size, const char *owner,
                      struct sbx_subids *ret_range)
{
    const size_t owner_size = strlen(owner);
    char text[2 * OWNER_SIZE];
    const char *at = text + owner_size + 1;

    if (size >= sizeof(text) || size <= owner_size + 1)
        return false;
    memcpy(text, line, size);
    text[size] = '\0';
    return memcmp(text, owner, owner_size) == 0 && text[owner_size] == ':' &&
           read_number(&at, ':', &ret_range->first) && read_number(&at, '\0', &ret_range->count) &&
           ret_range->count <= UINT32_MAX - ret_range->first;
}

bool sbx_subids_find(const char *text, const char *name, uid_t uid, struct sbx_subids *ret_range)
{
    struct sbx_subids best = {0};
    char number[16];

    (void)snprintf(number, sizeof(number), "%u", uid);
    while (*text) {
        const size_t size = strcspn(text, "\n");
        struct sbx_subids found;

        if (((name && strlen(name) < OWNER_SIZE && read_line(text, size, name, &found)) ||
             read_line(text, size, number, &found)) &&
            found.count > best.count)
            best = found;
        text += size + (text[size] == '\n');
    }
    if (best.count == 0)
        return false;
    *ret_range = best;
    return true;
}
