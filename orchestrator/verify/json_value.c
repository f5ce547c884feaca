/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/json_value.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/*
 * cJSON reads numbers as doubles. So before it parses, each number becomes a
 * string that begins with '#', and each string gets a '=' in front: then
 * numbers are compared as they were written.
 */
#define NUMBER '#'
#define DEPTH_MAX 100
#define TOLERANCE 1e-9

struct agt_json_value {
    cJSON *root;
};

static size_t string_size(const char *text, size_t size)
{
    for (size_t i = 1; i < size; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '"')
            return i + 1;
    }
    return size;
}

static size_t number_size(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && text[i] && strchr("+-0123456789.eE", text[i]))
        i++;
    return i;
}

static size_t digits_size(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && text[i] >= '0' && text[i] <= '9')
        i++;
    return i;
}

/* RFC 8259 §6; cJSON takes what strtod() takes, "01" for one. */
static bool is_number(const char *text, size_t size)
{
    size_t at = size > 0 && text[0] == '-';
    size_t whole = digits_size(text + at, size - at);

    if (whole == 0 || (whole > 1 && text[at] == '0'))
        return false;
    at += whole;
    if (at < size && text[at] == '.') {
        size_t fraction = digits_size(text + at + 1, size - at - 1);

        if (fraction == 0)
            return false;
        at += 1 + fraction;
    }
    if (at < size && (text[at] == 'e' || text[at] == 'E')) {
        size_t sign = at + 1 < size && (text[at + 1] == '+' || text[at + 1] == '-');
        size_t exponent = digits_size(text + at + 1 + sign, size - at - 1 - sign);

        if (exponent == 0)
            return false;
        at += 1 + sign + exponent;
    }
    return at == size;
}

static int add_number(const char *text, size_t size, struct cr_buf *buf)
{
    int r = is_number(text, size) ? cr_buf_add_str(buf, "\"#") : -EINVAL;

    if (r == 0)
        r = cr_buf_add(buf, text, size);
    return r == 0 ? cr_buf_add_char(buf, '"') : r;
}

/* In JSON "\\u0000" is a backslash and five characters. */
static bool has_nul(const char *text, size_t size)
{
    for (size_t i = 0; i + 6 <= size; i++) {
        if (text[i] != '\\')
            continue;
        if (memcmp(text + i, "\\u0000", 6) == 0)
            return true;
        i++; /* what is escaped */
    }
    return false;
}

static int add_string(const char *text, size_t size, struct cr_buf *buf)
{
    int r;

    if (has_nul(text, size))
        return -EINVAL; /* cJSON would cut the string there */
    r = cr_buf_add_str(buf, "\"=");
    return r == 0 ? cr_buf_add(buf, text + 1, size - 1) : r;
}

/* The text is JSON already, so that what looks like a number is one. */
static int rewrite(const char *text, size_t size, struct cr_buf *buf)
{
    size_t depth = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < size;) {
        size_t step = 1;

        if (text[i] == '"') {
            step = string_size(text + i, size - i);
            r = add_string(text + i, step, buf);
        } else if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')) {
            step = number_size(text + i, size - i);
            r = add_number(text + i, step, buf);
        } else {
            depth += text[i] == '[' || text[i] == '{';
            depth -= text[i] == ']' || text[i] == '}';
            r = depth > DEPTH_MAX ? -EINVAL : cr_buf_add_char(buf, text[i]);
        }
        i += step;
    }
    return r;
}

static bool is_json(const char *text, size_t size)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, size, &end, false);

    bool is_good;

    while (root && end < text + size && strchr(" \t\r\n", *end))
        end++;
    is_good = root && end == text + size;
    cJSON_Delete(root);
    return is_good;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* -EINVAL when a member is there twice, or -ENOMEM. */
