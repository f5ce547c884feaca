/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/files.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void agt_files_done(struct agt_files *files)
{
    free(files->solution);
    free(files->tests);
    for (size_t i = 0; i < files->more_count; i++) {
        free(files->more[i].path);
        free(files->more[i].text);
    }
    free(files->more);
    *files = (struct agt_files)AGT_FILES_INIT;
}

/* ---- paths ---- */

/* Part of a path between two slashes. */
struct part {
    const char *data;
    size_t size;
};

static bool is_one_of(struct part part, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == part.size && memcmp(names[i], part.data, part.size) == 0)
            return true;
    }
    return false;
}

static bool ends_with(struct part part, const char *end)
{
    size_t size = strlen(end);

    return part.size >= size && memcmp(part.data + part.size - size, end, size) == 0;
}

/* What Python or pytest loads without being asked, or takes for tests. */
static bool is_loaded_unasked(struct part name)
{
    static const char *const names[] = {
        "conftest.py", "pytest.ini", "pytest.toml",    "tox.ini",          "setup.cfg",
        "setup.py",    "noxfile.py", "pyproject.toml", "sitecustomize.py", "usercustomize.py"};
    static const char *const ends[] = {".pth", ".pyc", ".pyo", ".pyd", ".so", "_test.py"};

    if (is_one_of(name, names, CR_ARRAY_SIZE(names)))
        return true;
    for (size_t i = 0; i < CR_ARRAY_SIZE(ends); i++) {
        if (ends_with(name, ends[i]))
            return true;
    }
    return name.size > 5 && memcmp(name.data, "test_", 5) == 0 && ends_with(name, ".py");
}

/* A module or a package of this name would be found in place of the one that is meant. */
static bool takes_a_place(struct part first)
{
    static const char *const names[] = {"solution", "test_solution", "pytest",    "_pytest",
                                        "pluggy",   "iniconfig",     "packaging", "exceptiongroup"};

    if (ends_with(first, ".py"))
        first.size -= 3;
    return is_one_of(first, names, CR_ARRAY_SIZE(names));
}

static const char *part_fault(struct part part, bool is_first, bool is_last)
{
    static const char *const cache[] = {"__pycache__"};

    if (part.size == 0)
        return "has an empty part";
    if (part.data[0] == '.' || part.data[0] == '-' || part.data[part.size - 1] == '.')
        return "has a part that begins with '.' or '-', or ends with '.'";
    if (is_one_of(part, cache, 1) || (is_last && is_loaded_unasked(part)))
        return "is a name that Python or pytest would load by itself, or take for tests";
    if (is_first && takes_a_place(part))
        return "would take the place of solution.py, of the tests or of pytest";
    return NULL;
}

const char *agt_files_path_fault(const char *path, size_t size)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    size_t start = 0;
    size_t depth = 0;

    if (size == 0 || size > AGT_PATH_MAX)
        return "is empty or longer than 100 bytes";
    for (size_t i = 0; i < size; i++) {
        if (path[i] == '\0' || !strchr(allowed, path[i]))
            return "may have letters, digits, '.', '_', '-' and '/' only";
    }
    for (size_t end = 0; end <= size; end++) {
        const char *fault;

        if (end < size && path[end] != '/')
            continue;
        fault = part_fault((struct part){path + start, end - start}, start == 0, end == size);
        if (fault)
            return fault;
        start = end + 1;
        depth++;
    }
    return depth > AGT_PATH_DEPTH_MAX ? "lies in more than five folders" : NULL;
}

static bool is_folder_of(const char *folder, const char *path)
{
    size_t size = strlen(folder);

    return strncmp(folder, path, size) == 0 && path[size] == '/';
}

bool agt_files_clash(const char *one, const char *other)
{
    return strcmp(one, other) == 0 || is_folder_of(one, other) || is_folder_of(other, one);
}

bool agt_files_is_python(const char *path)
{
    return ends_with((struct part){path, strlen(path)}, ".py");
}

/* ---- the list ---- */

/* Where the path is, or would be. */
static size_t place_of(const struct agt_files *files, const char *path)
{
    size_t at = 0;

    while (at < files->more_count && strcmp(files->more[at].path, path) < 0)
        at++;
    return at;
}

const char *agt_files_find(const struct agt_files *files, const char *path)
{
    size_t at = place_of(files, path);

    if (at == files->more_count || strcmp(files->more[at].path, path) != 0)
        return NULL;
    return files->more[at].text;
}

