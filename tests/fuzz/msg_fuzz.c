/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/msg.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* What a message that was let through must be, said once more in other words. */
static void check(const union sbx_msg *msg, const uint8_t *data, size_t size)
{
    union sbx_msg again;

    FUZZ_CHECK(msg->header.size == size && size <= sizeof(*msg));
    FUZZ_CHECK(memcmp(msg, data, size) == 0);
    FUZZ_CHECK(sbx_msg_parse(msg, size, &again, NULL) == 0);
    if (msg->header.type == SBX_MSG_RESULT) {
        FUZZ_CHECK(strcmp(sbx_verdict_name(msg->result.verdict), "unknown") != 0);
        FUZZ_CHECK(strcmp(sbx_stage_name(msg->result.stage), "unknown") != 0);
        for (uint32_t i = 0; i < msg->result.other_hit_count; i++)
            FUZZ_CHECK(strcmp(sbx_limit_name(msg->result.other_hits[i].limit), "unknown") != 0);
    }
    if (msg->header.type == SBX_MSG_RUN) {
        const uint32_t of_session = msg->run.flags & (SBX_RUN_HAS_CELL | SBX_RUN_NO_PROGRAM);

        FUZZ_CHECK(of_session == 0 || msg->run.session != 0);
        FUZZ_CHECK((msg->run.columns != 0) == ((msg->run.flags & SBX_RUN_HAS_TERMINAL) != 0));
        for (size_t i = 0; i < SBX_LIMIT_COUNT; i++)
            FUZZ_CHECK(msg->run.limits.value[i] != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union sbx_msg msg;

    if (sbx_msg_parse(data, size, &msg, NULL) == 0)
        check(&msg, data, size);
    return 0;
}
