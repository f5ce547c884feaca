/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/tree.h"

#include "common/auto.h"
#include "common/err.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DEPTH_MAX 128U
#define PIECE_BYTES (64U << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

/* Nothing that is mounted in a tree belongs to it: who walks into a /dev/shm of the host would
 * empty that. -EXDEV then. */
static int open_folder(int parent_fd, const char *name)
{
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV |
                                            RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, parent_fd, name, &how, sizeof(how));
}

/* Sorted by bytes, without "." and "..". */
struct names {
    struct dirent **list;
    int count;
};

#define AUTO_NAMES __attribute__((cleanup(names_done)))

static void names_done(struct names *names)
{
    for (int i = 0; i < names->count; i++)
        free(names->list[i]);
    free((void *)names->list);
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int list_names(int folder_fd, struct names *ret_names)
{
    ret_names->count = scandirat(folder_fd, ".", &ret_names->list, is_entry, by_bytes);
    if (ret_names->count >= 0)
        return 0;
    ret_names->count = 0;
    return -errno;
}

/* ---- walking ---- */

/* A walk over all entries below a folder, each before what is below it, by the bytes of names. */
struct walk {
    int (*visit)(void *data, int folder_fd, const char *name, const struct stat *info);
    int (*leave)(void *data); /* behind the last entry of each folder; NULL: nothing */
    void *data;
};

/* Ends at the first error. */
static int walk_below(const struct walk *walk, int folder_fd, unsigned int depth)
{
    AUTO_NAMES struct names names = {0};
    int r = depth > DEPTH_MAX ? -ELOOP : list_names(folder_fd, &names);

    for (int i = 0; r == 0 && i < names.count; i++) {
        const char *name = names.list[i]->d_name;
        CR_AUTO_CLOSE int fd = -1;
        struct stat info;

        if (fstatat(folder_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        r = walk->visit(walk->data, folder_fd, name, &info);
        if (r < 0 || !S_ISDIR(info.st_mode))
            continue;
        fd = open_folder(folder_fd, name);
        r = fd < 0 ? -errno : walk_below(walk, fd, depth + 1);
    }
    return r == 0 && walk->leave ? walk->leave(walk->data) : r;
}

/* ---- removal ---- */

/* A new name in `to_fd` for a folder of `from_fd`. */
static int lift(int from_fd, const char *name, int to_fd, unsigned int *number)
{
    char lifted[32];

    do {
        (void)snprintf(lifted, sizeof(lifted), "lifted-%u", (*number)++);
        if (renameat2(from_fd, name, to_fd, lifted, RENAME_NOREPLACE) == 0)
            return 0;
    } while (errno == EEXIST);
    return -errno;
}

/* Empties a folder that is as deep as anybody goes: what is below it comes up beside it. */
static int lift_all(int from_fd, int to_fd, unsigned int *number)
{
    AUTO_NAMES struct names names = {0};
    int r = list_names(from_fd, &names);

    for (int i = 0; r == 0 && i < names.count; i++) {
        const char *name = names.list[i]->d_name;

        if (unlinkat(from_fd, name, 0) < 0)
            r = errno == EISDIR ? lift(from_fd, name, to_fd, number) : -errno;
    }
    return r;
}

static int remove_below(int folder_fd, unsigned int depth);

/* `number` counts what was lifted into the folder. */
static int remove_entry(int folder_fd, const char *name, unsigned int depth, unsigned int *number)
{
    CR_AUTO_CLOSE int fd = -1;
    int r;

    if (unlinkat(folder_fd, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    fd = open_folder(folder_fd, name);
    if (fd < 0)
        return -errno;
    r = depth < DEPTH_MAX ? remove_below(fd, depth + 1) : lift_all(fd, folder_fd, number);
    return r == 0 && unlinkat(folder_fd, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

/* However deep: a tree that is refused for its depth has to go as well. */
static int remove_below(int folder_fd, unsigned int depth)
{
    unsigned int number = 0;
    unsigned int before;
    int r;

    do {
        AUTO_NAMES struct names names = {0};

        before = number;
        r = list_names(folder_fd, &names);
        for (int i = 0; r == 0 && i < names.count; i++)
            r = remove_entry(folder_fd, names.list[i]->d_name, depth, &number);
    } while (r == 0 && number != before);
    return r;
}

int sbx_tree_remove(int folder_fd, const char *name)
{
    unsigned int number = 0;

    if (unlinkat(folder_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    return remove_entry(folder_fd, name, 0, &number);
}

/* ---- what a sandbox may have ---- */

/* Boxes have their own of these; the rest is of no use to a program. */
static const char *const useless[] = {
    "boot", "dev", "home", "media", "mnt",  "proc",       "root",      "run",
    "srv",  "sys", "tmp",  "var",   ".tmp", ".dockerenv", "workspace",
};

static int clean_one(void *data, int folder_fd, const char *name, const struct stat *info)
{
    mode_t mode = info->st_mode & 0777U & ~(mode_t)(S_IWGRP | S_IWOTH);

    (void)data;
    if (!S_ISDIR(info->st_mode) && !S_ISREG(info->st_mode) && !S_ISLNK(info->st_mode))
        return unlinkat(folder_fd, name, 0) < 0 ? -errno : 0;
    if (fchownat(folder_fd, name, 0, 0, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISLNK(info->st_mode))
        return 0;
    /* Programs are another user: what root alone may read is of no use, and none of its business.
     */
    return (info->st_mode & 07777U) != mode && fchmodat(folder_fd, name, mode, 0) < 0 ? -errno : 0;
}

int sbx_tree_clean(int root_fd, struct cr_err *err)
{
    static const struct walk walk = {.visit = clean_one};
    int r = 0;

    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(useless); i++)
        r = sbx_tree_remove(root_fd, useless[i]);
    if (r == 0)
        r = walk_below(&walk, root_fd, 0);
    if (r == 0 && (fchown(root_fd, 0, 0) < 0 || fchmod(root_fd, 0755) < 0))
        r = -errno;
    return r < 0 ? cr_err_sys(err, -r, "clean the root file system") : 0;
}

/* ---- the digest ---- */

static int add(EVP_MD_CTX *context, const void *data, size_t size)
{
    return EVP_DigestUpdate(context, data, size) ? 0 : -ENOMEM;
}

static int add_content(EVP_MD_CTX *context, int folder_fd, const char *name)
{
    CR_AUTO_CLOSE int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint8_t piece[PIECE_BYTES];

    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(fd, piece, sizeof(piece));
        int r;

        if (n <= 0)
            return n < 0 ? -errno : 0;
        r = add(context, piece, (size_t)n);
        if (r < 0)
            return r;
    }
}

static int add_target(EVP_MD_CTX *context, int folder_fd, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(folder_fd, name, target, sizeof(target));

    return n < 0 ? -errno : add(context, target, (size_t)n);
}

/* The name with its NUL, then a line of type, mode and size: no two trees have the same bytes. */
static int add_head(EVP_MD_CTX *context, const char *name, const struct stat *info)
{
    char line[64];
    const bool is_file = S_ISREG(info->st_mode);
    int n = snprintf(line, sizeof(line), "%c %04o %lld\n",
                     S_ISDIR(info->st_mode)   ? 'd'
                     : S_ISLNK(info->st_mode) ? 'l'
                                              : 'f',
                     (unsigned int)(S_ISLNK(info->st_mode) ? 0777 : info->st_mode & 07777U),
                     is_file || S_ISLNK(info->st_mode) ? (long long)info->st_size : 0LL);
    int r = add(context, name, strlen(name) + 1);

    return r == 0 ? add(context, line, (size_t)n) : r;
}

static int digest_one(void *data, int folder_fd, const char *name, const struct stat *info)
{
    EVP_MD_CTX *context = data;
    int r = add_head(context, name, info);

    if (r == 0 && S_ISREG(info->st_mode))
        return add_content(context, folder_fd, name);
    return r == 0 && S_ISLNK(info->st_mode) ? add_target(context, folder_fd, name) : r;
}

/* The end of a folder: no name is empty. */
static int digest_end(void *data)
{
    return add(data, "", 1);
}

int sbx_tree_digest(int root_fd, char ret_digest[SBX_ROOT_DIGEST_SIZE], struct cr_err *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const struct walk walk = {.visit = digest_one, .leave = digest_end, .data = context};
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    int r = -ENOMEM;

    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL))
        r = walk_below(&walk, root_fd, 0);
    if (r == 0 && !EVP_DigestFinal_ex(context, bytes, &count))
        r = -ENOMEM;
    EVP_MD_CTX_free(context);
    if (r < 0)
        return cr_err_sys(err, -r, "hash the root file system");
    for (unsigned int i = 0; i < count && 2 * i + 2 < SBX_ROOT_DIGEST_SIZE; i++)
        (void)snprintf(ret_digest + 2 * (size_t)i, 3, "%02x", bytes[i]);
    return 0;
}

static int count_one(void *data, int folder_fd, const char *name, const struct stat *info)
{
    uint64_t *sum = data;

    (void)folder_fd;
    (void)name;
    if (S_ISREG(info->st_mode))
        *sum += (uint64_t)info->st_size;
    return 0;
}

uint64_t sbx_tree_bytes(int root_fd)
{
    uint64_t sum = 0;
    const struct walk walk = {.visit = count_one, .data = &sum};

    (void)walk_below(&walk, root_fd, 0);
    return sum;
}

/* ---- layers ---- */

static int apply_whiteouts(int root_fd, const struct names *names)
{
    int r = 0;

    for (int i = 0; r == 0 && i < names->count; i++) {
        const char *name = names->list[i]->d_name;
        const char *hidden = name + strlen(WHITEOUT);

        if (strcmp(name, OPAQUE) == 0)
            r = remove_below(root_fd, 0);
        else if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
            r = *hidden && strcmp(hidden, ".") != 0 && strcmp(hidden, "..") != 0
                    ? sbx_tree_remove(root_fd, hidden)
                    : -EINVAL; /* it would leave the tree */
    }
    return r;
}

static bool is_folder(int folder_fd, const char *name)
{
    struct stat info;

    return fstatat(folder_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

static int lay_over(int root_fd, int layer_fd, unsigned int depth);

/* A folder that is there gets the mode of the layer's, and its entries. */
static int merge_folder(int root_fd, int layer_fd, const char *name, unsigned int depth)
{
    CR_AUTO_CLOSE int ours = open_folder(root_fd, name);
    CR_AUTO_CLOSE int theirs = open_folder(layer_fd, name);
    struct stat info;

    if (ours < 0 || theirs < 0 || fstat(theirs, &info) < 0 ||
        fchmod(ours, info.st_mode & 0777U) < 0)
        return -errno;
    return lay_over(ours, theirs, depth + 1);
}

static int lay_over(int root_fd, int layer_fd, unsigned int depth)
{
    AUTO_NAMES struct names names = {0};
    int r = depth > DEPTH_MAX ? -ELOOP : list_names(layer_fd, &names);

    if (r == 0)
        r = apply_whiteouts(root_fd, &names);
    for (int i = 0; r == 0 && i < names.count; i++) {
        const char *name = names.list[i]->d_name;

        if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
            continue;
        if (is_folder(layer_fd, name)) {
            /* Never moved whole: there may be whiteouts below, which mean nothing in a new one. */
            if (!is_folder(root_fd, name)) {
                r = sbx_tree_remove(root_fd, name);
                if (r == 0 && mkdirat(root_fd, name, 0755) < 0)
                    r = -errno;
            }
            if (r == 0)
                r = merge_folder(root_fd, layer_fd, name, depth);
            continue;
        }
        r = sbx_tree_remove(root_fd, name);
        if (r == 0 && renameat(layer_fd, name, root_fd, name) < 0)
            r = -errno;
    }
    return r;
}

int sbx_tree_lay_over(int root_fd, int layer_fd)
{
    return lay_over(root_fd, layer_fd, 0);
}
