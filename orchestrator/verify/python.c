/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/python.h"

#include "common/auto.h"
#include "common/err.h"

#include <stdlib.h>
#include <string.h>

#define TAB_SIZE 8
/* After so many f-strings that end by the older rule only, a file is taken for one of the older
 * rule: to find that out costs a look at all that follows, each time. */
#define OLD_FORMATS_MAX 16

struct scanner {
    const char *text;
    size_t size;
    size_t at;
    uint32_t line;
    size_t open; /* brackets */
    size_t indents[AGT_PY_INDENTS_MAX];
    size_t indent_count; /* without the first, which is 0 */
    bool is_line_start;
    unsigned old_formats; /* f-strings that ended by the older rule */
    struct agt_py_tokens *tokens;
    struct cr_err *err;
};

static int add(struct scanner *scanner, enum agt_py_kind kind, size_t start, size_t size)
{
    struct agt_py_tokens *tokens = scanner->tokens;

    if (tokens->count == tokens->room) {
        size_t room = tokens->room ? 2 * tokens->room : 256;
        struct agt_py_token *items = realloc(tokens->items, room * sizeof(*items));

        if (!items)
            return cr_err_set(scanner->err, ENOMEM, "out of memory for tokens");
        tokens->items = items;
        tokens->room = room;
    }
    tokens->items[tokens->count++] = (struct agt_py_token){
        .kind = kind,
        .start = (uint32_t)start,
        .size = (uint32_t)size,
        .line = scanner->line,
    };
    return 0;
}

static int complain(struct scanner *scanner, const char *what)
{
    return cr_err_set(scanner->err, EINVAL, "line %u: %s", scanner->line, what);
}

static char peek(const struct scanner *scanner, size_t ahead)
{
    if (scanner->at + ahead >= scanner->size)
        return '\0';
    return scanner->text[scanner->at + ahead];
}

/* Bytes of the line end at the place: 0, 1 or 2 ("\r\n"). */
static size_t line_end_size(const struct scanner *scanner)
{
    if (peek(scanner, 0) == '\r')
        return peek(scanner, 1) == '\n' ? 2 : 1;
    return peek(scanner, 0) == '\n';
}

static void skip_comment(struct scanner *scanner)
{
    while (scanner->at < scanner->size && line_end_size(scanner) == 0)
        scanner->at++;
}

/* Reads the white space at the start of a line. */
static size_t read_indent(struct scanner *scanner)
{
    size_t column = 0;

    for (; scanner->at < scanner->size; scanner->at++) {
        char c = scanner->text[scanner->at];

        if (c == ' ')
            column++;
        else if (c == '\t')
            column += TAB_SIZE - column % TAB_SIZE;
        else if (c == '\f')
            column = 0;
        else
            break;
    }
    return column;
}

static size_t indent_at(const struct scanner *scanner, size_t index)
{
    return index == 0 ? 0 : scanner->indents[index - 1];
}

static int set_indent(struct scanner *scanner, size_t column)
{
    int r = 0;

    if (column > indent_at(scanner, scanner->indent_count)) {
        if (scanner->indent_count == AGT_PY_INDENTS_MAX)
            return complain(scanner, "too many levels of indentation");
        scanner->indents[scanner->indent_count++] = column;
        return add(scanner, AGT_PY_INDENT, scanner->at, 0);
    }
    while (r == 0 && column < indent_at(scanner, scanner->indent_count)) {
        scanner->indent_count--;
        r = add(scanner, AGT_PY_DEDENT, scanner->at, 0);
    }
    if (r == 0 && column != indent_at(scanner, scanner->indent_count))
        return complain(scanner, "the indent fits no line before");
    return r;
}

