/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

/* The files of an answer. */

#define AGT_FILE_MAX 131072U       /* bytes of one file */
#define AGT_MORE_FILES_MAX 14      /* beside the two that every answer has */
#define AGT_MORE_BYTES_MAX 524288U /* of those together */
#define AGT_PATH_MAX 100           /* bytes */
#define AGT_PATH_DEPTH_MAX 6       /* folders and the name */

#define AGT_SOLUTION_NAME "solution.py"
#define AGT_TESTS_NAME "test_solution.py"

/* A further file. Owned strings. */
struct agt_file {
    char *path;
    char *text;
};

struct agt_files {
    char *solution;        /* solution.py … */
    char *tests;           /* … test_solution.py: both or none. Owned */
    struct agt_file *more; /* by path; room for AGT_MORE_FILES_MAX; NULL: none. Owned */
    size_t more_count;
    size_t more_bytes;
};

#define AGT_FILES_INIT                                                                             \
    {                                                                                              \
        .solution = NULL                                                                           \
    }

void agt_files_done(struct agt_files *files);

/*
 * Why a further file may not have this path; NULL: it may. Letters, digits and "._-/"; no name
 * that begins with '.' or '-'; nothing that pytest or Python would load by itself (conftest.py,
 * pytest.ini, sitecustomize.py, …), take for tests, or find in place of solution.py or pytest.
 * Pure.
 */
const char *agt_files_path_fault(const char *path, size_t size);

/* One is the other, or a folder of it: both cannot be there. */
bool agt_files_clash(const char *one, const char *other);

/*
 * Puts a file in, in place of one with that path. Takes the text. Returns 0; -EINVAL for a path
 * that is refused or clashes; -ENOSPC beyond the bounds; -ENOMEM.
 */
int agt_files_put(struct agt_files *files, const char *path, char *take_text);

/* Copies the further files into one that has none; it is to be freed in any case. 0 or -ENOMEM. */
int agt_files_copy_more(const struct agt_files *files, struct agt_files *copy);

/* NULL: there is no such further file. Borrowed. */
const char *agt_files_find(const struct agt_files *files, const char *path);

bool agt_files_is_python(const char *path);

/* The files as messages that borrow from them: solution, tests, and the others by path. */
struct agt_files_message {
    Crisol__Agent__V1__File files[2 + AGT_MORE_FILES_MAX];
    Crisol__Agent__V1__File *list[2 + AGT_MORE_FILES_MAX];
    size_t count;
};

void agt_files_fill(const struct agt_files *files, struct agt_files_message *message);

/* The task asks for further files, or allows them. `terms` may be NULL. */
bool agt_files_has_more(const Crisol__Agent__V1__TaskTerms *terms);

/*
 * Whether an answer may have this further file: the terms ask for it, or allow one more of its
 * own; nothing of the task lies there. Says why not in `complaint`, worded for the model.
 * Returns 0 or -EINVAL. Pure.
 */
int agt_files_admit(const Crisol__Agent__V1__TaskTerms *terms, const struct agt_files *files,
                    const char *path, size_t size, char *complaint, size_t complaint_size);

/* Whether all are there that the terms ask for; else as agt_files_admit(). */
int agt_files_check(const Crisol__Agent__V1__TaskTerms *terms, const struct agt_files *files,
                    char *complaint, size_t complaint_size);