static int check_members(const cJSON *object)
{
    size_t count = (size_t)cJSON_GetArraySize(object);
    const char **keys = count > 1 ? malloc(count * sizeof(*keys)) : NULL;
    const cJSON *member;
    size_t at = 0;
    int r = 0;

    if (count < 2)
        return 0;
    if (!keys)
        return -ENOMEM;
    cJSON_ArrayForEach(member, object) keys[at++] = member->string;
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 1; r == 0 && i < count; i++)
        r = strcmp(keys[i - 1], keys[i]) == 0 ? -EINVAL : 0;
    free(keys);
    return r;
}

/* No object has a key twice: which of the two counts would be anybody's guess. */
static int check_keys(const cJSON *value)
{
    const cJSON *child;
    int r = cJSON_IsObject(value) ? check_members(value) : 0;

    cJSON_ArrayForEach(child, value)
    {
        if (r == 0)
            r = check_keys(child);
    }
    return r;
}

int agt_json_value_parse(const char *text, size_t size, struct agt_json_value **ret_value,
                         struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf rewritten = {0};
    struct agt_json_value *value;
    int r;

    if (!is_json(text, size))
        return cr_err_set(err, EINVAL, "it is no JSON value");
    cr_buf_init(&rewritten, 4 * size + 16);
    r = rewrite(text, size, &rewritten);
    if (r == -EINVAL)
        return cr_err_set(err, EINVAL,
                          "it is nested more than %d levels deep, has a NUL in a string or a "
                          "number that JSON does not have",
                          DEPTH_MAX);
    value = r == 0 ? calloc(1, sizeof(*value)) : NULL;
    if (value)
        value->root = cJSON_ParseWithLength(cr_buf_str(&rewritten), rewritten.size);
    r = value && value->root ? check_keys(value->root) : -ENOMEM;
    if (r < 0) {
        agt_json_value_free(value);
        return r == -EINVAL ? cr_err_set(err, EINVAL, "an object has a key twice")
                            : cr_err_set(err, ENOMEM, "out of memory for a JSON value");
    }
    *ret_value = value;
    return 0;
}

void agt_json_value_free(struct agt_json_value *value)
{
    if (!value)
        return;
    cJSON_Delete(value->root);
    free(value);
}

static bool are_equal_numbers(const char *a, const char *b)
{
    double left;
    double right;

    if (!strpbrk(a, ".eE") && !strpbrk(b, ".eE"))
        return strcmp(a, b) == 0;
    left = strtod(a, NULL);
    right = strtod(b, NULL);
    if (isinf(left) || isinf(right)) /* which would be near to everything */
        return strcmp(a, b) == 0;
    return left == right || fabs(left - right) <= TOLERANCE * fmax(fabs(left), fabs(right));
}

static bool are_equal(const cJSON *a, const cJSON *b);

static bool are_equal_arrays(const cJSON *a, const cJSON *b)
{
    const cJSON *left = a->child;
    const cJSON *right = b->child;

    for (; left && right; left = left->next, right = right->next) {
        if (!are_equal(left, right))
            return false;
    }
    return !left && !right;
}

/* No key is there twice, or it would not be a value of ours. */
static bool are_equal_objects(const cJSON *a, const cJSON *b)
{
    if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b))
        return false;
    for (const cJSON *left = a->child; left; left = left->next) {
        const cJSON *right = cJSON_GetObjectItemCaseSensitive(b, left->string);

        if (!right || !are_equal(left, right))
            return false;
    }
    return true;
}

static bool are_equal(const cJSON *a, const cJSON *b)
{
    if ((a->type & 0xff) != (b->type & 0xff))
        return false;
    if (cJSON_IsArray(a))
        return are_equal_arrays(a, b);
    if (cJSON_IsObject(a))
        return are_equal_objects(a, b);
    if (!cJSON_IsString(a))
        return true; /* true, false, null */
    if (a->valuestring[0] == NUMBER && b->valuestring[0] == NUMBER)
        return are_equal_numbers(a->valuestring + 1, b->valuestring + 1);
    return strcmp(a->valuestring, b->valuestring) == 0;
}

bool agt_json_value_equals(const struct agt_json_value *a, const struct agt_json_value *b)
{
    return are_equal(a->root, b->root);
}
