/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/graph/diff.h"
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

/*
 * Two texts, with NUL between them: the lines that the diff calls old are in
 * the old text in that order, and those that it calls new in the new one.
 */
static bool has_line(const char **at, const char *line, size_t size)
{
    while (**at) {
        size_t length = strcspn(*at, "\n");
        bool is_same = length == size && memcmp(*at, line, size) == 0;

        *at += length + ((*at)[length] == '\n');
        if (is_same)
            return true;
    }
    return false;
}

static void check(const char *diff, const char *old_text, const char *new_text)
{
    /* Behind the two lines of names. */
    diff = strchr(strchr(diff, '\n') + 1, '\n') + 1;
    while (*diff) {
        size_t size = strcspn(diff, "\n");

        FUZZ_CHECK(diff[size] == '\n' && strchr(" +-@", *diff));
        if (*diff == ' ' || *diff == '-')
            FUZZ_CHECK(has_line(&old_text, diff + 1, size - 1));
        if (*diff == ' ' || *diff == '+')
            FUZZ_CHECK(has_line(&new_text, diff + 1, size - 1));
        diff += size + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CR_AUTO_BUF struct cr_buf whole = {0};
    CR_AUTO_BUF struct cr_buf cut = {0};
    char *text = calloc(1, size + 2); /* a second text is there in any case */
    const char *second;

    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    second = text + strlen(text) + 1;
    cr_buf_init(&whole, 1 << 20);
    cr_buf_init(&cut, 100);
    FUZZ_CHECK(agt_diff_add("x", text, second, &whole) == 0);
    FUZZ_CHECK(agt_diff_add("x", text, second, &cut) == 0);
    if (whole.size > 0)
        check(cr_buf_str(&whole), text, second);
    FUZZ_CHECK(whole.size <= 100 || strstr(cr_buf_str(&cut), "... (diff cut)\n"));
    free(text);
    return 0;
}
