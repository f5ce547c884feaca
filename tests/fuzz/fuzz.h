/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* libFuzzer's entry, which every target defines. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input. */
#define FUZZ_CHECK(claim)                                                                          \
    do {                                                                                           \
        if (!(claim))                                                                              \
            abort();                                                                               \
    } while (0)
