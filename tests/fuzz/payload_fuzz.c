/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "sandboxd/wire/payload.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* A path that was let through stays below the folder it is opened in. */
static void check_path(const char *path, size_t size)
{
    char text[SBX_PAYLOAD_NAME_MAX + 3];

    FUZZ_CHECK(size > 0 && size <= SBX_PAYLOAD_NAME_MAX && !memchr(path, 0, size));
    text[0] = '/';
    memcpy(text + 1, path, size);
    text[size + 1] = '/';
    text[size + 2] = 0;
    FUZZ_CHECK(!strstr(text, "//") && !strstr(text, "/./") && !strstr(text, "/../"));
}

static void check_item(const struct sbx_payload_item *item, const uint8_t *data, size_t size)
{
    const uint8_t *name = (const uint8_t *)item->name;

    FUZZ_CHECK(name >= data && name + item->record.name_size == item->data);
    FUZZ_CHECK(item->record.data_size <= size &&
               item->data + item->record.data_size <= data + size);
    if (item->record.kind == SBX_PAYLOAD_FILE || item->record.kind == SBX_PAYLOAD_COLLECT)
        check_path(item->name, item->record.name_size);
    else
        FUZZ_CHECK(!memchr(item->data, 0, (size_t)item->record.data_size));
}

/* There is one way to write a payload down: what is read to its end, written again, is the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CR_AUTO_BUF struct cr_buf again = {0};
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;
    int r;

    if (sbx_payload_open(&reader, data, size) < 0)
        return 0;
    cr_buf_init(&again, SBX_PAYLOAD_MAX);
    FUZZ_CHECK(sbx_payload_begin(&again) == 0);
    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        check_item(&item, data, size);
        FUZZ_CHECK(sbx_payload_add(&again, (enum sbx_payload_kind)item.record.kind,
                                   item.record.flags, item.record.mode, item.name,
                                   item.record.name_size, item.data,
                                   (size_t)item.record.data_size) == 0);
    }
    if (r < 0)
        return 0;
    sbx_payload_end(&again);
    FUZZ_CHECK(again.size == size && memcmp(again.data, data, size) == 0);
    return 0;
}
