/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/build.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/builder/apt.h"
#include "sandboxd/builder/archive.h"
#include "sandboxd/builder/tool.h"
#include "sandboxd/builder/tree.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define INCLUDE_MAX 8192
#define FILE_COPY_MAX (16U << 20)
#define ARGUMENT_INCLUDE "--include="
#define LOG_END_MAX 16384
#define REQUIREMENTS "/tmp/requirements.txt"
#define CERTIFICATES "/tmp/certificates.crt"
#define PIP_CONFIG "/tmp/pip.conf"
#define CERTIFICATES_LINE "PIP_CERT=/tmp/certificates.crt"
#define PIP_CONFIG_LINE "PIP_CONFIG_FILE=/tmp/pip.conf"

/* The environment of the tools: what a person's proxy and index are, see main.c. */

static int run(const struct sbx_build *build, const char *const *argv, const char *folder,
               bool is_free, bool is_inside, struct cr_err *err)
{
    const struct sbx_tool tool = {
        .argv = argv,
        .folder = folder,
        .is_free = is_free,
        .is_inside = is_inside,
        .output_fd = build->output_fd,
        .deadline_ns = build->deadline_ns,
        .room = build->room,
    };

    return sbx_tool_run(&tool, err);
}

static void make_path(const struct sbx_build *build, const char *name, char ret_path[PATH_MAX])
{
    if (name[0] == '/')
        (void)snprintf(ret_path, PATH_MAX, "%s", name);
    else
        (void)snprintf(ret_path, PATH_MAX, "%s/%s", build->source_folder, name);
}

/* ---- packages ---- */

