/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/judge_version.h"

#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789"
#define DIGITS_MAX 18U /* fit into 64 bits */

/* ---- versions ---- */

/* Of the part that begins at *at. */
static bool read_number(const char **at, uint64_t *ret_number)
{
    const size_t size = strspn(*at, DIGITS);

    *ret_number = 0;
    for (size_t i = 0; i < size && i < DIGITS_MAX; i++)
        *ret_number = *ret_number * 10 + (uint64_t)((*at)[i] - '0');
    *at += size;
    return size > 0 && size <= DIGITS_MAX;
}

/* Numbers up to the first wildcard, behind which there are wildcards or nothing that counts. */
static bool read_partial(const char **at, struct agt_judge_version *ret_version)
{
    bool is_wild = false;

    *ret_version = (struct agt_judge_version){0};
    *at += **at == 'v';
    for (size_t i = 0; i < AGT_JUDGE_VERSION_PARTS; i++) {
        uint64_t number = 0;

        if (i > 0 && **at != '.')
            break;
        *at += i > 0;
        if (**at != '\0' && strchr("xX*", **at)) {
            is_wild = true;
            (*at)++;
        } else if (!read_number(at, &number)) {
            return false;
        } else if (!is_wild) {
            ret_version->parts[ret_version->count++] = number;
        }
    }
    return **at == '\0' || **at == ' ' || **at == '|';
}

void agt_judge_version_plain(const char *text, char ret_text[AGT_JUDGE_VERSION_SIZE])
{
    size_t size;

    text += strcspn(text, DIGITS);
    size = strspn(text, DIGITS ".");
    while (size > 0 && text[size - 1] == '.')
        size--;
    if (size == 0 || size >= AGT_JUDGE_VERSION_SIZE)
        (void)snprintf(ret_text, AGT_JUDGE_VERSION_SIZE, "0.0.0");
    else
        (void)snprintf(ret_text, AGT_JUDGE_VERSION_SIZE, "%.*s", (int)size, text);
}

void agt_judge_version_read(const char *text, struct agt_judge_version *ret_version)
{
    char plain[AGT_JUDGE_VERSION_SIZE];
    const char *at = plain;

    agt_judge_version_plain(text, plain);
    (void)read_partial(&at, ret_version); /* what was read counts */
}

/* Over the first `count` parts. */
static int compare_parts(const struct agt_judge_version *a, const struct agt_judge_version *b,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a->parts[i] != b->parts[i])
            return a->parts[i] < b->parts[i] ? -1 : 1;
    }
    return 0;
}

int agt_judge_version_compare(const struct agt_judge_version *a, const struct agt_judge_version *b)
{
    return compare_parts(a, b, AGT_JUDGE_VERSION_PARTS);
}

/* ---- ranges ---- */

enum sign {
    SIGN_SAME,
    SIGN_LESS,
    SIGN_AT_MOST,
    SIGN_MORE,
    SIGN_AT_LEAST,
    SIGN_CARET, /* the same up to the first part that is not 0 */
    SIGN_TILDE, /* the same first two parts */
};

struct comparator {
    enum sign sign;
    struct agt_judge_version version;
};

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " ");
}

static enum sign read_sign(const char **at)
{
    static const struct {
        const char *text;
        enum sign sign;
    } signs[] = {{"<=", SIGN_AT_MOST}, {">=", SIGN_AT_LEAST}, {"~>", SIGN_TILDE},
                 {"<", SIGN_LESS},     {">", SIGN_MORE},      {"=", SIGN_SAME},
                 {"^", SIGN_CARET},    {"~", SIGN_TILDE}};

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (strncmp(*at, signs[i].text, strlen(signs[i].text)) != 0)
            continue;
        *at += strlen(signs[i].text);
        skip_blanks(at);
        return signs[i].sign;
    }
    return SIGN_SAME;
}

/* How many parts are the same in a version that fits. */
static size_t kept_parts(const struct comparator *comparator)
{
    const struct agt_judge_version *version = &comparator->version;
    size_t kept = 0;

    if (comparator->sign == SIGN_TILDE)
        return version->count < 2 ? version->count : 2;
    while (kept < version->count && version->parts[kept] == 0)
        kept++;
    return kept < version->count ? kept + 1 : kept;
}

static bool holds(const struct comparator *comparator, const struct agt_judge_version *version)
{
    const struct agt_judge_version *wanted = &comparator->version;
    /* What is not given does not count: no 3.9.x is more than 3.9. */
    const int given = compare_parts(version, wanted, wanted->count);

    switch (comparator->sign) {
    case SIGN_LESS:
        return given < 0;
    case SIGN_AT_MOST:
        return given <= 0;
    case SIGN_MORE:
        return given > 0;
    case SIGN_AT_LEAST:
        return given >= 0;
    case SIGN_CARET:
    case SIGN_TILDE:
        return given >= 0 && compare_parts(version, wanted, kept_parts(comparator)) == 0;
    case SIGN_SAME:
    default:
        return given == 0;
    }
}

/* A comparator, or two in one: "3.9 - 3.11". */
static bool read_comparator(const char **at, const struct agt_judge_version *version,
                            bool *ret_holds)
{
    struct comparator comparator = {.sign = read_sign(at)};
    bool is_first;

    if (!read_partial(at, &comparator.version))
        return false;
    is_first = comparator.sign == SIGN_SAME && strncmp(*at, " - ", 3) == 0;
    if (is_first)
        comparator.sign = SIGN_AT_LEAST;
    *ret_holds = holds(&comparator, version);
    if (!is_first)
        return true;
    *at += 3;
    skip_blanks(at);
    comparator.sign = SIGN_AT_MOST;
    if (!read_partial(at, &comparator.version))
        return false;
    *ret_holds = *ret_holds && holds(&comparator, version);
    return true;
}

bool agt_judge_version_fits(const struct agt_judge_version *version, const char *range)
{
    bool fits_any = false;
    bool fits_all = true; /* of one alternative */

    for (;;) {
        bool does_hold = false;

        skip_blanks(&range);
        if (*range == '\0' || strncmp(range, "||", 2) == 0) {
            fits_any = fits_any || fits_all;
            if (*range == '\0')
                return fits_any;
            range += 2;
            fits_all = true;
            continue;
        }
        if (!read_comparator(&range, version, &does_hold))
            return false;
        fits_all = fits_all && does_hold;
    }
}
