/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/model/json_front.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include <cjson/cJSON.h>

/* The front bounds the depth, so this recursion is bounded too. */
static void check_strings(const cJSON *item)
{
    for (; item; item = item->next) {
        if (item->string)
            FUZZ_CHECK(cr_utf8_is_valid(item->string, strlen(item->string)));
        if (item->valuestring)
            FUZZ_CHECK(cr_utf8_is_valid(item->valuestring, strlen(item->valuestring)));
        check_strings(item->child);
    }
}

static void check_joined(const cJSON *item)
{
    for (; item; item = item->next) {
        if (item->valuestring) {
            CR_AUTO_BUF struct cr_buf text = {0};
            struct agt_json_join join = {0};

            cr_buf_init(&text, (size_t)1 << 20);
            FUZZ_CHECK(
                agt_json_join_add(&join, &text, item->valuestring, strlen(item->valuestring)) == 0);
            FUZZ_CHECK(agt_json_join_end(&join, &text) == 0);
            FUZZ_CHECK(cr_utf8_is_valid(cr_buf_str(&text), text.size));
        }
        check_joined(item->child);
    }
}

static void run(const uint8_t *data, size_t size, bool keep_surrogates)
{
    const struct agt_json_options options = {.max_depth = 32,
                                             .max_values = 1000,
                                             .allow_trailing = size % 2 == 0,
                                             .keep_surrogates = keep_surrogates};
    cJSON *root = NULL;
    uint32_t flags = 0;
    int r = agt_json_parse(data, size, &options, &root, &flags, NULL);

    FUZZ_CHECK((r == 0) == (root != NULL));
    if (keep_surrogates)
        check_joined(root);
    else
        check_strings(root);
    cJSON_Delete(root);
}

/* What comes through the front is UTF-8 in every string. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size, false);
    run(data, size, true);
    return 0;
}
