/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/payload.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/wire/glob.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/mman.h>

#define PATH_COMPONENTS_MAX 16U
#define PATH_COMPONENT_MAX 255U
#define FILE_MODE_MAX 0777U

_Static_assert(sizeof(struct sbx_payload_header) == 16, "payload layout");
_Static_assert(sizeof(struct sbx_payload_record) == 24, "payload layout");

int sbx_payload_begin(struct cr_buf *buf)
{
    const struct sbx_payload_header header = {.magic = SBX_PAYLOAD_MAGIC};

    return cr_buf_add(buf, &header, sizeof(header));
}

int sbx_payload_add(struct cr_buf *buf, enum sbx_payload_kind kind, uint32_t flags, uint32_t mode,
                    const void *name, size_t name_size, const void *data, size_t data_size)
{
    const struct sbx_payload_record record = {.kind = (uint32_t)kind,
                                              .flags = flags,
                                              .mode = mode,
                                              .name_size = (uint32_t)name_size,
                                              .data_size = data_size};
    const size_t before = buf->size;
    struct sbx_payload_header header;
    int r;

    memcpy(&header, buf->data, sizeof(header));
    if (name_size > SBX_PAYLOAD_NAME_MAX || header.record_count == SBX_PAYLOAD_RECORDS_MAX)
        return -ENOSPC;
    r = cr_buf_add(buf, &record, sizeof(record));
    if (r == 0)
        r = cr_buf_add(buf, name, name_size);
    if (r == 0)
        r = cr_buf_add(buf, data, data_size);
    if (r < 0) {
        buf->size = before;
        buf->data[before] = 0;
        return r;
    }
    header.record_count++;
    memcpy(buf->data, &header, sizeof(header));
    return 0;
}

void sbx_payload_end(struct cr_buf *buf)
{
    struct sbx_payload_header header;

    memcpy(&header, buf->data, sizeof(header));
    header.size = buf->size;
    memcpy(buf->data, &header, sizeof(header));
}

static int write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);

        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

int sbx_payload_seal(const struct cr_buf *buf, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0)
        return cr_err_sys(err, errno, "create the payload memfd");
    r = write_all(fd, buf->data, buf->size);
    if (r < 0)
        return cr_err_sys(err, -r, "write %zu bytes of payload", buf->size);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "seal the payload");
    return cr_take_fd(&fd);
}

int sbx_payload_open(struct sbx_payload_reader *reader, const void *data, size_t size)
{
    struct sbx_payload_header header;

    if (size < sizeof(header) || size > SBX_PAYLOAD_MAX)
        return -EPROTO;
    memcpy(&header, data, sizeof(header));
    if (header.magic != SBX_PAYLOAD_MAGIC || header.size != size ||
        header.record_count > SBX_PAYLOAD_RECORDS_MAX)
        return -EPROTO;
    *reader = (struct sbx_payload_reader){
        .data = data, .size = size, .at = sizeof(header), .left = header.record_count};
    return 0;
}

static bool has_byte(const void *data, size_t size, char byte)
{
    return size > 0 && memchr(data, byte, size);
}

uint32_t sbx_payload_glob_files(const struct sbx_payload_item *item)
{
    uint32_t files = 0;

    if (item->record.flags & SBX_PAYLOAD_COLLECT_GLOB)
        memcpy(&files, item->data, sizeof(files));
    return files;
}

static bool is_collect_valid(const struct sbx_payload_item *item)
{
    const struct sbx_payload_record *record = &item->record;

    if (record->flags & ~(SBX_PAYLOAD_COLLECT_REQUIRED | SBX_PAYLOAD_COLLECT_GLOB))
        return false;
    if (!(record->flags & SBX_PAYLOAD_COLLECT_GLOB))
        return record->data_size == 0 && sbx_path_is_safe(item->name, record->name_size);
    return record->data_size == sizeof(uint32_t) && sbx_payload_glob_files(item) > 0 &&
           sbx_payload_glob_files(item) <= SBX_PAYLOAD_GLOB_FILES_MAX &&
           !sbx_glob_problem(item->name, record->name_size);
}

/* What each kind of record may hold. */
static bool is_item_valid(const struct sbx_payload_item *item)
{
    const struct sbx_payload_record *record = &item->record;
    const size_t data_size = (size_t)record->data_size;

    switch ((enum sbx_payload_kind)record->kind) {
    case SBX_PAYLOAD_ARG:
        return record->flags == 0 && record->mode == 0 && record->name_size == 0 &&
               !has_byte(item->data, data_size, '\0');
    case SBX_PAYLOAD_ENV:
        return record->flags == 0 && record->mode == 0 && record->name_size > 0 &&
               !has_byte(item->name, record->name_size, '\0') &&
               !has_byte(item->name, record->name_size, '=') &&
               !has_byte(item->data, data_size, '\0');
    case SBX_PAYLOAD_FILE:
        return record->flags <= SBX_PAYLOAD_FILE_REPLACE && record->mode <= FILE_MODE_MAX &&
               sbx_path_is_safe(item->name, record->name_size);
    case SBX_PAYLOAD_COLLECT:
        return is_collect_valid(item);
    case SBX_PAYLOAD_KIND_END:
        break;
    }
    return false;
}

int sbx_payload_next(struct sbx_payload_reader *reader, struct sbx_payload_item *ret_item)
{
    struct sbx_payload_item item;
    size_t left = reader->size - reader->at;

    if (reader->left == 0)
        return left == 0 ? 0 : -EPROTO;
    if (left < sizeof(item.record))
        return -EPROTO;
    memcpy(&item.record, reader->data + reader->at, sizeof(item.record));
    left -= sizeof(item.record);
    if (item.record.name_size > SBX_PAYLOAD_NAME_MAX || item.record.name_size > left ||
        item.record.data_size > left - item.record.name_size)
        return -EPROTO;
    item.name = (const char *)reader->data + reader->at + sizeof(item.record);
    item.data = (const uint8_t *)item.name + item.record.name_size;
    if (!is_item_valid(&item))
        return -EPROTO;
    reader->at += sizeof(item.record) + item.record.name_size + (size_t)item.record.data_size;
    reader->left--;
    *ret_item = item;
    return 1;
}

static bool is_component_safe(const char *component, size_t size)
{
    if (size == 0 || size > PATH_COMPONENT_MAX)
        return false;
    if (component[0] == '.' && (size == 1 || (size == 2 && component[1] == '.')))
        return false;
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)component[i];

        if (byte < ' ' || byte == 0x7f)
            return false;
    }
    return true;
}

bool sbx_path_is_safe(const char *path, size_t size)
{
    size_t components = 0;
    size_t start = 0;

    if (size == 0 || size > SBX_PAYLOAD_NAME_MAX)
        return false;
    for (size_t i = 0; i <= size; i++) {
        if (i < size && path[i] != '/')
            continue;
        if (++components > PATH_COMPONENTS_MAX || !is_component_safe(path + start, i - start))
            return false;
        start = i + 1;
    }
    return true;
}
