/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "sandboxd/front/output.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* Takes everything there is; each byte must be the one the program wrote at that offset. */
static void drain(struct sbx_output *output, const uint8_t *written)
{
    struct cr_buf chunk;

    cr_buf_init(&chunk, SBX_CHUNK_MAX);
    while (sbx_output_has_piece(output)) {
        struct sbx_piece piece = sbx_output_take(output, &chunk);

        FUZZ_CHECK(piece.type != SBX_PIECE_NONE);
        if (piece.type == SBX_PIECE_DATA) {
            FUZZ_CHECK(piece.size == chunk.size && piece.offset + piece.size <= output->total);
            FUZZ_CHECK(memcmp(chunk.data, written + piece.offset, piece.size) == 0);
        }
        cr_buf_clear(&chunk);
    }
    cr_buf_done(&chunk);
}

/* Bytes 0 to 2: policy and text, cap, step; then what the program writes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sbx_output output;
    uint64_t cap;
    size_t step;

    if (size < 3)
        return 0;
    cap = 1U + data[1];
    step = 1U + data[2];
    sbx_output_init(&output, (enum sbx_overflow)(data[0] % 3), cap, data[0] & 0x80);
    data += 3;
    size -= 3;
    for (size_t at = 0; at < size; at += step) {
        (void)sbx_output_feed(&output, data + at, size - at < step ? size - at : step);
        drain(&output, data);
    }
    sbx_output_end(&output);
    drain(&output, data);
    FUZZ_CHECK(sbx_output_is_drained(&output) && output.total == size);
    FUZZ_CHECK(output.taken == (size < cap ? size : cap));
    FUZZ_CHECK(output.taken + output.dropped == size);
    sbx_output_done(&output);
    return 0;
}
