/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/collect_walk.h"

#include "common/auto.h"
#include "sandboxd/wire/glob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OPEN_RETRIES 8
/* More than the largest workspace has inodes: only links of one file to many names get there. */
#define ENTRIES_MAX 200000U
#define FOLDERS_BYTES (8U << 20) /* of paths of folders that wait to be looked into */
#define ENTRIES_BYTES (64U << 10)
#define PATH_ROOM (SBX_PAYLOAD_NAME_MAX + 1)

struct sbx_walk {
    const char *pattern; /* NULL: looks for a size */
    size_t pattern_size;
    uint32_t most;
    bool is_whole;
    uint64_t size; /* of the file that is looked for */
    bool has_size;
    uint32_t seen; /* entries of folders */
    /* Folders, as strings one behind the other: looked into from `next` on, added at `end`. */
    size_t next;
    size_t end;
    char folders[FOLDERS_BYTES];
    /* Matches, sorted; each is an index of `paths`. One place more than `most` is ever needed. */
    uint32_t count;
    uint32_t order[SBX_PAYLOAD_GLOB_FILES_MAX + 1];
    char paths[SBX_PAYLOAD_GLOB_FILES_MAX + 1][PATH_ROOM];
    _Alignas(struct dirent64) char entries[ENTRIES_BYTES];
};

struct sbx_walk *sbx_walk_new(void)
{
    void *walk = mmap(NULL, sizeof(struct sbx_walk), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return walk == MAP_FAILED ? NULL : walk;
}

int sbx_open_beneath(int folder_fd, const char *path, uint64_t flags)
{
    const struct open_how how = {
        .flags = flags | O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    long fd = -1;

    for (int i = 0; i < OPEN_RETRIES; i++) {
        fd = syscall(SYS_openat2, folder_fd, path, &how, sizeof(how));
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) /* EAGAIN: a rename anywhere */
            break;
    }
    return fd < 0 ? -errno : (int)fd;
}

static void add_folder(struct sbx_walk *walk, const char *path, size_t size)
{
    if (size + 1 > FOLDERS_BYTES - walk->end) {
        walk->is_whole = false;
        return;
    }
    memcpy(walk->folders + walk->end, path, size + 1);
    walk->end += size + 1;
}

/* Keeps the first `most` by the order of their bytes. */
static void add_match(struct sbx_walk *walk, const char *path, size_t size)
{
    uint32_t at = walk->count;
    uint32_t slot = at;

    if (walk->count == walk->most) {
        walk->is_whole = false;
        at = walk->count - 1;
        slot = walk->order[at];
        if (strcmp(path, walk->paths[slot]) > 0)
            return;
    } else {
        walk->count++;
    }
    memcpy(walk->paths[slot], path, size + 1);
    for (; at > 0 && strcmp(path, walk->paths[walk->order[at - 1]]) < 0; at--)
        walk->order[at] = walk->order[at - 1];
    walk->order[at] = slot;
}

/* "folder/name", or "name" in the workspace itself; returns its size, 0 when it is too long. */
static size_t join(const char *folder, const char *name, char path[PATH_ROOM])
{
    const int size = snprintf(path, PATH_ROOM, "%s%s%s", folder, *folder != '\0' ? "/" : "", name);

    return size > 0 && (size_t)size < PATH_ROOM ? (size_t)size : 0;
}

static void look_at_file(struct sbx_walk *walk, int folder_fd, const char *name, const char *path,
                         size_t size)
{
    struct stat info;

    if (walk->pattern) {
        if (sbx_glob_matches(walk->pattern, walk->pattern_size, path, size))
            add_match(walk, path, size);
    } else if (fstatat(folder_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        walk->has_size = walk->has_size || (uint64_t)info.st_size == walk->size;
    }
}

static void look_at(struct sbx_walk *walk, int folder_fd, const char *folder,
                    const struct dirent64 *entry)
{
    const char *name = entry->d_name;
    char path[PATH_ROOM];
    size_t size;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return;
    size = join(folder, name, path);
    /* What has no name in the contract can neither be given nor lead to something that can. */
    if (size == 0 || !sbx_glob_may_give(path, size))
        return;
    if (entry->d_type == DT_DIR)
        add_folder(walk, path, size);
    else if (entry->d_type == DT_REG)
        look_at_file(walk, folder_fd, name, path, size);
}

/* Returns false when there is too much to go on. */
static bool look_into(struct sbx_walk *walk, int workspace_fd, const char *folder)
{
    CR_AUTO_CLOSE int fd = sbx_open_beneath(workspace_fd, *folder ? folder : ".", O_DIRECTORY);

    for (;;) {
        const long size =
            fd < 0 ? 0 : syscall(SYS_getdents64, fd, walk->entries, sizeof(walk->entries));

        if (size <= 0)
            return true; /* its end, or a folder that even its owner may not read */
        for (long at = 0; at < size;) {
            const struct dirent64 *entry = (const void *)(walk->entries + at);

            if (++walk->seen > ENTRIES_MAX) {
                walk->is_whole = false;
                return false;
            }
            look_at(walk, fd, folder, entry);
            at += entry->d_reclen;
        }
    }
}

static void walk_all(struct sbx_walk *walk, int workspace_fd)
{
    walk->is_whole = true;
    walk->has_size = false;
    walk->seen = 0;
    walk->count = 0;
    walk->next = 0;
    walk->end = 0;
    add_folder(walk, "", 0);
    while (walk->next < walk->end) {
        const char *folder = walk->folders + walk->next;

        walk->next += strlen(folder) + 1;
        if (!look_into(walk, workspace_fd, folder))
            break;
    }
}

void sbx_walk_match(struct sbx_walk *walk, int workspace_fd, const char *pattern, size_t size,
                    uint32_t most, bool *ret_is_whole)
{
    walk->pattern = pattern;
    walk->pattern_size = size;
    walk->most = most;
    walk_all(walk, workspace_fd);
    *ret_is_whole = walk->is_whole;
}

bool sbx_walk_has_size(struct sbx_walk *walk, int workspace_fd, uint64_t size)
{
    walk->pattern = NULL;
    walk->size = size;
    walk_all(walk, workspace_fd);
    return walk->has_size;
}

uint32_t sbx_walk_count(const struct sbx_walk *walk)
{
    return walk->count;
}

const char *sbx_walk_path(const struct sbx_walk *walk, uint32_t index)
{
    return walk->paths[walk->order[index]];
}
