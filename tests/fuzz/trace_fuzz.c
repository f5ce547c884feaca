/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trace.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* What is read can be written, and is read from there as the same; only its first 55 bytes count.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[CR_TRACE_PARENT_SIZE];
    struct cr_trace trace;
    struct cr_trace again;

    memset(&trace, 0, sizeof(trace));
    memset(&again, 0, sizeof(again));
    if (!cr_trace_parse((const char *)data, size, &trace))
        return 0;
    FUZZ_CHECK(size >= CR_TRACE_PARENT_SIZE - 1 && size <= CR_TRACE_PARENT_MAX);
    FUZZ_CHECK(cr_trace_is_set(&trace) && trace.flags <= CR_TRACE_SAMPLED);
    cr_trace_format(&trace, text);
    FUZZ_CHECK(strlen(text) == CR_TRACE_PARENT_SIZE - 1);
    FUZZ_CHECK(memcmp(text + 2, data + 2, 51) == 0);
    FUZZ_CHECK(cr_trace_parse(text, strlen(text), &again));
    FUZZ_CHECK(memcmp(&trace, &again, sizeof(trace)) == 0);
    return 0;
}
