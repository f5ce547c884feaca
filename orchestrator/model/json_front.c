/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/json_front.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/utf8.h"

#include <string.h>

#include <cjson/cJSON.h>

static const size_t DEFAULT_MAX_SIZE = 8U << 20;
static const uint32_t DEFAULT_MAX_DEPTH = 64;
static const uint32_t DEFAULT_MAX_VALUES = 100000;

static const char REPLACEMENT[] = "\xEF\xBF\xBD";
static const size_t SURROGATE_SIZE = 3; /* in WTF-8 */

struct scan {
    const uint8_t *data;
    size_t size;
    size_t at;
    struct agt_json_options limits; /* defaults filled in */
    uint32_t depth;
    uint32_t values;
    uint32_t flags;
    struct cr_buf clean; /* one document that cJSON reads as it was meant */
    struct cr_err *err;
};

static int bad(struct scan *scan, const char *what)
{
    return cr_err_set(scan->err, EBADMSG, "not JSON at byte %zu: %s", scan->at, what);
}

static int cut(struct scan *scan)
{
    return cr_err_set(scan->err, ENODATA, "the JSON ends too early, after %zu bytes", scan->size);
}

/* The clean copy can grow past the input only by replacements, three bytes for one. */
static int emit(struct scan *scan, const void *data, size_t size)
{
    int r = cr_buf_add(&scan->clean, data, size);

    if (r < 0)
        return cr_err_set(scan->err, -r, "keep %zu bytes of JSON", scan->clean.size + size);
    return 0;
}

static bool is_high(uint32_t code)
{
    return code >= 0xD800 && code <= 0xDBFF;
}

static bool is_low(uint32_t code)
{
    return code >= 0xDC00 && code <= 0xDFFF;
}

static int hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* Reads "\uXXXX" at `at`. Returns false when there is none. */
static bool read_unicode_escape(const struct scan *scan, size_t at, uint32_t *ret_code)
{
    uint32_t code = 0;

    if (scan->size - at < 6 || scan->data[at] != '\\' || scan->data[at + 1] != 'u')
        return false;
    for (size_t i = 2; i < 6; i++) {
        int value = hex_value(scan->data[at + i]);

        if (value < 0)
            return false;
        code = code << 4 | (uint32_t)value;
    }
    *ret_code = code;
    return true;
}

static int emit_lone_surrogate(struct scan *scan, uint32_t code)
{
    const uint8_t bytes[] = {(uint8_t)(0xE0 | code >> 12), (uint8_t)(0x80 | (code >> 6 & 0x3F)),
                             (uint8_t)(0x80 | (code & 0x3F))};

    scan->flags |= AGT_JSON_REPLACED_SURROGATE;
    if (scan->limits.keep_surrogates)
        return emit(scan, bytes, sizeof(bytes));
    return emit(scan, REPLACEMENT, strlen(REPLACEMENT));
}

static int scan_unicode_escape(struct scan *scan)
{
    uint32_t code;
    uint32_t second;
    size_t start = scan->at;

    if (!read_unicode_escape(scan, start, &code))
        return scan->size - start < 6 ? cut(scan) : bad(scan, "\\u without four digits");
    scan->at += 6;
    if (code == 0) {
        scan->flags |= AGT_JSON_REPLACED_NUL;
        return emit(scan, REPLACEMENT, strlen(REPLACEMENT));
    }
    if (is_high(code) && read_unicode_escape(scan, scan->at, &second) && is_low(second)) {
        scan->at += 6;
        return emit(scan, scan->data + start, 12);
    }
    if (is_high(code) || is_low(code))
        return emit_lone_surrogate(scan, code);
    return emit(scan, scan->data + start, 6);
}

static int scan_escape(struct scan *scan)
{
    size_t start = scan->at;

    if (scan->size - start < 2)
        return cut(scan);
    if (scan->data[start + 1] == 'u')
        return scan_unicode_escape(scan);
    if (scan->data[start + 1] == 0 || !strchr("\"\\/bfnrt", scan->data[start + 1]))
        return bad(scan, "unknown escape in a string");
    scan->at += 2;
    return emit(scan, scan->data + start, 2);
}

/* Copies up to the next quote or backslash. Both are ASCII and so never inside a character. */
static int scan_plain(struct scan *scan)
{
    const uint8_t *start = scan->data + scan->at;
    size_t left = scan->size - scan->at;
    size_t size = 0;
    bool has_nul = false;

    for (; size < left && start[size] != '"' && start[size] != '\\'; size++) {
        if (start[size] < 0x20)
            scan->flags |= AGT_JSON_RAW_CONTROL;
        has_nul |= start[size] == 0;
    }
    scan->at += size;
    if (has_nul)
        scan->flags |= AGT_JSON_REPLACED_NUL;
    if (cr_utf8_is_valid(start, size) && !has_nul)
        return emit(scan, start, size);
    if (!cr_utf8_is_valid(start, size))
        scan->flags |= AGT_JSON_REPLACED_UTF8;
    if (cr_utf8_add_lossy(&scan->clean, start, size) < 0)
        return cr_err_set(scan->err, ENOMEM, "out of memory for %zu bytes of JSON", size);
    return 0;
}

static int scan_string(struct scan *scan)
{
    int r = emit(scan, "\"", 1);

    scan->at++;
    while (r == 0) {
        if (scan->at == scan->size)
            return cut(scan);
        if (scan->data[scan->at] == '"') {
            scan->at++;
            return emit(scan, "\"", 1);
        }
        r = scan->data[scan->at] == '\\' ? scan_escape(scan) : scan_plain(scan);
    }
    return r;
}

static int count_value(struct scan *scan)
{
    if (++scan->values > scan->limits.max_values)
        return cr_err_set(scan->err, EMSGSIZE, "JSON with more than %u values",
                          scan->limits.max_values);
    return 0;
}

