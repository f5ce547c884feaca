/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/collect.h"
#include "tests/fuzz/fuzz.h"

#define FILES 3U
#define FILE_MAX 512U
#define ROOM 1024U

/* What the collector sends out of the box; the first byte chooses the cuts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sbx_collector collector;
    size_t step = size > 0 ? 1U + data[0] : 1;
    size_t total = 0;

    if (sbx_collector_init(&collector, FILES, ROOM) < 0)
        return 0;
    for (size_t i = 0; i < FILES; i++)
        collector.files[i].max_bytes = FILE_MAX;
    for (size_t at = 1; at < size; at += step)
        sbx_collector_feed(&collector, data + at, size - at < step ? size - at : step);
    for (size_t i = 0; i < FILES; i++) {
        FUZZ_CHECK(collector.files[i].status >= 1 && collector.files[i].status <= 5);
        FUZZ_CHECK(collector.files[i].data.size <= FILE_MAX);
        total += collector.files[i].status == 1 ? collector.files[i].data.size : 0;
    }
    FUZZ_CHECK(total <= ROOM);
    sbx_collector_done(&collector);
    return 0;
}
