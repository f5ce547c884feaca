/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config_file.h"
#include "common/err.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* Every line is a setting, nothing, or refused with a reason; what is read can be read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cr_config_line line;
    struct cr_err err = CR_ERR_INIT;
    size_t at = 0;
    int r;

    line.number = 0;
    while ((r = cr_config_file_next((const char *)data, size, &at, &line, &err)) > 0) {
        FUZZ_CHECK(at <= size);
        FUZZ_CHECK(line.number <= size);
        FUZZ_CHECK(line.name[0] != '\0' && strlen(line.name) < sizeof(line.name));
        FUZZ_CHECK(!strpbrk(line.name, "=\n") && !strpbrk(line.value, "\r\n"));
    }
    FUZZ_CHECK(r == 0 ? at == size : err.text[0] != '\0');
    return 0;
}
