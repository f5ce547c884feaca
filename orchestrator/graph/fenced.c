/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/fenced.h"

#include "common/buf.h"
#include "common/err.h"
#include "common/utf8.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A piece of the text; never terminated. */
struct slice {
    const char *data;
    size_t size;
};

/* The name that a block has been given so far. */
struct name {
    struct slice path;
    bool is_clash; /* two different ones */
};

struct reader {
    struct slice rest; /* lines still to read */
    size_t line;       /* number of the last line read */
    struct slice last; /* last line of text outside blocks that is not blank */
    char *complaint;
    size_t complaint_size;
    const Crisol__Agent__V1__TaskTerms *terms; /* NULL: none */
    struct agt_files files;
};

/* An opening fence. */
struct fence {
    char character;
    size_t length;
    size_t indent;
    struct slice info;
    size_t line;
};

__attribute__((format(printf, 2, 3))) static int complain(struct reader *reader, const char *format,
                                                          ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(reader->complaint, reader->complaint_size, format, args);
    va_end(args);
    return -EINVAL;
}

static bool equals(struct slice slice, const char *text)
{
    return slice.size == strlen(text) && memcmp(slice.data, text, slice.size) == 0;
}

static bool ends_with(struct slice slice, const char *text)
{
    size_t size = strlen(text);

    return slice.size >= size && memcmp(slice.data + slice.size - size, text, size) == 0;
}

static struct slice skip(struct slice slice, size_t size)
{
    return (struct slice){slice.data + size, slice.size - size};
}

/* Without any of `characters` at both ends. */
static struct slice trim(struct slice slice, const char *characters)
{
    while (slice.size > 0 && slice.data[0] != '\0' && strchr(characters, slice.data[0]))
        slice = skip(slice, 1);
    while (slice.size > 0 && slice.data[slice.size - 1] != '\0' &&
           strchr(characters, slice.data[slice.size - 1]))
        slice.size--;
    return slice;
}

/* Without the dress of Markdown. Underscores are that at both ends alike: "_helpers.py" has one. */
static struct slice undress(struct slice line)
{
    static const char dress[] = " \t#*`:-";

    line = trim(line, dress);
    while (line.size > 1 && line.data[0] == '_' && line.data[line.size - 1] == '_')
        line = trim((struct slice){line.data + 1, line.size - 2}, dress);
    return line;
}

/* The next line without its ending (LF or CRLF). False at the end. */
static bool next_line(struct reader *reader, struct slice *ret_line)
{
    const char *end;
    struct slice line = reader->rest;

    if (reader->rest.size == 0)
        return false;
    end = memchr(line.data, '\n', line.size);
    if (end) {
        line.size = (size_t)(end - line.data);
        reader->rest = skip(reader->rest, line.size + 1);
    } else {
        reader->rest = skip(line, line.size);
    }
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    reader->line++;
    *ret_line = line;
    return true;
}

static size_t count_leading(struct slice line, char character)
{
    size_t count = 0;

    while (count < line.size && line.data[count] == character)
        count++;
    return count;
}

/* CommonMark 0.31 §4.5: up to three spaces, then three or more of one of ` and ~. */
static bool parse_fence(struct slice line, struct fence *ret_fence)
{
    struct fence fence = {.indent = count_leading(line, ' ')};

    if (fence.indent > 3)
        return false;
    line = skip(line, fence.indent);
    if (line.size == 0 || (line.data[0] != '`' && line.data[0] != '~'))
        return false;
    fence.character = line.data[0];
    fence.length = count_leading(line, fence.character);
    fence.info = trim(skip(line, fence.length), " \t");
    /* Else ``` a ``` on one line would open a block. */
    if (fence.length < 3 ||
        (fence.character == '`' && memchr(fence.info.data, '`', fence.info.size)))
        return false;
    *ret_fence = fence;
    return true;
}

static bool closes(struct slice line, const struct fence *open)
{
    struct fence fence;

    return parse_fence(line, &fence) && fence.character == open->character &&
           fence.length >= open->length && fence.info.size == 0;
}

static void give_name(struct name *name, struct slice path)
{
    if (path.size == 0)
        return;
    if (name->path.size > 0 &&
        (name->path.size != path.size || memcmp(name->path.data, path.data, path.size) != 0))
        name->is_clash = true;
    name->path = path;
}

