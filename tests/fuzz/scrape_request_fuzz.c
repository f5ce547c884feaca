/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/scrape_request.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* The answer comes with the last byte of the head, is the same from there on, and is not a page
 * unless the line asks for it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    enum sbx_scrape_request last = sbx_scrape_parse(text, size);
    enum sbx_scrape_request first = SBX_SCRAPE_INCOMPLETE;

    for (size_t i = 0; i <= size && first == SBX_SCRAPE_INCOMPLETE; i++)
        first = sbx_scrape_parse(text, i);
    FUZZ_CHECK(first == last);
    if (last == SBX_SCRAPE_METRICS)
        FUZZ_CHECK(memcmp(text, "GET /metrics", 12) == 0);
    if (last == SBX_SCRAPE_INCOMPLETE)
        FUZZ_CHECK(size < SBX_SCRAPE_HEAD_MAX);
    return 0;
}
