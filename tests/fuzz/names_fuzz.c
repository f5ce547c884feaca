/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/list.h"
#include "orchestrator/model/reply.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* A duration as a provider says it, "1.5s". */
static void read_duration(const uint8_t *data, size_t size)
{
    char text[64];
    int64_t ms = -1;

    if (size >= sizeof(text))
        return;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (agt_duration_parse(text, &ms) == 0)
        FUZZ_CHECK(ms >= 0);
}

/* Pages of a provider's list of models, two of them, as they would follow each other. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agt_names names = {NULL, 0};

    for (int page = 0; page < 2; page++) {
        const size_t before = names.count;
        char *next = NULL;

        if (agt_names_parse(data, size, &names, &next) < 0)
            FUZZ_CHECK(!next);
        FUZZ_CHECK(names.count >= before && names.count <= AGT_LIST_MAX);
        free(next);
    }
    for (size_t i = 0; i < names.count; i++)
        FUZZ_CHECK(names.items[i]);
    agt_names_done(&names);
    read_duration(data, size);
    return 0;
}
