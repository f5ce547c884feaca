/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/json_lex.h"

#include "common/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void rpc_json_lex_init(struct rpc_json_lex *lex, const char *text, size_t size)
{
    *lex = (struct rpc_json_lex){.text = text, .size = size, .value = "", .fault = ""};
}

static enum rpc_json_token bad(struct rpc_json_lex *lex, size_t at, const char *fault)
{
    lex->fault = fault;
    lex->fault_at = at;
    lex->token = RPC_JSON_BAD;
    return RPC_JSON_BAD;
}

static bool is_digit(const struct rpc_json_lex *lex)
{
    return lex->at < lex->size && lex->text[lex->at] >= '0' && lex->text[lex->at] <= '9';
}

static bool skip_char(struct rpc_json_lex *lex, char character)
{
    if (lex->at == lex->size || lex->text[lex->at] != character)
        return false;
    lex->at++;
    return true;
}

/* At least one digit. */
static bool skip_digits(struct rpc_json_lex *lex)
{
    size_t start = lex->at;

    while (is_digit(lex))
        lex->at++;
    return lex->at > start;
}

static enum rpc_json_token lex_number(struct rpc_json_lex *lex)
{
    size_t start = lex->at;
    bool is_good;

    (void)skip_char(lex, '-');
    is_good = skip_char(lex, '0') || skip_digits(lex);
    if (is_good && skip_char(lex, '.'))
        is_good = skip_digits(lex);
    if (is_good && (skip_char(lex, 'e') || skip_char(lex, 'E'))) {
        if (!skip_char(lex, '-'))
            (void)skip_char(lex, '+');
        is_good = skip_digits(lex);
    }
    if (!is_good || is_digit(lex))
        return bad(lex, start, "malformed number");
    lex->value = lex->text + start;
    lex->value_size = lex->at - start;
    return RPC_JSON_NUMBER;
}

static int hex_value(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    if (character >= 'a' && character <= 'f')
        return character - 'a' + 10;
    if (character >= 'A' && character <= 'F')
        return character - 'A' + 10;
    return -1;
}

/* The four hexadecimal digits at `text`; -1 when they are not. */
static int32_t read_hex4(const char *text, size_t size)
{
    int32_t value = 0;

    if (size < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_value(text[i]);

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high_surrogate(int32_t unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(int32_t unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* lex->at stands behind "\u". Returns NULL or the fault. */
static const char *skip_unicode_escape(struct rpc_json_lex *lex)
{
    int32_t unit = read_hex4(lex->text + lex->at, lex->size - lex->at);

    if (unit < 0)
        return "malformed \\u escape";
    if (unit == 0)
        return "text must not contain a NUL character (\\u0000)";
    if (is_low_surrogate(unit))
        return "\\u escape with half a surrogate pair";
    lex->at += 4;
    if (!is_high_surrogate(unit))
        return NULL;
    if (!skip_char(lex, '\\') || !skip_char(lex, 'u') ||
        !is_low_surrogate(read_hex4(lex->text + lex->at, lex->size - lex->at)))
        return "\\u escape with half a surrogate pair";
    lex->at += 4;
    return NULL;
}

/* lex->at stands behind the backslash. Returns NULL or the fault. */
static const char *skip_escape(struct rpc_json_lex *lex)
{
    if (skip_char(lex, 'u'))
        return skip_unicode_escape(lex);
    if (lex->at == lex->size)
        return "text without its closing quote";
    if (lex->text[lex->at] == '\0' || !strchr("\"\\/bfnrt", lex->text[lex->at]))
        return "unknown escape in text";
    lex->at++;
    return NULL;
}

static enum rpc_json_token lex_string(struct rpc_json_lex *lex)
{
    size_t start = ++lex->at;

    while (lex->at < lex->size && lex->text[lex->at] != '"') {
        size_t place = lex->at;
        const char *fault = NULL;

        if ((unsigned char)lex->text[lex->at] < ' ')
            fault = "control character in text; write it as an escape";
        else if (lex->text[lex->at++] == '\\')
            fault = skip_escape(lex);
        if (fault)
            return bad(lex, place, fault);
    }
    if (lex->at == lex->size)
        return bad(lex, start - 1, "text without its closing quote");
    lex->value = lex->text + start;
    lex->value_size = lex->at - start;
    lex->at++;
    if (!cr_utf8_is_valid(lex->value, lex->value_size))
        return bad(lex, start, "text that is not valid UTF-8");
    return RPC_JSON_STRING;
}

static enum rpc_json_token lex_word(struct rpc_json_lex *lex)
{
    static const struct {
        const char *word;
        size_t size;
        enum rpc_json_token token;
    } words[] = {
        {"true", 4, RPC_JSON_TRUE}, {"false", 5, RPC_JSON_FALSE}, {"null", 4, RPC_JSON_NULL}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (lex->size - lex->at >= words[i].size &&
            memcmp(lex->text + lex->at, words[i].word, words[i].size) == 0) {
            lex->at += words[i].size;
            return words[i].token;
        }
    }
    return bad(lex, lex->at, "unexpected character");
}

static enum rpc_json_token lex_one(struct rpc_json_lex *lex)
{
    static const char PUNCTUATION[] = "{}[]:,";
    const char *found;
    char character;

    while (skip_char(lex, ' ') || skip_char(lex, '\n') || skip_char(lex, '\t') ||
           skip_char(lex, '\r'))
        ;
    lex->token_at = lex->at;
    if (lex->at == lex->size)
        return RPC_JSON_END;
    character = lex->text[lex->at];
    if (character == '"')
        return lex_string(lex);
    if (character == '-' || is_digit(lex))
        return lex_number(lex);
    found = character ? strchr(PUNCTUATION, character) : NULL;
    if (!found)
        return lex_word(lex);
    lex->at++;
    /* The tokens have the order of the characters. */
    return (enum rpc_json_token)(RPC_JSON_OBJECT_OPEN + (found - PUNCTUATION));
}

enum rpc_json_token rpc_json_lex_next(struct rpc_json_lex *lex)
{
    if (lex->token != RPC_JSON_BAD)
        lex->token = lex_one(lex);
    return lex->token;
}

static size_t put_utf8(char *out, int32_t code_point)
{
    uint32_t code = (uint32_t)code_point;

    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

static char plain_escape(char letter)
{
    switch (letter) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return letter;
    }
}

size_t rpc_json_lex_unescape(const struct rpc_json_lex *lex, char *out)
{
    const char *at = lex->value;
    const char *end = lex->value + lex->value_size;
    size_t size = 0;

    /* The escapes were checked when the token was cut, so they are whole. */
    while (at < end) {
        int32_t unit;

        if (*at != '\\') {
            out[size++] = *at++;
            continue;
        }
        at += 2;
        if (at[-1] != 'u') {
            out[size++] = plain_escape(at[-1]);
            continue;
        }
        unit = read_hex4(at, 4);
        at += 4;
        if (is_high_surrogate(unit)) {
            unit = 0x10000 + (unit - 0xD800) * 0x400 + (read_hex4(at + 2, 4) - 0xDC00);
            at += 6;
        }
        size += put_utf8(out + size, unit);
    }
    out[size] = '\0';
    return size;
}

void rpc_json_lex_place(const struct rpc_json_lex *lex, size_t at, size_t *ret_line,
                        size_t *ret_column)
{
    size_t line = 1;
    size_t start = 0;

    for (size_t i = 0; i < at && i < lex->size; i++) {
        if (lex->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    *ret_line = line;
    *ret_column = at - start + 1;
}
