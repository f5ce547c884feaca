/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "orchestrator/graph/fenced.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

/*
 * A model's answer: whatever comes, it is two files that are whole, or a
 * complaint that can be sent.
 */
static void check_file(const char *text)
{
    size_t size = strlen(text);

    FUZZ_CHECK(size > 0 && size <= AGT_FILE_MAX && text[size - 1] == '\n');
    FUZZ_CHECK(cr_utf8_is_valid(text, size));
    FUZZ_CHECK(strspn(text, " \t\r\n\f\v") < size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";
    int r = agt_fenced_read((const char *)data, size, NULL, &files, complaint, sizeof(complaint));

    if (r == 0) {
        check_file(files.solution);
        check_file(files.tests);
        agt_files_done(&files);
        return 0;
    }
    FUZZ_CHECK(r == -EINVAL && !files.solution && !files.tests);
    FUZZ_CHECK(complaint[0] && cr_utf8_is_valid(complaint, strlen(complaint)));
    return 0;
}
