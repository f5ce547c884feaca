/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Some libraries (protobuf-c) have char * members for text that they only
 * read. This lends them constant text without a cast that hides the qualifier
 * at every place.
 */
static inline char *cr_lend(const char *text)
{
    union {
        const char *lent;
        char *as_member;
    } bridge = {.lent = text};

    return bridge.as_member;
}
