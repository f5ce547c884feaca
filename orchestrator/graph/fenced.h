/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/graph/files.h"

#include <stddef.h>

/*
 * Reads the files out of a model's answer: exactly two fenced code blocks
 * (CommonMark 0.31 §4.5), one for solution.py and one for test_solution.py; and
 * one for each further file that the terms (NULL: none) ask for or allow.
 *
 * A block is named by, in any combination that agrees:
 *   - its info string: path=, title=, file= or filename=, quoted or not, or a
 *     bare word that ends in ".py" (```python solution.py);
 *   - its first line: "# filename: solution.py" (also path:, file:), or
 *     "# solution.py", or only "solution.py", which is then left out;
 *   - the last line of text before it, when that is only the name, in Markdown
 *     dress or not (**solution.py**, ### `solution.py`:).
 * What is no Python file is named by its info string alone.
 * Blocks in another language that name no file are prose and left alone.
 *
 * Nothing is guessed: an unclosed block, a Python block without a name, two
 * names for one block, two blocks for one name, any other file, an empty or
 * too large file make the answer unusable. Then returns -EINVAL and fills in
 * `complaint` (at least 256 bytes) with what was wrong, worded for the model.
 * -ENOMEM when memory is gone. Pure.
 */
int agt_fenced_read(const char *text, size_t size, const Crisol__Agent__V1__TaskTerms *terms,
                    struct agt_files *ret_files, char *complaint, size_t complaint_size);
