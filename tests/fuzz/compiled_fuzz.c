/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "sandboxd/front/compiled.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/payload.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>

static const char *const patterns[] = {"**/*.class", "main", NULL};
static const struct sbx_runtime runtime = {.compile_output = patterns};

/*
 * What a compile stage left, as an artifact of a caller has it. What was
 * believed fits into a payload that has no file, and nothing of it twice.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cr_buf payload;

    if (sbx_compiled_check(data, size, &runtime) < 0)
        return 0;
    cr_buf_init(&payload, SBX_PAYLOAD_MAX);
    FUZZ_CHECK(sbx_payload_begin(&payload) == 0);
    FUZZ_CHECK(sbx_compiled_add(data, size, &payload) == 0);
    FUZZ_CHECK(sbx_compiled_add(data, size, &payload) == -EEXIST);
    cr_buf_done(&payload);
    return 0;
}
