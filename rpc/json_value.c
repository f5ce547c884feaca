/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/json_value.h"

#include "rpc/json_field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer numbers have nothing to say: a double has 17 significant digits. */
#define NUMBER_TEXT_MAX 512
#define DIGITS_MAX 17 /* that a double ever needs */

/* Only digits, at least one. */
static bool parse_digits(const char *text, size_t size, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++) {
        uint64_t digit;

        if (text[i] < '0' || text[i] > '9')
            return false;
        digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (size == 0)
        return false;
    *ret_value = value;
    return true;
}

/* As strtod, but of all of the text, which must begin with a digit or a minus. */
static bool parse_finite(const char *text, size_t size, double *ret_value)
{
    char copy[NUMBER_TEXT_MAX];
    char *end;
    double value;

    if (size == 0 || size >= sizeof(copy))
        return false;
    /* Keeps out what strtod takes too: hexadecimal, "inf", leading space and plus. */
    for (size_t i = 0; i < size; i++)
        if (!text[i] || !strchr("0123456789+-.eE", text[i]))
            return false;
    if (text[0] == '+')
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    value = strtod(copy, &end);
    if (*end || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

/* The sign and the absolute value of a whole number. */
static bool parse_whole(const char *text, size_t size, bool *ret_is_negative, uint64_t *ret_value)
{
    bool is_negative = size > 0 && text[0] == '-';
    size_t skip = is_negative ? 1 : 0;
    double value;

    *ret_is_negative = is_negative;
    if (parse_digits(text + skip, size - skip, ret_value))
        return true;
    /* Digits alone that did not fit must not come back rounded. */
    if (!memchr(text, '.', size) && !memchr(text, 'e', size) && !memchr(text, 'E', size))
        return false;
    if (!parse_finite(text, size, &value) || fabs(value) >= 0x1p64)
        return false;
    *ret_value = (uint64_t)fabs(value);
    return (double)*ret_value == fabs(value);
}

bool rpc_json_parse_int64(const char *text, size_t size, int64_t low, int64_t high,
                          int64_t *ret_value)
{
    bool is_negative;
    uint64_t absolute;
    int64_t value;

    if (!parse_whole(text, size, &is_negative, &absolute))
        return false;
    if (absolute > (uint64_t)INT64_MAX + (is_negative ? 1U : 0U))
        return false;
    value = is_negative ? (int64_t)(0 - absolute) : (int64_t)absolute;
    if (value < low || value > high)
        return false;
    *ret_value = value;
    return true;
}

bool rpc_json_parse_uint64(const char *text, size_t size, uint64_t high, uint64_t *ret_value)
{
    bool is_negative;
    uint64_t value;

    if (!parse_whole(text, size, &is_negative, &value) || (is_negative && value > 0) ||
        value > high)
        return false;
    *ret_value = value;
    return true;
}

static bool is_word(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && memcmp(text, word, size) == 0;
}

bool rpc_json_parse_double(const char *text, size_t size, double *ret_value)
{
    if (is_word(text, size, "NaN"))
        *ret_value = (double)NAN;
    else if (is_word(text, size, "Infinity"))
        *ret_value = (double)INFINITY;
    else if (is_word(text, size, "-Infinity"))
        *ret_value = (double)-INFINITY;
    else
        return parse_finite(text, size, ret_value);
    return true;
}

/*
 * The fewest digits that read back as the value, which is not negative:
 * 0.DIGITS * 10^*ret_exponent, without a zero at their end. Returns how many.
 */
static int shortest_digits(double value, char digits[DIGITS_MAX + 1], int *ret_exponent)
{
    char text[40];
    int count = 1;

    for (;; count++) {
        (void)snprintf(text, sizeof(text), "%.*e", count - 1, value);
        if (count == DIGITS_MAX || strtod(text, NULL) == value)
            break;
    }
    *ret_exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
    digits[0] = text[0];
    memcpy(digits + 1, text + 2, (size_t)count - 1); /* behind the point */
    digits[count] = '\0';
    return count;
}

bool rpc_json_number_text(const char *text, size_t size, char ret_text[RPC_JSON_NUMBER_MAX])
{
    static const char zeros[] = "00000000000000000000";
    char digits[DIGITS_MAX + 1];
    const char *sign;
    int exponent;
    int count;
    double value;

    if (!parse_finite(text, size, &value))
        return false;
    sign = value < 0 ? "-" : "";
    count = shortest_digits(fabs(value), digits, &exponent);
    if (count <= exponent && exponent <= 21)
        (void)snprintf(ret_text, RPC_JSON_NUMBER_MAX, "%s%s%.*s", sign, digits, exponent - count,
                       zeros);
    else if (exponent > 0 && exponent < count)
        (void)snprintf(ret_text, RPC_JSON_NUMBER_MAX, "%s%.*s.%s", sign, exponent, digits,
                       digits + exponent);
    else if (exponent > -6 && exponent <= 0)
        (void)snprintf(ret_text, RPC_JSON_NUMBER_MAX, "%s0.%.*s%s", sign, -exponent, zeros, digits);
    else
        (void)snprintf(ret_text, RPC_JSON_NUMBER_MAX, "%s%c%s%se%+d", sign, digits[0],
                       count > 1 ? "." : "", digits + 1, exponent - 1);
    return true;
}

static int base64_value(char character)
{
    if (character >= 'A' && character <= 'Z')
        return character - 'A';
    if (character >= 'a' && character <= 'z')
        return character - 'a' + 26;
    if (character >= '0' && character <= '9')
        return character - '0' + 52;
    if (character == '+' || character == '-')
        return 62;
    if (character == '/' || character == '_')
        return 63;
    return -1;
}

bool rpc_json_parse_base64(const char *text, size_t size, uint8_t *out, size_t *ret_size)
{
    size_t used = 0;
    uint32_t group = 0;
    unsigned bits = 0;

    if (size % 4 == 0 && size > 0 && text[size - 1] == '=')
        size -= text[size - 2] == '=' ? 2 : 1;
    if (size % 4 == 1)
        return false;
    for (size_t i = 0; i < size; i++) {
        int value = base64_value(text[i]);

        if (value < 0)
            return false;
        group = (group << 6 | (uint32_t)value) & 0xFFFFFF;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[used++] = (uint8_t)(group >> bits);
        }
    }
    *ret_size = used;
    return true;
}

static bool find_enum(const ProtobufCEnumDescriptor *descriptor, const char *name, int *ret_value)
{
    const ProtobufCEnumValue *found =
        protobuf_c_enum_descriptor_get_value_by_name(descriptor, name);

    if (found)
        *ret_value = found->value;
    return found;
}

bool rpc_json_parse_enum(const ProtobufCEnumDescriptor *descriptor, const char *text, size_t size,
                         int *ret_value)
{
    char name[2 * RPC_JSON_NAME_MAX];
    size_t prefix_size;
    int64_t number;

    if (rpc_json_parse_int64(text, size, INT32_MIN, INT32_MAX, &number)) {
        *ret_value = (int)number;
        return true;
    }
    if (size == 0 || size >= RPC_JSON_NAME_MAX)
        return false;
    rpc_json_enum_prefix(descriptor, name, RPC_JSON_NAME_MAX);
    prefix_size = strlen(name);
    memcpy(name + prefix_size, text, size);
    name[prefix_size + size] = '\0';
    return find_enum(descriptor, name + prefix_size, ret_value) ||
           find_enum(descriptor, name, ret_value);
}

void rpc_json_list_enum(const ProtobufCEnumDescriptor *descriptor, char *out, size_t room)
{
    char prefix[RPC_JSON_NAME_MAX];
    const char *comma = "";
    size_t used = 0;
    size_t size;

    rpc_json_enum_prefix(descriptor, prefix, sizeof(prefix));
    size = strlen(prefix);
    out[0] = '\0';
    for (unsigned i = 0; i < descriptor->n_values && used < room; i++) {
        const ProtobufCEnumValue *value = &descriptor->values[i];
        bool has_prefix = strncmp(value->name, prefix, size) == 0;
        const char *name = value->name + (has_prefix ? size : 0);
        int written;

        /* Zero means "not set"; nobody needs to write it. */
        if (value->value == 0 && strcmp(name, "UNSPECIFIED") == 0)
            continue;
        written = snprintf(out + used, room - used, "%s%s", comma, name);
        used += written > 0 ? (size_t)written : 0;
        comma = ", ";
    }
}
