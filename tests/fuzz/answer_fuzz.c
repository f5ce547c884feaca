/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/utf8.h"
#include "orchestrator/graph/answer.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void check_file(const char *text)
{
    size_t size = strlen(text);

    FUZZ_CHECK(size > 0 && size <= AGT_FILE_MAX + 1);
    FUZZ_CHECK(cr_utf8_is_valid(text, size));
}

/* An odd first byte: the rest is what submit_files was called with; else it is the text. */
/* Paths and sizes of what a task allows beyond the two are bounded, whatever comes. */
static void read_with_more(struct agt_answer answer)
{
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";
    int r;

    terms.max_more_files = 3;
    answer.terms = &terms;
    r = agt_answer_read(&answer, &files, complaint, sizeof(complaint));
    FUZZ_CHECK(r == 0 || (r == -EINVAL && complaint[0] && !files.more));
    FUZZ_CHECK(files.more_count <= terms.max_more_files && files.more_bytes <= AGT_MORE_BYTES_MAX);
    for (size_t i = 0; i < files.more_count; i++)
        FUZZ_CHECK(!agt_files_path_fault(files.more[i].path, strlen(files.more[i].path)));
    agt_files_done(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CR_AUTO_FREE char *text = malloc(size + 1);
    struct agt_files files = AGT_FILES_INIT;
    char complaint[512] = "";
    struct agt_answer answer = {.text = "", .call_name = "", .call_arguments = ""};
    int r;

    if (size == 0 || !cr_utf8_is_valid(data + 1, size - 1) || memchr(data, 0, size))
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] & 1) {
        answer.call_name = AGT_SUBMIT_NAME;
        answer.call_arguments = text;
    } else {
        answer.text = text;
        answer.size = size - 1;
    }
    read_with_more(answer);
    r = agt_answer_read(&answer, &files, complaint, sizeof(complaint));
    FUZZ_CHECK(r == 0 || r == -EINVAL);
    FUZZ_CHECK((r == -EINVAL) == (complaint[0] != 0));
    if (r < 0)
        return 0;
    check_file(files.solution);
    check_file(files.tests);
    agt_files_done(&files);
    return 0;
}
