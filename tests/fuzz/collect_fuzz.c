/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/collect.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define FILES 3U
#define FILE_MAX 512U
#define ROOM 1024U
#define MATCHES 4U

static size_t check_matches(const struct sbx_collected *file)
{
    size_t total = 0;

    FUZZ_CHECK(file->match_count <= MATCHES);
    for (size_t i = 0; i < file->match_count; i++) {
        const struct sbx_match *match = &file->matches[i];

        FUZZ_CHECK(match->status >= 1 && match->status <= 5 && match->data.size <= FILE_MAX);
        FUZZ_CHECK(strncmp(match->path, "d/", 2) == 0 && !strchr(match->path + 2, '/'));
        FUZZ_CHECK(strcmp(match->path, "d/.") != 0 && strcmp(match->path, "d/..") != 0);
        FUZZ_CHECK(i == 0 || strcmp(file->matches[i - 1].path, match->path) < 0);
        total += match->status == 1 ? match->data.size : 0;
    }
    return total;
}

/* What the collector sends out of the box; the first byte chooses the cuts. The second of three
 * records is a pattern. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sbx_collector collector;
    size_t step = size > 0 ? 1U + data[0] : 1;
    size_t total = 0;

    if (sbx_collector_init(&collector, FILES, ROOM) < 0)
        return 0;
    for (size_t i = 0; i < FILES; i++)
        collector.files[i].max_bytes = FILE_MAX;
    collector.files[1].path = strdup("d/*");
    collector.files[1].max_files = MATCHES;
    for (size_t at = 1; collector.files[1].path && at < size; at += step)
        sbx_collector_feed(&collector, data + at, size - at < step ? size - at : step);
    for (size_t i = 0; i < FILES; i++) {
        FUZZ_CHECK(collector.files[i].status >= 1 && collector.files[i].status <= 6);
        FUZZ_CHECK(collector.files[i].data.size <= FILE_MAX);
        total += collector.files[i].status == 1 ? collector.files[i].data.size : 0;
        total += check_matches(&collector.files[i]);
    }
    FUZZ_CHECK(total <= ROOM);
    sbx_collector_done(&collector);
    return 0;
}
