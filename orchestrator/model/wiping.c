/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/wiping.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

void *agt_wiping_malloc(size_t size)
{
    return malloc(size);
}

void *agt_wiping_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

void agt_wiping_free(void *memory)
{
    if (!memory)
        return;
    explicit_bzero(memory, malloc_usable_size(memory));
    free(memory);
}

/* Never realloc(3): it may move the content and leave the old copy behind. */
void *agt_wiping_realloc(void *memory, size_t size)
{
    size_t old = memory ? malloc_usable_size(memory) : 0;
    void *moved;

    if (memory && size > 0 && size <= old && size >= old / 2)
        return memory;
    moved = malloc(size > 0 ? size : 1);
    if (!moved)
        return NULL;
    if (memory) {
        memcpy(moved, memory, old < size ? old : size);
        agt_wiping_free(memory);
    }
    return moved;
}

char *agt_wiping_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    if (copy)
        memcpy(copy, text, size);
    return copy;
}
