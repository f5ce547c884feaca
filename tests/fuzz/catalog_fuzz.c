/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/model/catalog.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const models[] = {"gemini-2.5-flash", "a", ""};
    struct agt_catalog *catalog = NULL;
    struct cr_err err = CR_ERR_INIT;
    int r = agt_catalog_parse((const char *)data, size, &catalog, &err);

    FUZZ_CHECK(r == 0 || r == -EINVAL);
    FUZZ_CHECK((r == 0) == (catalog != NULL));
    FUZZ_CHECK(r == 0 || strncmp(err.text, "line ", 5) == 0 || memchr(data, 0, size));
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        const struct agt_catalog_entry *entry = agt_catalog_find(catalog, models[i]);

        if (!entry)
            continue;
        FUZZ_CHECK(entry->temperature >= 0 && entry->temperature <= 2);
        FUZZ_CHECK(agt_catalog_cost(entry, 1000, 1000) >= agt_catalog_cost(entry, 1, 1));
    }
    (void)agt_catalog_free(catalog);
    return 0;
}