/* pip needs itself. */
static int join_packages(const struct sbx_build *build, char *text, size_t size, struct cr_err *err)
{
    const struct sbx_recipe *recipe = &build->runtime->recipe;
    size_t used = (size_t)snprintf(text, size, ARGUMENT_INCLUDE "%s",
                                   recipe->requirements ? "python3-pip,ca-certificates" : "");

    for (size_t i = 0; recipe->packages[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i > 0 || recipe->requirements ? "," : "", recipe->packages[i]);
    return used < size ? 0 : cr_err_set(err, E2BIG, "build.package: too many of them");
}

/* Says of a failure why it came about, by what the log ends with. */
static int explain(const struct sbx_build *build, int r, struct cr_err *err)
{
    char text[LOG_END_MAX + 1];
    const off_t size = lseek(build->output_fd, 0, SEEK_END);
    const ssize_t n = size < 0 ? -1
                               : pread(build->output_fd, text, LOG_END_MAX,
                                       size > LOG_END_MAX ? size - LOG_END_MAX : 0);
    const char *reason;

    text[n > 0 ? n : 0] = '\0';
    reason = r == -EIO ? sbx_apt_reason(text) : NULL;
    return reason ? cr_err_set(err, EIO, "mmdebstrap failed: %s", reason) : r;
}

/*
 * The keys are named: else mmdebstrap asks gpg which of them apt trusts, and
 * takes none when that fails.
 */
static int add_packages(const struct sbx_build *build, struct cr_err *err)
{
    char keyring[128];
    char include[INCLUDE_MAX];
    const char *const argv[] = {
        "/usr/bin/mmdebstrap",
        "--variant=minbase",
        "--mode=root",
        "--format=directory",
        keyring,
        include,
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/info/*",
        /* Some packages link a page of theirs when they are set up, Java's for one. */
        "--essential-hook=mkdir --parents \"$1/usr/share/man/man1\"",
        build->runtime->recipe.suite,
        build->root,
        NULL,
    };
    int r = join_packages(build, include, sizeof(include), err);

    (void)snprintf(keyring, sizeof(keyring), "--keyring=%s", sbx_apt_keyring());
    if (r == 0 && strchr(build->root, ':'))
        r = cr_err_set(err, EINVAL, "apt finds no key below a path with a ':', move --state-dir");
    if (r == 0)
        r = explain(build, run(build, argv, build->folder, true, false, err), err);
    return r < 0 ? cr_err_wrap(err, "build.package") : 0;
}

/* ---- folders and archives ---- */

static int make_root(const struct sbx_build *build, struct cr_err *err)
{
    if (mkdirat(AT_FDCWD, build->root, 0755) < 0 && errno != EEXIST)
        return cr_err_sys(err, errno, "make the folder of the root file system");
    return 0;
}

static int add_archive(const struct sbx_build *build, struct cr_err *err)
{
    char path[PATH_MAX];
    char work[PATH_MAX];
    const struct sbx_archive archive = {.path = path,
                                        .image = build->runtime->recipe.image,
                                        .work = work,
                                        .output_fd = build->output_fd,
                                        .deadline_ns = build->deadline_ns,
                                        .room = build->room};
    int r = make_root(build, err);

    if (r < 0)
        return r;
    make_path(build, build->runtime->recipe.archive, path);
    (void)snprintf(work, sizeof(work), "%s/archive", build->folder);
    if (mkdirat(AT_FDCWD, work, 0755) < 0)
        return cr_err_sys(err, errno, "make a folder for the archive");
    r = sbx_archive_unpack(&archive, build->root, err);
    return r < 0 ? cr_err_wrap(err, "build.archive") : 0;
}

static int add_folder(const struct sbx_build *build, struct cr_err *err)
{
    char from[PATH_MAX];
    const char *const argv[] = {"/usr/bin/cp",
                                "--recursive",
                                "--no-dereference",
                                "--preserve=mode,links",
                                "--no-target-directory",
                                "--",
                                from,
                                build->root,
                                NULL};
    int r = make_root(build, err);

    if (r < 0)
        return r;
    make_path(build, build->runtime->recipe.folder, from);
    r = run(build, argv, build->root, false, false, err);
    return r < 0 ? cr_err_wrap(err, "build.folder") : 0;
}

/* ---- requirements ---- */

/*
 * The folder of `path` in the new root, *ret_name what is left of it. Somebody
 * else has packed the tree: a link in it leads to where it would in a sandbox,
 * never to the host's own files.
 */
static int open_parent(const char *root, const char *path, const char **ret_name)
{
    const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    CR_AUTO_CLOSE int root_fd = openat(AT_FDCWD, root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    int fd;

    *ret_name = slash + 1; /* always: the analyser does not know that -errno is below 0 */
    if (root_fd < 0)
        return -errno;
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
    fd = (int)syscall(SYS_openat2, root_fd, folder, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* Of no interest when it is not there. */
static void remove_inside(const char *root, const char *path)
{
    const char *name;
    CR_AUTO_CLOSE int folder_fd = open_parent(root, path, &name);

    if (folder_fd >= 0)
        (void)unlinkat(folder_fd, name, 0);
}

/* A new file in the root. Returns its descriptor or -errno. */
static int create_inside(const char *root, const char *path)
{
    const char *name;
    CR_AUTO_CLOSE int folder_fd = open_parent(root, path, &name);
    int fd;

    if (folder_fd < 0)
        return folder_fd;
    fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    return fd < 0 ? -errno : fd;
}

/* -ENOENT when there is none to copy. */
static int copy_file(const char *from, const char *root, const char *to, struct cr_err *err)
{
    CR_AUTO_CLOSE int source = openat(AT_FDCWD, from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CR_AUTO_CLOSE int target = -1;
    size_t left = FILE_COPY_MAX;
    char piece[16384];
    ssize_t n;

    if (source < 0)
        return cr_err_sys(err, errno, "open '%s'", from);
    target = create_inside(root, to);
    if (target < 0)
        return cr_err_sys(err, -target, "write '%s' into the root file system", to);
    while ((n = read(source, piece, sizeof(piece))) > 0) {
        if ((size_t)n > left || write(target, piece, (size_t)n) != n)
            return cr_err_set(err, EFBIG, "'%s' cannot be copied", from);
        left -= (size_t)n;
    }
    return n < 0 ? cr_err_sys(err, errno, "read '%s'", from) : 0;
}

/* What a network needs, for as long as pip runs. Those that the host does not have are left out. */
static int lend_network(const struct sbx_build *build, struct cr_err *err)
{
    static const struct {
        const char *from;
        const char *to;
    } loans[] = {
        {"/etc/ssl/certs/ca-certificates.crt", CERTIFICATES},
        {"/etc/pip.conf", PIP_CONFIG},
        {"/etc/resolv.conf", "/etc/resolv.conf"},
        {"/etc/hosts", "/etc/hosts"},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(loans); i++) {
        int r;

        remove_inside(build->root, loans[i].to);
        r = copy_file(loans[i].from, build->root, loans[i].to, err);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    return 0;
}

/* Boxes have their own, and a digest must not depend on whose network it was. */
static void take_network_back(const struct sbx_build *build)
{
    static const char *const names[] = {"/etc/resolv.conf", "/etc/hosts"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++)
        remove_inside(build->root, names[i]);
}

/* Wheels only: what is not one would run a program of its author, as root. */
static int add_requirements(const struct sbx_build *build, struct cr_err *err)
{
    static const char *const argv[] = {
        "/usr/bin/env",
        CERTIFICATES_LINE,
        PIP_CONFIG_LINE,
        "/usr/bin/python3",
        "-m",
        "pip",
        "install",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--no-compile",
        "--disable-pip-version-check",
        "--break-system-packages",
        "--root-user-action=ignore",
        "--requirement",
        REQUIREMENTS,
        NULL,
    };
    char path[PATH_MAX];
    int r;

    make_path(build, build->runtime->recipe.requirements, path);
    r = copy_file(path, build->root, REQUIREMENTS, err);
    if (r == 0)
        r = lend_network(build, err);
    if (r == 0)
        r = run(build, argv, build->root, false, true, err);
    take_network_back(build);
    return r < 0 ? cr_err_wrap(err, "build.requirements") : 0;
}

int sbx_build_root(const struct sbx_build *build, struct cr_err *err)
{
    const struct sbx_recipe *recipe = &build->runtime->recipe;
    CR_AUTO_CLOSE int root_fd = -1;
    int r = 0;

    if (recipe->archive)
        r = add_archive(build, err);
    else if (recipe->packages[0])
        r = add_packages(build, err);
    if (r == 0 && recipe->folder)
        r = add_folder(build, err);
    if (r == 0 && recipe->requirements)
        r = add_requirements(build, err);
    if (r < 0)
        return r;
    root_fd = openat(AT_FDCWD, build->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (root_fd < 0)
        return cr_err_sys(err, errno, "open the new root file system");
    return sbx_tree_clean(root_fd, err);
}
