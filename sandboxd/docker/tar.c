/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/tar.h"

#include "common/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 512U
#define SIZE_MAX_BYTES (64U << 20)

struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char rest[247];
};

_Static_assert(sizeof(struct header) == BLOCK, "one block");

static int pad(struct cr_buf *tar, size_t size)
{
    static const char zeros[BLOCK];

    return size % BLOCK == 0 ? 0 : cr_buf_add(tar, zeros, BLOCK - size % BLOCK);
}

int sbx_tar_add(struct cr_buf *tar, const char *name, unsigned int mode, const void *data,
                size_t size)
{
    struct header header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    unsigned int sum = 0;
    int r;

    if (strlen(name) >= sizeof(header.name) || size > SIZE_MAX_BYTES)
        return -EINVAL;
    memcpy(header.name, name, strlen(name));
    (void)snprintf(header.mode, sizeof(header.mode), "%07o", mode & 07777);
    (void)snprintf(header.uid, sizeof(header.uid), "%07o", 0U);
    (void)snprintf(header.gid, sizeof(header.gid), "%07o", 0U);
    (void)snprintf(header.size, sizeof(header.size), "%011zo", size);
    (void)snprintf(header.mtime, sizeof(header.mtime), "%011o", 0U); /* the same bytes each time */
    memset(header.checksum, ' ', sizeof(header.checksum));
    for (size_t i = 0; i < sizeof(header); i++)
        sum += ((const unsigned char *)&header)[i];
    (void)snprintf(header.checksum, sizeof(header.checksum), "%06o", sum & 0777777);
    r = cr_buf_add(tar, &header, sizeof(header));
    if (r == 0 && size > 0)
        r = cr_buf_add(tar, data, size);
    return r < 0 ? r : pad(tar, size);
}

int sbx_tar_end(struct cr_buf *tar)
{
    static const char zeros[2 * BLOCK];

    return cr_buf_add(tar, zeros, sizeof(zeros));
}
