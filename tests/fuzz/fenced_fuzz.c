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

/* The same with terms that allow further files: whatever comes, their paths and sizes are bounded.
 */
static void read_with_more(const char *text, size_t size)
{
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";
    int r;

    terms.max_more_files = 3;
    r = agt_fenced_read(text, size, &terms, &files, complaint, sizeof(complaint));
    FUZZ_CHECK(r == 0 || (r == -EINVAL && complaint[0] && !files.more));
    FUZZ_CHECK(files.more_count <= terms.max_more_files && files.more_bytes <= AGT_MORE_BYTES_MAX);
    for (size_t i = 0; i < files.more_count; i++) {
        const char *path = files.more[i].path;

        FUZZ_CHECK(!agt_files_path_fault(path, strlen(path)) && path[0] != '/');
        FUZZ_CHECK(i == 0 || strcmp(files.more[i - 1].path, path) < 0);
        FUZZ_CHECK(strlen(files.more[i].text) <= AGT_FILE_MAX);
    }
    agt_files_done(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";
    int r = agt_fenced_read((const char *)data, size, NULL, &files, complaint, sizeof(complaint));

    read_with_more((const char *)data, size);
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
