/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/scrape_request.h"

#include <stdbool.h>
#include <string.h>

/* A word of the request line. */
struct word {
    const char *text;
    size_t size;
};

static bool equals(struct word word, const char *text)
{
    return word.size == strlen(text) && memcmp(word.text, text, word.size) == 0;
}

/* The next word of [*at, end), which ends before a space or at the end; visible ASCII only. */
static bool take_word(const char **at, const char *end, struct word *ret_word)
{
    const char *begin = *at;

    while (*at<end &&* * at> ' ' && **at <= '~')
        (*at)++;
    *ret_word = (struct word){begin, (size_t)(*at - begin)};
    if (ret_word->size == 0 || (*at < end && **at != ' '))
        return false;
    if (*at < end)
        (*at)++;
    return true;
}

static enum sbx_scrape_request parse_line(const char *at, const char *end)
{
    struct word method;
    struct word target;
    struct word version;
    bool is_head;

    if (!take_word(&at, end, &method) || !take_word(&at, end, &target) ||
        !take_word(&at, end, &version) || version.text + version.size != end || version.size != 8 ||
        memcmp(version.text, "HTTP/1.", 7) != 0)
        return SBX_SCRAPE_BAD;
    is_head = equals(method, "HEAD");
    if (!is_head && !equals(method, "GET"))
        return SBX_SCRAPE_NOT_ALLOWED;
    if (memchr(target.text, '?', target.size))
        target.size = (size_t)((const char *)memchr(target.text, '?', target.size) - target.text);
    if (!equals(target, "/metrics"))
        return SBX_SCRAPE_NOT_FOUND;
    return is_head ? SBX_SCRAPE_METRICS_HEAD : SBX_SCRAPE_METRICS;
}

enum sbx_scrape_request sbx_scrape_parse(const char *data, size_t size)
{
    size_t seen = size < SBX_SCRAPE_HEAD_MAX ? size : SBX_SCRAPE_HEAD_MAX;
    const char *line_end = memmem(data, seen, "\r\n", 2);

    /* The whole head, so that closing does not reset what the other side still sends. */
    if (!line_end || !memmem(data, seen, "\r\n\r\n", 4))
        return size < SBX_SCRAPE_HEAD_MAX ? SBX_SCRAPE_INCOMPLETE : SBX_SCRAPE_TOO_LARGE;
    return parse_line(data, line_end);
}