/* Brackets, commas, numbers, words and white space; cJSON checks their order. */
static int scan_outside(struct scan *scan)
{
    const uint8_t *byte = scan->data + scan->at;

    switch (*byte) {
    case 0:
        return bad(scan, "NUL");
    case '{':
    case '[':
        if (++scan->depth > scan->limits.max_depth)
            return cr_err_set(scan->err, EMSGSIZE, "JSON deeper than %u levels",
                              scan->limits.max_depth);
        if (count_value(scan) < 0)
            return -EMSGSIZE;
        break;
    case '}':
    case ']':
        scan->depth--;
        break;
    case ',':
        if (count_value(scan) < 0)
            return -EMSGSIZE;
        break;
    default:
        break;
    }
    scan->at++;
    return emit(scan, byte, 1);
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->size && is_space(scan->data[scan->at]))
        scan->at++;
}

/* Copies the first document; the scan stops behind it. */
static int scan_document(struct scan *scan)
{
    int r;

    if (scan->size >= 3 && memcmp(scan->data, "\xEF\xBB\xBF", 3) == 0)
        scan->at = 3;
    skip_space(scan);
    if (scan->at == scan->size)
        return cut(scan);
    if (scan->data[scan->at] != '{' && scan->data[scan->at] != '[')
        return bad(scan, "neither an object nor an array");
    do {
        if (scan->at == scan->size)
            return cut(scan);
        r = scan->data[scan->at] == '"' ? scan_string(scan) : scan_outside(scan);
    } while (r == 0 && scan->depth > 0);
    return r;
}

static int check_trailing(struct scan *scan)
{
    skip_space(scan);
    if (scan->at == scan->size)
        return 0;
    scan->flags |= AGT_JSON_TRAILING;
    return scan->limits.allow_trailing ? 0 : bad(scan, "something follows the document");
}

static void fill_in(struct agt_json_options *limits, const struct agt_json_options *options)
{
    if (options)
        *limits = *options;
    if (limits->max_size == 0)
        limits->max_size = DEFAULT_MAX_SIZE;
    if (limits->max_depth == 0)
        limits->max_depth = DEFAULT_MAX_DEPTH;
    if (limits->max_values == 0)
        limits->max_values = DEFAULT_MAX_VALUES;
}

int agt_json_parse(const void *data, size_t size, const struct agt_json_options *options,
                   struct cJSON **ret_root, uint32_t *ret_flags, struct cr_err *err)
{
    struct scan scan = {.data = data, .size = size, .err = err};
    cJSON *root;
    int r;

    fill_in(&scan.limits, options);
    if (size > scan.limits.max_size)
        return cr_err_set(err, EMSGSIZE, "JSON of %zu bytes; at most %zu are read", size,
                          scan.limits.max_size);
    cr_buf_init(&scan.clean, 3 * size + 1);
    r = scan_document(&scan);
    if (r == 0)
        r = check_trailing(&scan);
    if (r < 0) {
        cr_buf_done(&scan.clean);
        return r;
    }
    root = cJSON_ParseWithLength(cr_buf_str(&scan.clean), scan.clean.size);
    cr_buf_done(&scan.clean);
    if (!root)
        return cr_err_set(err, EBADMSG, "not JSON: an object or array is malformed");
    if (ret_flags)
        *ret_flags = scan.flags;
    *ret_root = root;
    return 0;
}

/* Half a pair as written by keep_surrogates; 0: there is none at `text`. */
static uint32_t read_surrogate(const uint8_t *text, size_t size)
{
    if (size < SURROGATE_SIZE || text[0] != 0xED || text[1] < 0xA0)
        return 0;
    return 0xD000U | (text[1] & 0x3FU) << 6 | (text[2] & 0x3FU);
}

static int add_pair(struct cr_buf *buf, uint32_t high, uint32_t low)
{
    uint32_t code = 0x10000 + ((high & 0x3FF) << 10 | (low & 0x3FF));
    const uint8_t bytes[] = {(uint8_t)(0xF0 | code >> 18), (uint8_t)(0x80 | (code >> 12 & 0x3F)),
                             (uint8_t)(0x80 | (code >> 6 & 0x3F)), (uint8_t)(0x80 | (code & 0x3F))};

    return cr_buf_add(buf, bytes, sizeof(bytes));
}

static int add_surrogate(struct agt_json_join *join, struct cr_buf *buf, uint32_t code)
{
    uint32_t high = join->high;
    int r;

    if (high != 0 && is_low(code)) {
        join->high = 0;
        return add_pair(buf, high, code);
    }
    r = agt_json_join_end(join, buf);
    if (r < 0)
        return r;
    if (is_high(code)) {
        join->high = code;
        return 0;
    }
    return cr_buf_add_str(buf, REPLACEMENT);
}

int agt_json_join_add(struct agt_json_join *join, struct cr_buf *buf, const char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)text;
    int r = 0;

    for (size_t at = 0; at < size && r == 0;) {
        uint32_t code = read_surrogate(bytes + at, size - at);
        size_t plain = 0;

        if (code != 0) {
            r = add_surrogate(join, buf, code);
            at += SURROGATE_SIZE;
            continue;
        }
        do
            plain++;
        while (at + plain < size && read_surrogate(bytes + at + plain, size - at - plain) == 0);
        r = agt_json_join_end(join, buf);
        if (r == 0)
            r = cr_buf_add(buf, bytes + at, plain);
        at += plain;
    }
    return r;
}

int agt_json_join_end(struct agt_json_join *join, struct cr_buf *buf)
{
    if (join->high == 0)
        return 0;
    join->high = 0;
    return cr_buf_add_str(buf, REPLACEMENT);
}
