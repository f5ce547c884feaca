/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/room.h"

#include "common/err.h"

#include <sys/statvfs.h>

#define KEPT_PART 4U

int sbx_room_measure(const char *folder, struct sbx_room *ret_room, struct cr_err *err)
{
    struct statvfs stat;
    uint64_t bytes;

    if (statvfs(folder, &stat) < 0)
        return cr_err_sys(err, errno, "ask how much is free in '%s'", folder);
    bytes = (uint64_t)stat.f_bavail * stat.f_frsize;
    *ret_room = (struct sbx_room){.most_bytes = bytes - bytes / KEPT_PART,
                                  .least_bytes = bytes / KEPT_PART,
                                  .least_files = stat.f_favail / KEPT_PART};
    return 0;
}

bool sbx_room_is_used_up(const struct sbx_room *room, const char *folder)
{
    struct statvfs stat;

    return statvfs(folder, &stat) == 0 &&
           ((uint64_t)stat.f_bavail * stat.f_frsize < room->least_bytes ||
            stat.f_favail < room->least_files);
}
