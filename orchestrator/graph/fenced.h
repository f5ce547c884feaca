/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#define AGT_FILE_MAX 131072U /* bytes of one file */

/* The two files of an answer. Both or none. Owned strings. */
struct agt_files {
    char *solution; /* solution.py */
    char *tests;    /* test_solution.py */
};

#define AGT_SOLUTION_NAME "solution.py"
#define AGT_TESTS_NAME "test_solution.py"

void agt_files_done(struct agt_files *files);

/*
 * Reads the two files out of a model's answer: exactly two fenced code blocks
 * (CommonMark 0.31 §4.5), one for solution.py and one for test_solution.py.
 *
 * A block is named by, in any combination that agrees:
 *   - its info string: path=, title=, file= or filename=, quoted or not, or a
 *     bare word that ends in ".py" (```python solution.py);
 *   - its first line: "# filename: solution.py" (also path:, file:), or
 *     "# solution.py", or only "solution.py", which is then left out;
 *   - the last line of text before it, when that is only the name, in Markdown
 *     dress or not (**solution.py**, ### `solution.py`:).
 * Blocks in another language that name no file are prose and left alone.
 *
 * Nothing is guessed: an unclosed block, a Python block without a name, two
 * names for one block, two blocks for one name, any other file, an empty or
 * too large file make the answer unusable. Then returns -EINVAL and fills in
 * `complaint` (at least 256 bytes) with what was wrong, worded for the model.
 * -ENOMEM when memory is gone. Pure.
 */
int agt_fenced_read(const char *text, size_t size, struct agt_files *ret_files, char *complaint,
                    size_t complaint_size);