/* At the start of a physical line outside brackets. */
static int start_line(struct scanner *scanner)
{
    size_t column = read_indent(scanner);
    size_t end;

    if (peek(scanner, 0) == '#')
        skip_comment(scanner);
    end = line_end_size(scanner);
    if (end > 0) { /* nothing on it: the indent does not count */
        scanner->at += end;
        scanner->line++;
        return 0;
    }
    if (scanner->at == scanner->size)
        return 0;
    scanner->is_line_start = false;
    return set_indent(scanner, column);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void count_lines(struct scanner *scanner, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        scanner->line += scanner->text[i] == '\n';
}

static size_t string_end(struct scanner *scanner, size_t at, bool is_format)
{
    size_t end = 0;

    if (is_format && scanner->old_formats < OLD_FORMATS_MAX) {
        end = agt_py_format_end(scanner->text, scanner->size, at);
        scanner->old_formats += end == 0;
    }
    return end > 0 ? end : agt_py_plain_end(scanner->text, scanner->size, at);
}

static int scan_string(struct scanner *scanner, size_t prefix, bool is_format)
{
    size_t end = string_end(scanner, scanner->at + prefix, is_format);
    size_t start = scanner->at;
    int r;

    if (end == 0)
        return complain(scanner, "a string is not closed");
    r = add(scanner, AGT_PY_STRING, start, end - start);
    count_lines(scanner, start, end);
    scanner->at = end;
    return r;
}

static int scan_word(struct scanner *scanner)
{
    size_t start = scanner->at;
    size_t size = 0;
    bool is_prefix = true;
    bool is_format = false;

    while (is_name_char(peek(scanner, size))) {
        char c = peek(scanner, size++);

        is_prefix &= strchr("rRbBuUfFtT", c) != NULL;
        is_format |= strchr("fFtT", c) != NULL;
    }
    if (is_prefix && size <= 2 && (peek(scanner, size) == '"' || peek(scanner, size) == '\''))
        return scan_string(scanner, size, is_format);
    scanner->at += size;
    return add(scanner, AGT_PY_NAME, start, size);
}

static int scan_number(struct scanner *scanner)
{
    size_t start = scanner->at;
    bool is_hex = peek(scanner, 0) == '0' && (peek(scanner, 1) | 32) == 'x';

    while (is_name_char(peek(scanner, 0)) || peek(scanner, 0) == '.') {
        char c = scanner->text[scanner->at++];

        if (!is_hex && (c | 32) == 'e' && (peek(scanner, 0) == '+' || peek(scanner, 0) == '-'))
            scanner->at++;
    }
    return add(scanner, AGT_PY_NUMBER, start, scanner->at - start);
}

static size_t operator_size(const struct scanner *scanner)
{
    static const char *const operators[] = {
        "**=", "//=", ">>=", "<<=", "...", "!=", "==", "<=", ">=", "->", ":=", "+=",
        "-=",  "*=",  "/=",  "%=",  "@=",  "&=", "|=", "^=", "**", "//", "<<", ">>"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(operators); i++) {
        size_t size = strlen(operators[i]);

        if (scanner->size - scanner->at >= size &&
            memcmp(scanner->text + scanner->at, operators[i], size) == 0)
            return size;
    }
    return 1;
}

static int scan_operator(struct scanner *scanner)
{
    char c = peek(scanner, 0);
    size_t size = operator_size(scanner);
    size_t start = scanner->at;

    if ((unsigned char)c < ' ' || c == '$' || c == '?' || c == 0x7f)
        return complain(scanner, "a character that Python does not know");
    if (strchr("([{", c) && ++scanner->open > AGT_PY_NESTING_MAX)
        return complain(scanner, "too many brackets within each other");
    if (strchr(")]}", c)) {
        if (scanner->open == 0)
            return complain(scanner, "a bracket is closed that was not opened");
        scanner->open--;
    }
    scanner->at += size;
    return add(scanner, AGT_PY_OPERATOR, start, size);
}

static int end_line(struct scanner *scanner, size_t size)
{
    int r = 0;

    if (scanner->open == 0) {
        r = add(scanner, AGT_PY_NEWLINE, scanner->at, size);
        scanner->is_line_start = true;
    }
    scanner->at += size;
    scanner->line++;
    return r;
}

/* A backslash joins this line with the next one. */
static int join_lines(struct scanner *scanner)
{
    size_t size;

    scanner->at++;
    size = line_end_size(scanner);
    if (size == 0)
        return complain(scanner, "'\\' in the middle of a line");
    scanner->at += size;
    scanner->line++;
    if (scanner->at == scanner->size)
        return complain(scanner, "the text ends behind '\\'");
    return 0;
}

static int scan_token(struct scanner *scanner)
{
    char c = peek(scanner, 0);
    size_t end = line_end_size(scanner);

    if (end > 0)
        return end_line(scanner, end);
    if (c == '\\')
        return join_lines(scanner);
    if (c == ' ' || c == '\t' || c == '\f') {
        scanner->at++;
        return 0;
    }
    if (c == '#') {
        skip_comment(scanner);
        return 0;
    }
    if (c == '"' || c == '\'')
        return scan_string(scanner, 0, false);
    if (is_digit(c) || (c == '.' && is_digit(peek(scanner, 1))))
        return scan_number(scanner);
    return is_name_char(c) ? scan_word(scanner) : scan_operator(scanner);
}

static int end_text(struct scanner *scanner)
{
    int r = 0;

    if (scanner->open > 0)
        return complain(scanner, "a bracket is not closed");
    if (!scanner->is_line_start)
        r = add(scanner, AGT_PY_NEWLINE, scanner->at, 0);
    while (r == 0 && scanner->indent_count > 0) {
        scanner->indent_count--;
        r = add(scanner, AGT_PY_DEDENT, scanner->at, 0);
    }
    return r == 0 ? add(scanner, AGT_PY_END, scanner->at, 0) : r;
}

int agt_py_scan(const char *text, size_t size, struct agt_py_tokens *ret_tokens, struct cr_err *err)
{
    struct agt_py_tokens tokens = {.text = text};
    struct scanner scanner = {
        .text = text,
        .size = size,
        .line = 1,
        .is_line_start = true,
        .tokens = &tokens,
        .err = err,
    };
    int r = 0;

    if (size > UINT32_MAX / 4)
        return cr_err_set(err, EINVAL, "the text is too long");
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        scanner.at = 3;
    while (r == 0 && scanner.at < size)
        r = scanner.is_line_start ? start_line(&scanner) : scan_token(&scanner);
    if (r == 0)
        r = end_text(&scanner);
    if (r < 0) {
        agt_py_tokens_done(&tokens);
        return r;
    }
    *ret_tokens = tokens;
    return 0;
}

void agt_py_tokens_done(struct agt_py_tokens *tokens)
{
    free(tokens->items);
    *tokens = (struct agt_py_tokens){NULL, NULL, 0, 0};
}

bool agt_py_is(const struct agt_py_tokens *tokens, size_t index, const char *text)
{
    const struct agt_py_token *token;
    size_t size = strlen(text);

    if (index >= tokens->count)
        return false;
    token = &tokens->items[index];
    return (token->kind == AGT_PY_NAME || token->kind == AGT_PY_OPERATOR) && token->size == size &&
           memcmp(tokens->text + token->start, text, size) == 0;
}

bool agt_py_mentions(const struct agt_py_tokens *tokens, const char *name, size_t size)
{
    for (size_t i = 0; i < tokens->count; i++) {
        const struct agt_py_token *token = &tokens->items[i];

        if (token->kind == AGT_PY_NAME && token->size == size &&
            memcmp(tokens->text + token->start, name, size) == 0)
            return true;
    }
    return false;
}
