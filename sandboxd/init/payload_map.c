/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/payload_map.h"

#include "sandboxd/wire/payload.h"

#include <errno.h>

#include <sys/mman.h>
#include <sys/stat.h>

int sbx_payload_map(int fd, struct sbx_payload_reader *ret_reader)
{
    struct stat info;
    void *data;

    if (fstat(fd, &info) < 0)
        return -errno;
    if (info.st_size <= 0 || info.st_size > (off_t)SBX_PAYLOAD_MAX)
        return -EPROTO;
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return -errno;
    return sbx_payload_open(ret_reader, data, (size_t)info.st_size);
}
