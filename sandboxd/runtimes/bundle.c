/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/runtimes/bundle.h"

#include "common/buf.h"
#include "common/err.h"

#include <string.h>

int sbx_bundle_add(struct cr_buf *bundle, const char *file, const char *text, size_t size,
                   const char *root)
{
    struct sbx_bundle_header header = {
        .name_size = (uint32_t)strlen(file),
        .text_size = (uint32_t)size,
    };
    int r;

    if (header.name_size > SBX_RUNTIME_FILE_NAME_MAX || size > SBX_RUNTIME_FILE_MAX)
        return -ENOSPC;
    if (root && strlen(root) < sizeof(header.root))
        memcpy(header.root, root, strlen(root));
    r = cr_buf_add(bundle, &header, sizeof(header));
    if (r == 0)
        r = cr_buf_add(bundle, file, header.name_size);
    return r == 0 ? cr_buf_add(bundle, text, size) : r;
}

int sbx_bundle_read(const void *data, size_t size, struct sbx_runtime_table *table,
                    struct cr_err *err)
{
    const char *at = data;

    while (size > 0) {
        char name[SBX_RUNTIME_FILE_NAME_MAX + 1] = "";
        struct sbx_bundle_header header;
        int r;

        if (size < sizeof(header))
            return cr_err_set(err, EPROTO, "the runtimes are cut short");
        memcpy(&header, at, sizeof(header));
        at += sizeof(header);
        size -= sizeof(header);
        if (header.name_size > SBX_RUNTIME_FILE_NAME_MAX ||
            header.text_size > SBX_RUNTIME_FILE_MAX || size < header.name_size + header.text_size)
            return cr_err_set(err, EPROTO, "the runtimes are cut short");
        if (memchr(header.root, '\0', sizeof(header.root)) == NULL)
            return cr_err_set(err, EPROTO, "the runtimes are not as they were written");
        memcpy(name, at, header.name_size);
        r = sbx_runtime_table_add(table, name, at + header.name_size, header.text_size, header.root,
                                  err);
        if (r < 0)
            return r;
        at += header.name_size + header.text_size;
        size -= header.name_size + header.text_size;
    }
    return 0;
}
