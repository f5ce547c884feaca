/* SPDX-License-Identifier: Apache-2.0 */
#include "common/listen_unix.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/listen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define LOCK_SUFFIX ".lock"
#define LOCK_TRIES 10

_Static_assert(sizeof(((struct cr_listen *)0)->path) == sizeof(((struct sockaddr_un *)0)->sun_path),
               "every path that fits is kept whole");

/* A path of a unix socket, taken apart. */
struct place {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char lock_name[sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(LOCK_SUFFIX)];
    const char *name; /* into path: the last component */
    int dir_fd;       /* its folder */
    bool is_folder_new;
    int lock_fd;
};

static int parse_path(const char *text, struct place *place, struct cr_err *err)
{
    size_t size;

    /* "unix:///path", as gRPC also writes it. */
    if (strncmp(text, "//", 2) == 0)
        text += 2;
    size = strlen(text);
    if (text[0] != '/')
        return cr_err_set(err, EINVAL, "socket path '%s' is not absolute; write unix:/path", text);
    if (size >= sizeof(place->path))
        return cr_err_set(err, ENAMETOOLONG, "socket path '%s' has %zu bytes; at most %zu fit",
                          text, size, sizeof(place->path) - 1);
    memcpy(place->path, text, size + 1);
    place->name = strrchr(place->path, '/') + 1;
    if (!place->name[0])
        return cr_err_set(err, EINVAL, "socket path '%s' ends with '/'; a file name is missing",
                          text);
    (void)snprintf(place->lock_name, sizeof(place->lock_name), "%s" LOCK_SUFFIX, place->name);
    return 0;
}

/* Without the '/' at its end, unless it is the root. */
static void write_folder(const struct place *place, char folder[sizeof(place->path)])
{
    size_t size = (size_t)(place->name - place->path);

    memcpy(folder, place->path, size);
    folder[size > 1 ? size - 1 : 1] = '\0';
}

/* Opens the folder; makes it, and only it, when it is missing. */
static int open_folder(struct place *place, uid_t owner, struct cr_err *err)
{
    char folder[sizeof(place->path)];

    write_folder(place, folder);
    if (mkdir(folder, 0700) == 0)
        place->is_folder_new = true;
    else if (errno != EEXIST)
        return cr_err_sys(err, errno, "make folder '%s'", folder);
    place->dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->dir_fd < 0)
        return cr_err_sys(err, errno, "open folder '%s'", folder);
    if (place->is_folder_new && owner != (uid_t)-1 && fchown(place->dir_fd, owner, (gid_t)-1) < 0)
        return cr_err_sys(err, errno, "give folder '%s' to uid %u", folder, (unsigned)owner);
    return 0;
}

/* True when nothing is in the folder but what a server of this path leaves there. */
static bool is_of_this_path_alone(const struct place *place)
{
    CR_AUTO_CLOSE int fd = openat(place->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool is_alone = folder != NULL;

    if (!folder)
        return false;
    (void)cr_take_fd(&fd);                                /* the folder has it */
    while (is_alone && (entry = readdir(folder)) != NULL) // NOLINT(concurrency-mt-unsafe): own DIR
        is_alone = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                   strcmp(entry->d_name, place->name) == 0 ||
                   strcmp(entry->d_name, place->lock_name) == 0;
    (void)closedir(folder);
    return is_alone;
}

/* False of a link to it: whoever can put one in the way would choose what is given away. */
static bool is_folder_itself(const char *folder, const struct stat *opened)
{
    struct stat named;

    return lstat(folder, &named) == 0 && named.st_ino == opened->st_ino &&
           named.st_dev == opened->st_dev;
}

/*
 * A folder that was there may be the private one of a server with another
 * owner: what such a one has left behind would shut the new owner out, without
 * a word. Ours alone becomes his; any other is the operator's to open.
 */
static int let_in(const struct place *place, uid_t owner, struct cr_err *err)
{
    char folder[sizeof(place->path)];
    struct stat info;

    if (owner == (uid_t)-1 || owner == 0 || place->is_folder_new)
        return 0;
    write_folder(place, folder);
    if (fstat(place->dir_fd, &info) < 0)
        return cr_err_sys(err, errno, "look at folder '%s'", folder);
    if (info.st_mode & (info.st_uid == owner ? S_IXUSR : S_IXGRP | S_IXOTH))
        return 0;
    if (info.st_uid != geteuid() || !is_folder_itself(folder, &info) ||
        !is_of_this_path_alone(place))
        return cr_err_set(err, EACCES,
                          "folder '%s' cannot be entered by uid %u, who is to have the socket in "
                          "it; give it to that user, open it (chmod o+x), or choose another path",
                          folder, (unsigned)owner);
    if (fchown(place->dir_fd, owner, (gid_t)-1) < 0)
        return cr_err_sys(err, errno, "give folder '%s' to uid %u", folder, (unsigned)owner);
    return 0;
}

/* After a failure: removes what was made before it. */
static void undo(const struct place *place)
{
    char folder[sizeof(place->path)];

    if (place->lock_fd >= 0)
        (void)unlinkat(place->dir_fd, place->lock_name, 0);
    if (place->is_folder_new) {
        write_folder(place, folder);
        (void)rmdir(folder);
    }
}

/* The holder writes its pid into the file, for this message only. */
static int refuse_locked(const struct place *place, int fd, struct cr_err *err)
{
    char text[24] = "";
    ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
    char *end = text;
    intmax_t pid = size > 0 ? strtoimax(text, &end, 10) : 0;

    if (pid > 0 && *end == '\n')
        return cr_err_set(err, EADDRINUSE, "'%s' is served by another process (pid %jd)",
                          place->path, pid);
    return cr_err_set(err, EADDRINUSE, "'%s' is served by another process", place->path);
}

/* True when the open lock file is the one that has the name: a holder that ends removes it. */
static bool is_current(const struct place *place, int fd)
{
    struct stat opened;
    struct stat named;

    return fstat(fd, &opened) == 0 &&
           fstatat(place->dir_fd, place->lock_name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

static int lock_once(struct place *place, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd =
        openat(place->dir_fd, place->lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char text[24];
    int size;

    if (fd < 0)
        return cr_err_sys(err, errno, "open lock file '%s" LOCK_SUFFIX "'", place->path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return refuse_locked(place, fd, err);
        return cr_err_sys(err, errno, "lock '%s" LOCK_SUFFIX "'", place->path);
    }
    if (!is_current(place, fd))
        return -EAGAIN;
    size = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)size, 0) != size)
        return cr_err_sys(err, errno, "write lock file '%s" LOCK_SUFFIX "'", place->path);
    place->lock_fd = cr_take_fd(&fd);
    return 0;
}

static int lock_path(struct place *place, struct cr_err *err)
{
    int r = -EAGAIN;

    for (int i = 0; i < LOCK_TRIES && r == -EAGAIN; i++)
        r = lock_once(place, err);
    if (r == -EAGAIN)
        return cr_err_set(err, EADDRINUSE, "lock file '%s" LOCK_SUFFIX "' changes all the time",
                          place->path);
    return r;
}

static struct sockaddr_un address_of(const struct place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, place->path, sizeof(address.sun_path));
    return address;
}