static bool clashes(const struct agt_files *files, const char *path)
{
    for (size_t i = 0; i < files->more_count; i++) {
        if (strcmp(files->more[i].path, path) != 0 && agt_files_clash(files->more[i].path, path))
            return true;
    }
    return false;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the file keeps it */
static int insert(struct agt_files *files, size_t at, const char *path, char *text)
{
    struct agt_file file = {.path = strdup(path), .text = text};

    if (!files->more)
        files->more = calloc(AGT_MORE_FILES_MAX, sizeof(*files->more));
    if (!files->more || !file.path) {
        free(file.path);
        return -ENOMEM;
    }
    memmove(&files->more[at + 1], &files->more[at],
            (files->more_count - at) * sizeof(*files->more));
    files->more[at] = file;
    files->more_count++;
    return 0;
}

int agt_files_put(struct agt_files *files, const char *path, char *take_text)
{
    CR_AUTO_FREE char *text = take_text;
    const char *before = agt_files_find(files, path);
    size_t bytes = files->more_bytes - (before ? strlen(before) : 0) + strlen(text);
    size_t at = place_of(files, path);
    int r = 0;

    if (agt_files_path_fault(path, strlen(path)) || clashes(files, path))
        return -EINVAL;
    if (bytes > AGT_MORE_BYTES_MAX || (!before && files->more_count == AGT_MORE_FILES_MAX))
        return -ENOSPC;
    if (before) {
        free(files->more[at].text);
        files->more[at].text = text;
    } else {
        r = insert(files, at, path, text);
    }
    if (r < 0)
        return r;
    text = NULL;
    files->more_bytes = bytes;
    return 0;
}

int agt_files_copy_more(const struct agt_files *files, struct agt_files *copy)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < files->more_count; i++) {
        char *text = strdup(files->more[i].text);

        r = text ? agt_files_put(copy, files->more[i].path, text) : -ENOMEM;
    }
    return r;
}

static void add_message(struct agt_files_message *message, const char *path, char *text)
{
    Crisol__Agent__V1__File *file = &message->files[message->count];

    crisol__agent__v1__file__init(file);
    file->path = cr_unconst(path);
    file->text = text;
    message->list[message->count++] = file;
}

void agt_files_fill(const struct agt_files *files, struct agt_files_message *message)
{
    message->count = 0;
    add_message(message, AGT_SOLUTION_NAME, files->solution);
    add_message(message, AGT_TESTS_NAME, files->tests);
    for (size_t i = 0; i < files->more_count; i++)
        add_message(message, files->more[i].path, files->more[i].text);
}

/* ---- what a task asks for ---- */

bool agt_files_has_more(const Crisol__Agent__V1__TaskTerms *terms)
{
    return terms && (terms->n_output_files > 0 || terms->max_more_files > 0);
}

static bool is_asked_for(const Crisol__Agent__V1__TaskTerms *terms, const char *path)
{
    for (size_t i = 0; i < terms->n_output_files; i++) {
        if (strcmp(terms->output_files[i], path) == 0)
            return true;
    }
    return false;
}

static size_t count_unasked(const Crisol__Agent__V1__TaskTerms *terms,
                            const struct agt_files *files)
{
    size_t count = 0;

    for (size_t i = 0; i < files->more_count; i++)
        count += !is_asked_for(terms, files->more[i].path);
    return count;
}

static bool lies_on_input(const Crisol__Agent__V1__TaskTerms *terms, const char *path)
{
    for (size_t i = 0; i < terms->n_input_files; i++) {
        if (agt_files_clash(terms->input_files[i]->path, path))
            return true;
    }
    return false;
}

__attribute__((format(printf, 3, 4))) static int refuse(char *complaint, size_t size,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(complaint, size, format, args);
    va_end(args);
    return -EINVAL;
}

int agt_files_admit(const Crisol__Agent__V1__TaskTerms *terms, const struct agt_files *files,
                    const char *path, size_t size, char *complaint, size_t complaint_size)
{
    const char *fault = agt_files_path_fault(path, size);
    char name[AGT_PATH_MAX + 1];

    if (fault) /* what it holds is no name, and not to be repeated */
        return refuse(complaint, complaint_size, "The path of a further file %s.", fault);
    (void)snprintf(name, sizeof(name), "%.*s", (int)size, path);
    if (agt_files_find(files, name))
        return refuse(complaint, complaint_size,
                      "There are two blocks for %s. Write each file once, whole.", name);
    if (clashes(files, name) || lies_on_input(terms, name))
        return refuse(complaint, complaint_size,
                      "%s lies where another file or folder of the task or the answer is.", name);
    if (!is_asked_for(terms, name) && count_unasked(terms, files) >= terms->max_more_files)
        return refuse(complaint, complaint_size,
                      "%s is not a file that was asked for; at most %u of your own are allowed.",
                      name, terms->max_more_files);
    return 0;
}

int agt_files_check(const Crisol__Agent__V1__TaskTerms *terms, const struct agt_files *files,
                    char *complaint, size_t complaint_size)
{
    for (size_t i = 0; terms && i < terms->n_output_files; i++) {
        if (!agt_files_find(files, terms->output_files[i]))
            return refuse(complaint, complaint_size, "The file %s is missing.",
                          terms->output_files[i]);
    }
    return 0;
}
