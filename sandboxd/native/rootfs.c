/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/rootfs.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/etc_files.h"
#include "sandboxd/wire/msg.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* Where the etc of an image lies: as deep as /etc is, so that relative links in it still fit. */
#define EXTRA_DEVICE "dev/kmsg"
#define IMAGE_ETC ".etc"
#define IMAGE_ETC_MAX 4096

/* Any folder that every host has: our own tmpfs goes on top of it while we build. */
#define BUILD_POINT "/tmp"
#define CACHE_MAX (8U << 20)

static const struct {
    const char *path;
    mode_t mode;
} folders[] = {
    {"dev", 0755},    {"dev/shm", 0755}, {"etc", 0755},     {"etc/alternatives", 0755},
    {"home", 0755},   {"proc", 0555},    {"run", 0755},     {"tmp", 0755},
    {"usr", 0755},    {"var", 0755},     {"var/tmp", 0755}, {"workspace", 0755},
    {".empty", 0555},
};

static const struct {
    const char *name;
    unsigned int minor; /* all are of major 1 */
} nodes[] = {
    {"dev/null", 3}, {"dev/zero", 5}, {"dev/full", 7}, {"dev/random", 8}, {"dev/urandom", 9},
};

static const struct {
    const char *name;
    const char *target;
} links[] = {
    {"dev/fd", "/proc/self/fd"},
    {"dev/stdin", "/proc/self/fd/0"},
    {"dev/stdout", "/proc/self/fd/1"},
    {"dev/stderr", "/proc/self/fd/2"},
};

static const struct {
    const char *name;
    const char *text;
} files[] = {
    {"etc/passwd", SBX_ETC_PASSWD},
    {"etc/group", SBX_ETC_GROUP},
    {"etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
};

/* Covered in the host's /usr: what an operator put there is not part of the policy. */
static const char *const covered[] = {"usr/local", "usr/src"};

/* Top folders that are links into /usr on a merged host and real folders on an older one. */
static const char *const library_folders[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* What the boxes' root is made from: the host's root, or an operator's folder. */
struct source {
    int fd;
    bool is_image;
};

/* Follows links inside the source only: an image may hold any. */
static int open_inside(const struct source *source, const char *name, int flags)
{
    struct open_how how = {
        .flags = (unsigned int)(flags | O_CLOEXEC),
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, source->fd, name, &how, sizeof(how));
}

static int write_file(int root, const char *name, const void *data, size_t size, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd =
        openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);

    if (fd < 0)
        return cr_err_sys(err, errno, "make /%s", name);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)data + done, size - done);

        if (n < 0)
            return cr_err_sys(err, errno, "write /%s", name);
        done += (size_t)n;
    }
    return 0;
}

