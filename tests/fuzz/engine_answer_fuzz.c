/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/docker/container.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/msg.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* Bodies of the engine's answers: what is believed was checked. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sbx_container_plan plan = {
        .image = "image", .instance = "i", .seccomp = "{}"};
    char *text = fuzz_text(data, size);
    char id[SBX_CONTAINER_ID_SIZE];
    char message[64];
    struct cr_err err = CR_ERR_INIT;
    struct sbx_container_end end = {.finish_s = -1};
    pid_t pid = -1;

    sbx_engine_message(text, message, sizeof(message));
    FUZZ_CHECK(strlen(message) < sizeof(message) && !strchr(message, '\n'));
    if (sbx_container_id(text, id) == 0)
        FUZZ_CHECK(strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64);
    if (sbx_container_check(&plan, &sbx_default_limits, text, &pid, &err) == 0)
        FUZZ_CHECK(pid == 0 || pid > 1);
    else
        FUZZ_CHECK(pid == -1);
    if (sbx_container_read_end(text, &end) < 0)
        FUZZ_CHECK(!end.is_oom && end.finish_s == -1);
    free(text);
    return 0;
}
