/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/model/sse.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define EVENT_BYTES ((size_t)512)

static int note(struct cr_buf *log, char kind, const char *data, size_t size)
{
    FUZZ_CHECK(size <= EVENT_BYTES);
    FUZZ_CHECK(data[size] == 0);
    FUZZ_CHECK(cr_buf_add_char(log, kind) == 0);
    FUZZ_CHECK(cr_buf_add(log, data, size) == 0);
    return 0;
}

static int on_event(void *user, char *data, size_t size, bool is_cut)
{
    return note(user, is_cut ? 'C' : 'E', data, size);
}

static int on_unframed(void *user, char *data, size_t size)
{
    return note(user, 'U', data, size);
}

/* Returns what the feed returned last. */
static int run(const uint8_t *data, size_t size, size_t step, struct cr_buf *log)
{
    const struct agt_sse_handlers handlers = {
        .on_event = on_event, .on_unframed = on_unframed, .user = log};
    struct agt_sse sse;
    int r = 0;

    cr_buf_init(log, (size_t)1 << 20);
    agt_sse_init(&sse, EVENT_BYTES, &handlers);
    for (size_t at = 0; at < size && r == 0; at += step)
        r = agt_sse_feed(&sse, data + at, size - at < step ? size - at : step);
    if (r == 0)
        r = agt_sse_end(&sse);
    agt_sse_done(&sse);
    return r;
}

/* However the bytes are cut, the events are the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CR_AUTO_BUF struct cr_buf whole = {0};
    CR_AUTO_BUF struct cr_buf pieces = {0};
    size_t step;

    if (size < 2)
        return 0;
    step = data[0] % 16 + 1;
    FUZZ_CHECK(run(data + 1, size - 1, size, &whole) == run(data + 1, size - 1, step, &pieces));
    FUZZ_CHECK(whole.size == pieces.size);
    FUZZ_CHECK(whole.size == 0 || memcmp(whole.data, pieces.data, whole.size) == 0);
    return 0;
}