/* A program that knows nothing of our lock file may serve the path. */
static bool is_answered(const struct place *place)
{
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = address_of(place);

    if (fd < 0)
        return true;
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
           errno != ECONNREFUSED;
}

static int remove_stale(const struct place *place, struct cr_err *err)
{
    struct stat info;

    if (fstatat(place->dir_fd, place->name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return cr_err_sys(err, errno, "look at '%s'", place->path);
    }
    if (!S_ISSOCK(info.st_mode))
        return cr_err_set(err, EEXIST,
                          "'%s' exists and is not a socket; move it or choose another "
                          "path",
                          place->path);
    if (is_answered(place))
        return cr_err_set(err, EADDRINUSE, "'%s' is served by another program", place->path);
    if (unlinkat(place->dir_fd, place->name, 0) < 0 && errno != ENOENT)
        return cr_err_sys(err, errno, "remove stale socket '%s'", place->path);
    return 0;
}

/* Through an O_PATH fd, so that what is given away is the socket and nothing put in its place. */
static int give_to(const struct place *place, uid_t owner, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(place->dir_fd, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;

    if (fd < 0 || fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "look at '%s'", place->path);
    if (!S_ISSOCK(info.st_mode))
        return cr_err_set(err, EEXIST, "'%s' was replaced by something else", place->path);
    if (fchownat(fd, "", owner, (gid_t)-1, AT_EMPTY_PATH) < 0)
        return cr_err_sys(err, errno, "give '%s' to uid %u", place->path, (unsigned)owner);
    return 0;
}

static int bind_path(const struct place *place, uid_t owner, int *ret_fd, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = address_of(place);
    int r = 0;

    if (fd < 0)
        return cr_err_sys(err, errno, "make a unix socket");
    /* bind(2) gives the file the mode of the socket's inode: no moment with a wider mode, and the
     * umask, which all threads share, stays as it is (net/unix/af_unix.c, unix_bind_bsd). */
    if (fchmod(fd, 0600) < 0)
        return cr_err_sys(err, errno, "set the mode of '%s'", place->path);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return cr_err_sys(err, errno, "bind '%s'", place->path);
    if (owner != (uid_t)-1)
        r = give_to(place, owner, err);
    if (r == 0 && listen(fd, CR_LISTEN_BACKLOG) < 0)
        r = cr_err_sys(err, errno, "listen on '%s'", place->path);
    if (r < 0) {
        (void)unlinkat(place->dir_fd, place->name, 0);
        return r;
    }
    *ret_fd = cr_take_fd(&fd);
    return 0;
}

int cr_listen_unix_check(const char *path, struct cr_err *err)
{
    struct place place = {.dir_fd = -1, .lock_fd = -1};

    return parse_path(path, &place, err);
}

int cr_listen_unix_open(const char *path, uid_t owner, struct cr_listen *ret_listen,
                        struct cr_err *err)
{
    struct place place = {.dir_fd = -1, .lock_fd = -1};
    struct cr_listen listen = CR_LISTEN_INIT;
    int r;

    r = parse_path(path, &place, err);
    if (r == 0)
        r = open_folder(&place, owner, err);
    if (r == 0)
        r = lock_path(&place, err);
    if (r == 0)
        r = remove_stale(&place, err);
    if (r == 0)
        r = let_in(&place, owner, err);
    if (r == 0)
        r = bind_path(&place, owner, &listen.fd, err);
    if (r == 0) {
        listen.lock_fd = cr_take_fd(&place.lock_fd);
        memcpy(listen.path, place.path, sizeof(listen.path));
        *ret_listen = listen;
    } else {
        undo(&place);
    }
    cr_close_fd(&place.lock_fd);
    cr_close_fd(&place.dir_fd);
    return r;
}

void cr_listen_unix_remove(const struct cr_listen *listen)
{
    char lock[sizeof(listen->path) + sizeof(LOCK_SUFFIX)];

    /* While the lock is held nobody else can have put a socket there. */
    (void)unlink(listen->path);
    (void)snprintf(lock, sizeof(lock), "%s" LOCK_SUFFIX, listen->path);
    (void)unlink(lock);
}