/* "key=value" or "key: value" for one of our keys: the value, without quotes. */
static bool parse_pair(struct slice word, char separator, struct slice *ret_value)
{
    static const char *const keys[] = {"path", "title", "file", "filename"};
    const char *split = memchr(word.data, separator, word.size);
    struct slice key;

    if (!split)
        return false;
    key = trim((struct slice){word.data, (size_t)(split - word.data)}, " \t{");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (equals(key, keys[i])) {
            *ret_value = trim(skip(word, (size_t)(split - word.data) + 1), " \t\"'}`");
            return true;
        }
    }
    return false;
}

static struct slice next_word(struct slice *rest)
{
    struct slice word = trim(*rest, " \t");
    size_t size = 0;

    while (size < word.size && word.data[size] != ' ' && word.data[size] != '\t')
        size++;
    *rest = skip(word, size);
    word.size = size;
    return word;
}

/* Reads the language (the first word that is no name) and the names of an info string. */
static void read_info(struct slice info, struct slice *ret_language, struct name *name)
{
    struct slice rest = info;

    *ret_language = (struct slice){info.data, 0};
    for (struct slice word = next_word(&rest); word.size > 0; word = next_word(&rest)) {
        struct slice value;

        if (parse_pair(word, '=', &value) || parse_pair(word, ':', &value))
            give_name(name, value);
        else if (ends_with(word, ".py"))
            give_name(name, word);
        else if (word.data == info.data)
            *ret_language = word;
    }
}

/* True when the line is nothing but a file name. */
static bool is_bare_name(struct slice line)
{
    return ends_with(line, ".py") && line.size > 3 && !memchr(line.data, ' ', line.size);
}

/* A first line that names the file. True when it is to be left out of the content. */
static bool read_first_line(struct slice line, struct name *name)
{
    struct slice comment;
    struct slice value;

    line = trim(line, " \t");
    if (is_bare_name(line) && line.data[0] != '#') {
        give_name(name, line);
        return true;
    }
    if (line.size == 0 || line.data[0] != '#')
        return false;
    comment = trim(line, "# \t");
    if (parse_pair(comment, ':', &value) && is_bare_name(value))
        give_name(name, value); /* "# file: what it does" is only a comment */
    else if (is_bare_name(comment))
        give_name(name, comment);
    return false;
}

static bool is_python(struct slice language)
{
    static const char *const names[] = {"", "python", "python3", "py", "py3"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (language.size == strlen(names[i]) &&
            strncasecmp(language.data, names[i], language.size) == 0)
            return true;
    }
    return false;
}

static bool is_blank(struct slice text)
{
    return trim(text, " \t\r\n\f\v").size == 0;
}

/* One that the task asks for, or allows. It may be empty, as many a __init__.py is. */
static int store_more(struct reader *reader, struct slice path, struct cr_buf *content)
{
    char name[AGT_PATH_MAX + 1];
    char *text;
    int r = agt_files_admit(reader->terms, &reader->files, path.data, path.size, reader->complaint,
                            reader->complaint_size);

    if (r < 0)
        return r;
    (void)snprintf(name, sizeof(name), "%.*s", (int)path.size, path.data);
    text = content->size > 0 ? cr_buf_take_str(content) : strdup("");
    r = text ? agt_files_put(&reader->files, name, text) : -ENOMEM;
    if (r == -ENOSPC)
        return complain(reader, "The further files have more than %u bytes together.",
                        AGT_MORE_BYTES_MAX);
    return r;
}

static int complain_name(struct reader *reader, const struct fence *fence, struct slice path)
{
    return complain(reader,
                    "The block at line %zu is named '%.*s'. Only " AGT_SOLUTION_NAME
                    " and " AGT_TESTS_NAME " are allowed, without a folder.",
                    fence->line,
                    (int)cr_utf8_complete_prefix(path.data, path.size < 80 ? path.size : 80),
                    path.data);
}

/* Gives the content of a block to the file that it names. */
static int store(struct reader *reader, const struct fence *fence, struct slice path,
                 struct cr_buf *content)
{
    bool is_solution = equals(path, AGT_SOLUTION_NAME);
    char **slot = is_solution ? &reader->files.solution : &reader->files.tests;

