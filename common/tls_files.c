/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls_files.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/hash.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>

#define READ_TRIES 3

static const char *const part_names[CR_TLS_PART_COUNT] = {"certificate", "key", "authority"};

/* At the begin of the memfd; the parts follow, each as long as its size says. */
struct header {
    uint32_t size[CR_TLS_PART_COUNT];
};

static bool is_named(const struct cr_tls_paths *paths, size_t part)
{
    return paths->path[part] && paths->path[part][0];
}

uint64_t cr_tls_files_stamp(const struct cr_tls_paths *paths)
{
    uint64_t hash = CR_HASH_START;

    for (size_t i = 0; i < CR_TLS_PART_COUNT; i++) {
        struct stat info;

        if (!is_named(paths, i))
            continue;
        if (fstatat(AT_FDCWD, paths->path[i], &info, 0) < 0)
            return 0;
        hash = cr_hash_number(hash, (uint64_t)info.st_dev);
        hash = cr_hash_number(hash, (uint64_t)info.st_ino);
        hash = cr_hash_number(hash, (uint64_t)info.st_size);
        hash = cr_hash_number(hash, (uint64_t)info.st_mtim.tv_sec);
        hash = cr_hash_number(hash, (uint64_t)info.st_mtim.tv_nsec);
    }
    return hash;
}

static int check_file(int fd, const char *name, const char *path, bool is_key, struct cr_err *err)
{
    struct stat info;

    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "look at the %s '%s'", name, path);
    if (!S_ISREG(info.st_mode))
        return cr_err_set(err, EINVAL, "the %s '%s' is not a regular file", name, path);
    /* A group may read it: so a volume of Kubernetes gives it to a process that is not root. */
    if (is_key && (info.st_mode & (S_IRWXO | S_IWGRP)))
        return cr_err_set(err, EPERM, "the %s '%s' is open to others: chmod 600 it", name, path);
    if (info.st_size > (off_t)CR_TLS_PART_MAX)
        return cr_err_set(err, EFBIG, "the %s '%s' has more than %zu bytes", name, path,
                          CR_TLS_PART_MAX);
    return 0;
}

/* Appends the file to the memfd and tells its size. */
static int copy_file(int memfd, const struct cr_tls_paths *paths, size_t part, uint32_t *ret_size,
                     struct cr_err *err)
{
    const char *path = paths->path[part];
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char chunk[4096];
    size_t total = 0;
    ssize_t size;
    int r;

    if (fd < 0)
        return cr_err_sys(err, errno, "open the %s '%s'", part_names[part], path);
    r = check_file(fd, part_names[part], path, part == CR_TLS_KEY, err);
    while (r == 0 && (size = read(fd, chunk, sizeof(chunk))) != 0) {
        if (size < 0)
            r = cr_err_sys(err, errno, "read the %s '%s'", part_names[part], path);
        else if ((total += (size_t)size) > CR_TLS_PART_MAX)
            r = cr_err_set(err, EFBIG, "the %s '%s' grows", part_names[part], path);
        else if (write(memfd, chunk, (size_t)size) != size)
            r = cr_err_sys(err, errno, "keep the %s", part_names[part]);
    }
    explicit_bzero(chunk, sizeof(chunk));
    *ret_size = (uint32_t)total;
    return r;
}

static int fill(int memfd, const struct cr_tls_paths *paths, struct cr_err *err)
{
    struct header header = {{0}};
    int r = 0;

    if (lseek(memfd, sizeof(header), SEEK_SET) < 0 || ftruncate(memfd, sizeof(header)) < 0)
        return cr_err_sys(err, errno, "keep certificates");
    for (size_t i = 0; r == 0 && i < CR_TLS_PART_COUNT; i++) {
        if (is_named(paths, i))
            r = copy_file(memfd, paths, i, &header.size[i], err);
    }
    if (r == 0 && pwrite(memfd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
        r = cr_err_sys(err, errno, "keep certificates");
    return r;
}

int cr_tls_files_open(const struct cr_tls_paths *paths, struct cr_err *err)
{
    CR_AUTO_CLOSE int memfd = memfd_create("tls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = -EAGAIN;

    if (memfd < 0)
        return cr_err_sys(err, errno, "keep certificates");
    for (int i = 0; i < READ_TRIES && r == -EAGAIN; i++) {
        uint64_t before = cr_tls_files_stamp(paths);

        r = fill(memfd, paths, err);
        if (r == 0 && cr_tls_files_stamp(paths) != before)
            r = cr_err_set(err, EAGAIN, "the certificate files change all the time");
    }
    if (r < 0)
        return r;
    if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "seal certificates");
    return cr_take_fd(&memfd);
}

static int read_header(int fd, struct header *ret_header, struct cr_err *err)
{
    struct stat info;
    uint64_t total = sizeof(*ret_header);

    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "look at certificates");
    if (pread(fd, ret_header, sizeof(*ret_header), 0) != (ssize_t)sizeof(*ret_header))
        return cr_err_set(err, EPROTO, "these are no certificates");
    for (size_t i = 0; i < CR_TLS_PART_COUNT; i++) {
        if (ret_header->size[i] > CR_TLS_PART_MAX)
            return cr_err_set(err, EPROTO, "these are no certificates");
        total += ret_header->size[i];
    }
    if ((uint64_t)info.st_size != total)
        return cr_err_set(err, EPROTO, "these are no certificates");
    return 0;
}

int cr_tls_material_read(int fd, struct cr_tls_material *ret_material, struct cr_err *err)
{
    struct cr_tls_material material = {{NULL}};
    struct header header = {{0}};
    off_t at = sizeof(header);
    int r = read_header(fd, &header, err);

    for (size_t i = 0; r == 0 && i < CR_TLS_PART_COUNT; i++) {
        size_t size = header.size[i];

        if (size == 0)
            continue;
        material.part[i] = calloc(1, size + 1);
        if (!material.part[i])
            r = cr_err_set(err, ENOMEM, "out of memory for certificates");
        else if (pread(fd, material.part[i], size, at) != (ssize_t)size)
            r = cr_err_sys(err, EIO, "read certificates");
        at += (off_t)size;
    }
    if (r < 0)
        cr_tls_material_done(&material);
    else
        *ret_material = material;
    return r;
}

void cr_tls_material_done(struct cr_tls_material *material)
{
    for (size_t i = 0; i < CR_TLS_PART_COUNT; i++) {
        if (material->part[i])
            explicit_bzero(material->part[i], strlen(material->part[i]));
        free(material->part[i]);
        material->part[i] = NULL;
    }
}
