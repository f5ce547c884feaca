/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include <string.h>

static uint64_t add_byte(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

uint64_t cr_hash(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = add_byte(hash, bytes[i]);
    return hash;
}

uint64_t cr_hash_text(uint64_t hash, const char *text)
{
    return cr_hash(hash, text, strlen(text) + 1);
}

uint64_t cr_hash_number(uint64_t hash, uint64_t number)
{
    for (int shift = 0; shift < 64; shift += 8)
        hash = add_byte(hash, (uint8_t)(number >> shift));
    return hash;
}