    if (!is_solution && !equals(path, AGT_TESTS_NAME))
        return agt_files_has_more(reader->terms) ? store_more(reader, path, content)
                                                 : complain_name(reader, fence, path);
    if (*slot)
        return complain(reader, "There are two blocks for %.*s. Write each file once, whole.",
                        (int)path.size, path.data);
    if (is_blank((struct slice){cr_buf_str(content), content->size}))
        return complain(reader, "The block for %.*s is empty.", (int)path.size, path.data);
    *slot = cr_buf_take_str(content);
    return *slot ? 0 : -ENOMEM;
}

/* Adds a content line with as much of its indent taken away as the fence had. */
static int add_line(struct cr_buf *content, const struct fence *fence, struct slice line)
{
    size_t indent = count_leading(line, ' ');
    int r;

    line = skip(line, indent < fence->indent ? indent : fence->indent);
    r = cr_buf_add(content, line.data, line.size);
    return r == 0 ? cr_buf_add_char(content, '\n') : r;
}

/* The first line of data is data. */
static bool may_be_named_inside(const struct name *name)
{
    return name->path.size == 0 || ends_with(name->path, ".py");
}

static int read_content(struct reader *reader, const struct fence *fence, struct name *name,
                        struct cr_buf *content)
{
    bool is_first = may_be_named_inside(name);
    struct slice line;

    while (next_line(reader, &line)) {
        int r;

        if (closes(line, fence))
            return 0;
        if (is_first && read_first_line(line, name)) {
            is_first = false;
            continue;
        }
        is_first = false;
        r = add_line(content, fence, line);
        if (r == -ENOSPC)
            return complain(reader, "The block at line %zu is larger than %u bytes.", fence->line,
                            AGT_FILE_MAX);
        if (r < 0)
            return r;
    }
    return complain(reader, "The block at line %zu is not closed: the answer ends inside it.",
                    fence->line);
}

static int read_block(struct reader *reader, const struct fence *fence)
{
    CR_AUTO_BUF struct cr_buf content = {0};
    struct slice before = undress(reader->last);
    struct slice language;
    struct name name = {0};
    int r;

    cr_buf_init(&content, AGT_FILE_MAX);
    read_info(fence->info, &language, &name);
    if (is_bare_name(before))
        give_name(&name, before);
    reader->last.size = 0;
    r = read_content(reader, fence, &name, &content);
    if (r < 0)
        return r;
    if (name.is_clash)
        return complain(reader, "The block at line %zu is given two different file names.",
                        fence->line);
    if (name.path.size > 0)
        return store(reader, fence, name.path, &content);
    if (is_python(language))
        return complain(reader,
                        "The Python block at line %zu names no file. Write the info string "
                        "'python path=" AGT_SOLUTION_NAME "' or 'python path=" AGT_TESTS_NAME "'.",
                        fence->line);
    return 0; /* prose: a shell command, an example of output */
}

static int read_all(struct reader *reader)
{
    struct slice line;
    int r = 0;

    while (r == 0 && next_line(reader, &line)) {
        struct fence fence;

        if (parse_fence(line, &fence)) {
            fence.line = reader->line;
            r = read_block(reader, &fence);
        } else if (!is_blank(line)) {
            reader->last = line;
        }
    }
    if (r < 0)
        return r;
    if (!reader->files.solution && !reader->files.tests)
        return complain(reader, "There is no fenced block for " AGT_SOLUTION_NAME
                                " or " AGT_TESTS_NAME ".");
    if (!reader->files.solution)
        return complain(reader, "The block for " AGT_SOLUTION_NAME " is missing.");
    if (!reader->files.tests)
        return complain(reader, "The block for " AGT_TESTS_NAME " is missing.");
    return agt_files_check(reader->terms, &reader->files, reader->complaint,
                           reader->complaint_size);
}

int agt_fenced_read(
    const char *text, size_t size, const Crisol__Agent__V1__TaskTerms *terms,
    /* NOLINTNEXTLINE(readability-non-const-parameter): written through the reader */
    struct agt_files *ret_files, char *complaint, size_t complaint_size)
{
    struct reader reader = {
        .terms = terms,
        .rest = {text, size},
        .last = {text, 0},
        .complaint = complaint,
        .complaint_size = complaint_size,
    };
    int r;

    if (!cr_utf8_is_valid(text, size) || memchr(text, '\0', size))
        return complain(&reader, "The answer is not plain UTF-8 text.");
    r = read_all(&reader);
    if (r < 0) {
        agt_files_done(&reader.files);
        return r;
    }
    *ret_files = reader.files;
    return 0;
}