/* What is at /`name`, on the same place in the new root, with `attributes`. */
static int bind_own(int root, const char *name, uint64_t attributes, struct cr_err *err)
{
    struct mount_attr attr = {.attr_set = attributes};
    CR_AUTO_CLOSE int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CR_AUTO_CLOSE int tree =
        open_tree(slash, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    if (tree < 0)
        return cr_err_sys(err, errno, "open '/%s' for a bind mount", name);
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return cr_err_sys(err, errno, "restrict '/%s'", name);
    if (move_mount(tree, "", root, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return cr_err_sys(err, errno, "bind '/%s'", name);
    return 0;
}

/*
 * In a user namespace, as of a pod, the kernel makes no devices: those of our
 * /dev are bound, when they are what they are called. Nor does it mount a /proc
 * where none is that shows everything (mount_too_revealing in fs/namespace.c):
 * the boxes mount theirs on ours, which they cannot lift off.
 */
static int borrow_devices(int root, struct cr_err *err)
{
    int r = bind_own(root, "proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, err);

    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(nodes); i++) {
        struct stat info;

        r = write_file(root, nodes[i].name, "", 0, err);
        if (r == 0)
            r = bind_own(root, nodes[i].name,
                         MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
        if (r == 0 && (fstatat(root, nodes[i].name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
                       !S_ISCHR(info.st_mode) || info.st_rdev != makedev(1, nodes[i].minor)))
            r = cr_err_set(err, ENODEV, "'/%s' is not the device of that name", nodes[i].name);
    }
    return r;
}

static int make_devices(int root, struct cr_err *err)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(nodes); i++) {
        if (mknodat(root, nodes[i].name, S_IFCHR | 0666, makedev(1, nodes[i].minor)) == 0)
            continue;
        if (errno == EPERM && i == 0)
            return borrow_devices(root, err);
        return cr_err_sys(err, errno, "make the device node /%s (CAP_MKNOD is needed)",
                          nodes[i].name);
    }
    return 0;
}

static int make_tree(int root, struct cr_err *err)
{
    int r;

    for (size_t i = 0; i < CR_ARRAY_SIZE(folders); i++) {
        if (mkdirat(root, folders[i].path, folders[i].mode) < 0)
            return cr_err_sys(err, errno, "make /%s", folders[i].path);
    }
    r = make_devices(root, err);
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(links); i++) {
        if (symlinkat(links[i].target, root, links[i].name) < 0)
            return cr_err_sys(err, errno, "make /%s", links[i].name);
    }
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(files); i++)
        r = write_file(root, files[i].name, files[i].text, strlen(files[i].text), err);
    return r;
}

/* A bind mount of the folder `from_fd`/`from`, which is no link, on `to` in the new root. */
static int bind(int from_fd, const char *from, int root, const char *to, bool allow_exec,
                struct cr_err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (allow_exec ? 0U : MOUNT_ATTR_NOEXEC)};
    CR_AUTO_CLOSE int tree =
        open_tree(from_fd, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

    if (tree < 0)
        return cr_err_sys(err, errno, "open '%s' for a bind mount", from);
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return cr_err_sys(err, errno, "make '%s' read-only", from);
    if (move_mount(tree, "", root, to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return cr_err_sys(err, errno, "bind '%s'", from);
    return 0;
}

static int bind_usr(const struct source *source, int root, struct cr_err *err)
{
    int r = bind(source->fd, "usr", root, "usr", true, err);

    for (size_t i = 0; r == 0 && !source->is_image && i < CR_ARRAY_SIZE(covered); i++) {
        if (faccessat(root, covered[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            r = bind(root, ".empty", root, covered[i], false, err);
    }
    return r;
}

static int add_folder(int host, int root, const char *name, struct cr_err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(host, name, target, sizeof(target) - 1);

    if (n >= 0) {
        target[n] = '\0';
        if (symlinkat(target, root, name) < 0)
            return cr_err_sys(err, errno, "make the link /%s", name);
        return 0;
    }
    if (errno == ENOENT)
        return 0;
    if (mkdirat(root, name, 0755) < 0)
        return cr_err_sys(err, errno, "make /%s", name);
    return bind(host, name, root, name, true, err);
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): this process has one thread
}

/* /usr/bin/awk and libraries like BLAS are links through here. Only the links are copied. */
static int copy_alternatives(const struct source *source, int root, struct cr_err *err)
{
    int fd = open_inside(source, "etc/alternatives", O_DIRECTORY | O_RDONLY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    CR_AUTO_CLOSE int to =
        openat(root, "etc/alternatives", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = 0;

    if (!dir) {
        cr_close_fd(&fd);
        return 0; /* a host without alternatives */
    }
    for (const struct dirent *entry = next_entry(dir); r == 0 && entry; entry = next_entry(dir)) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(fd, entry->d_name, target, sizeof(target) - 1);

        if (n < 0)
            continue;
        target[n] = '\0';
        if (symlinkat(target, to, entry->d_name) < 0)
            r = cr_err_sys(err, errno, "copy /etc/alternatives/%s", entry->d_name);
    }
    (void)closedir(dir);
    return r;
}

/* Without its cache the dynamic linker searches only its built-in folders. */
static int copy_linker_cache(const struct source *source, int root, struct cr_err *err)
{
    CR_AUTO_CLOSE int from = open_inside(source, "etc/ld.so.cache", O_RDONLY | O_NONBLOCK);
    CR_AUTO_FREE char *data = NULL;
    struct stat stat;
    ssize_t n;

    if (from < 0)
        return 0;
    if (fstat(from, &stat) < 0 || !S_ISREG(stat.st_mode) || stat.st_size > (off_t)CACHE_MAX)
        return cr_err_set(err, EINVAL, "/etc/ld.so.cache is no file of a usual size");
    data = malloc((size_t)stat.st_size + 1);
    if (!data)
        return cr_err_sys(err, ENOMEM, "copy /etc/ld.so.cache");
    n = read(from, data, (size_t)stat.st_size);
    if (n < 0)
        return cr_err_sys(err, errno, "read /etc/ld.so.cache");
    return write_file(root, "etc/ld.so.cache", data, (size_t)n, err);
}

static int link_image_entries(DIR *dir, int etc, struct cr_err *err)
{
    int count = 0;

    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir)) {
        char target[sizeof("/" IMAGE_ETC "/") + NAME_MAX];

        if (++count > IMAGE_ETC_MAX)
            return cr_err_set(err, E2BIG, "its etc has more than %d entries", IMAGE_ETC_MAX);
        (void)snprintf(target, sizeof(target), "/" IMAGE_ETC "/%s", entry->d_name);
        /* What is there already is ours: users, hosts, the linker's cache, alternatives. */
        if (symlinkat(target, etc, entry->d_name) < 0 && errno != EEXIST)
            return cr_err_sys(err, errno, "link an entry of its etc");
    }
    return 0;
}

/* Programs of an image look for their settings in its etc: each of its entries is a link to there.
 */
static int add_image_etc(const struct source *source, int root, struct cr_err *err)
{
    CR_AUTO_CLOSE int etc = openat(root, "etc", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir;
    int fd;
    int r;

    fd = openat(source->fd, "etc", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : cr_err_sys(err, errno, "open its etc");
    dir = fdopendir(fd);
    if (!dir) {
        r = cr_err_sys(err, errno, "read its etc");
        (void)close(fd);
        return r;
    }
    r = mkdirat(root, IMAGE_ETC, 0755) < 0 ? cr_err_sys(err, errno, "make /" IMAGE_ETC) : 0;
    if (r == 0)
        r = bind(source->fd, "etc", root, IMAGE_ETC, false, err);
    if (r == 0)
        r = link_image_entries(dir, etc, err);
    (void)closedir(dir);
    return r;
}

/*
 * Settings of the packages in /usr, without which these do not start. Nothing
 * else of the host's /etc is anybody's business.
 */
static int add_host_etc(const struct source *source, int root, struct cr_err *err)
{
    static const char prefix[] = "java-"; /* java-17-openjdk: the JDK's conf is a link to there */
    int fd = open_inside(source, "etc", O_DIRECTORY | O_RDONLY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return 0;
    }
    for (const struct dirent *entry = next_entry(dir); r == 0 && entry; entry = next_entry(dir)) {
        char to[sizeof("etc/") + NAME_MAX];

        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || entry->d_type != DT_DIR)
            continue;
        (void)snprintf(to, sizeof(to), "etc/%s", entry->d_name);
        r = mkdirat(root, to, 0755) < 0 ? cr_err_sys(err, errno, "make /%s", to)
                                        : bind(fd, entry->d_name, root, to, false, err);
    }
    (void)closedir(dir);
    return r;
}

static int fill(const struct source *source, int root, struct cr_err *err)
{
    int r = make_tree(root, err);

    if (r == 0)
        r = bind_usr(source, root, err);
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(library_folders); i++)
        r = add_folder(source->fd, root, library_folders[i], err);
    if (r == 0)
        r = copy_alternatives(source, root, err);
    if (r == 0)
        r = copy_linker_cache(source, root, err);
    if (r == 0 && source->is_image)
        r = add_folder(source->fd, root, "opt", err);
    if (r == 0)
        r = source->is_image ? add_image_etc(source, root, err) : add_host_etc(source, root, err);
    return r;
}

/* One that must not be there, for the self-test; closed to everybody but root. Who may make none
 * makes a file of that name. */
static int add_device(int root, struct cr_err *err)
{
    if (mknodat(root, EXTRA_DEVICE, S_IFCHR | 0600, makedev(1, 11)) == 0)
        return 0;
    if (errno != EPERM)
        return cr_err_sys(err, errno, "make the device node /" EXTRA_DEVICE);
    return write_file(root, EXTRA_DEVICE, "", 0, err);
}

/* pivot_root(".", "."): the old root comes to lie on the new one and is detached (pivot_root(2)).
 */
static int enter(int root, bool allow_write, struct cr_err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC |
                                          (allow_write ? 0U : MOUNT_ATTR_RDONLY)};

    if (fchdir(root) < 0)
        return cr_err_sys(err, errno, "enter the new root");
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return cr_err_sys(err, errno, "pivot_root");
    if (umount2(".", MNT_DETACH) < 0)
        return cr_err_sys(err, errno, "detach the old root");
    if (chdir("/") < 0)
        return cr_err_sys(err, errno, "enter the new root");
    if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
        return cr_err_sys(err, errno, "make the new root read-only");
    return 0;
}

int sbx_rootfs_open(const char *folder, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat stat;

    if (fd < 0)
        return cr_err_sys(err, errno, "open the folder");
    if (fstat(fd, &stat) < 0)
        return cr_err_sys(err, errno, "look at the folder");
    if (stat.st_uid != 0 || (stat.st_mode & (S_IWGRP | S_IWOTH)))
        return cr_err_set(err, EPERM,
                          "the folder must be root's and writable by root "
                          "only, as who can write it decides what is run");
    if (fstatat(fd, "usr", &stat, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(stat.st_mode))
        return cr_err_set(err, ENOENT,
                          "the folder has no folder usr, so it is no root "
                          "file system; unpack an image or a tree of packages there");
    return cr_take_fd(&fd);
}

static int open_host(struct cr_err *err)
{
    int fd = open("/", O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    return fd < 0 ? cr_err_sys(err, errno, "open the host's root") : fd;
}

int sbx_rootfs_enter(const char *folder, uint32_t weakened, struct cr_err *err)
{
    bool is_image = folder && *folder;
    CR_AUTO_CLOSE int from = -1;
    CR_AUTO_CLOSE int root = -1;
    mode_t mask;
    int r;

    if (unshare(CLONE_NEWNS) < 0)
        return cr_err_sys(err, errno, "make a mount namespace (CAP_SYS_ADMIN is needed)");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return cr_err_sys(err, errno, "make the mounts private");
    from = is_image ? sbx_rootfs_open(folder, err) : open_host(err);
    if (from < 0)
        return from;
    if (mount("crisol", BUILD_POINT, "tmpfs", MS_NOSUID | MS_NOEXEC,
              "size=16m,nr_inodes=8192,mode=0755") < 0)
        return cr_err_sys(err, errno, "mount the tmpfs of the root file system");
    root = openat(AT_FDCWD, BUILD_POINT, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (root < 0)
        return cr_err_sys(err, errno, "open the new root");
    mask = umask(0);
    r = fill(&(struct source){.fd = from, .is_image = is_image}, root, err);
    if (r == 0 && weakened == SBX_CONTROL_DEV)
        r = add_device(root, err);
    (void)umask(mask);
    return r < 0 ? r : enter(root, weakened == SBX_CONTROL_ROOTFS, err);
}
