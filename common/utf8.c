/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"

#include "common/buf.h"

#include <errno.h>

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

struct step {
    size_t size;   /* bytes taken: a whole character, or the ill-formed part */
    bool is_valid; /* a well-formed character */
    bool is_cut;   /* well-formed so far, but the data ends inside it */
};

/* Length of the sequence that `lead` starts and the allowed range of its second byte; 0 = no lead
 * byte. */
static size_t lead_length(uint8_t lead, uint8_t *ret_low, uint8_t *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        if (lead == 0xE0)
            *ret_low = 0xA0;
        if (lead == 0xED)
            *ret_high = 0x9F;
        return 3;
    }
    if (lead > 0xF4)
        return 0;
    if (lead == 0xF0)
        *ret_low = 0x90;
    if (lead == 0xF4)
        *ret_high = 0x8F;
    return 4;
}

static struct step next(const uint8_t *data, size_t size)
{
    uint8_t low;
    uint8_t high;
    size_t length = lead_length(data[0], &low, &high);

    if (length == 0)
        return (struct step){.size = 1};
    for (size_t i = 1; i < length; i++) {
        if (i == size)
            return (struct step){.size = size, .is_cut = true};
        if (data[i] < low || data[i] > high)
            return (struct step){.size = i};
        low = 0x80;
        high = 0xBF;
    }
    return (struct step){.size = length, .is_valid = true};
}

bool cr_utf8_is_valid(const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t at = 0; at < size;) {
        struct step step = next(bytes + at, size - at);

        if (!step.is_valid)
            return false;
        at += step.size;
    }
    return true;
}

size_t cr_utf8_complete_prefix(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t back = size < 3 ? size : 3;

    /* Only the last three bytes can belong to an incomplete character. */
    for (size_t i = 1; i <= back; i++) {
        const uint8_t *at = bytes + size - i;

        if ((*at & 0xC0) == 0x80)
            continue;
        if (next(at, i).is_cut)
            return size - i;
        break;
    }
    return size;
}

int cr_utf8_add_lossy(struct cr_buf *buf, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t clean = 0; /* start of the run not yet copied */
    int r = 0;

    if (size == 0)
        return 0; /* `data` may be NULL then */
    for (size_t at = 0; at < size && r == 0;) {
        struct step step = next(bytes + at, size - at);

        if (!step.is_valid || bytes[at] == 0) {
            r = cr_buf_add(buf, bytes + clean, at - clean);
            if (r == 0)
                r = cr_buf_add_str(buf, REPLACEMENT);
            clean = at + step.size;
        }
        at += step.size;
    }
    if (r < 0)
        return r;
    return cr_buf_add(buf, bytes + clean, size - clean);
}
