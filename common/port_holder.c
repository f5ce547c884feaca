/* SPDX-License-Identifier: Apache-2.0 */
#include "common/port_holder.h"

#include "common/auto.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* include/net/tcp_states.h of the kernel. */
#define TCP_STATE_LISTEN 0x0AU

static void closedirp(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir);
}

#define AUTO_CLOSEDIR __attribute__((cleanup(closedirp)))

/* "  0: 0100007F:C383 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 12345 …" */
static bool parse_socket_line(const char *line, unsigned *ret_port, unsigned *ret_state,
                              uid_t *ret_uid, unsigned long *ret_inode)
{
    return sscanf(line, // NOLINT(cert-err34-c): the kernel's own format
                  " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u %*u %lu",
                  ret_port, ret_state, ret_uid, ret_inode) == 4;
}

static bool find_inode(const char *table, uint16_t port, uid_t *ret_uid, unsigned long *ret_inode)
{
    CR_AUTO_FCLOSE FILE *file = fopen(table, "re");
    char line[512];

    while (file && fgets(line, sizeof(line), file)) {
        unsigned found_port;
        unsigned state;
        unsigned long inode;
        uid_t uid;

        if (parse_socket_line(line, &found_port, &state, &uid, &inode) && found_port == port &&
            state == TCP_STATE_LISTEN) {
            *ret_uid = uid;
            *ret_inode = inode;
            return true;
        }
    }
    return false;
}

static DIR *open_fd_dir(int proc_fd, const char *pid)
{
    CR_AUTO_CLOSE int fd = -1;
    char path[64];
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%.20s/fd", pid);
    fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    dir = fdopendir(fd);
    if (dir)
        (void)cr_take_fd(&fd);
    return dir;
}

static bool process_has(int proc_fd, const char *pid, const char *link_text)
{
    AUTO_CLOSEDIR DIR *dir = open_fd_dir(proc_fd, pid);
    char target[64];

    if (!dir)
        return false;
    /* readdir is thread-safe on a stream of one's own (readdir(3), glibc). */
    for (const struct dirent *entry = readdir(dir); entry; // NOLINT(concurrency-mt-unsafe)
         entry = readdir(dir)) {                           // NOLINT(concurrency-mt-unsafe)
        ssize_t size = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

        if (size <= 0)
            continue;
        target[size] = '\0';
        if (strcmp(target, link_text) == 0)
            return true;
    }
    return false;
}

static void read_name(int proc_fd, const char *pid, char *name, size_t room)
{
    CR_AUTO_CLOSE int fd = -1;
    char path[64];
    ssize_t size;

    (void)snprintf(name, room, "%s", "?");
    (void)snprintf(path, sizeof(path), "%.20s/comm", pid);
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    size = read(fd, name, room - 1);
    if (size <= 0)
        return;
    name[size] = '\0';
    name[strcspn(name, "\n")] = '\0';
    for (char *at = name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F)
            *at = '?';
}

/* Leaves the holder without a pid when no process that can be looked into has the socket. */
static void find_process(unsigned long inode, struct cr_port_holder *holder)
{
    AUTO_CLOSEDIR DIR *proc = opendir("/proc");
    char link_text[48];

    if (!proc)
        return;
    (void)snprintf(link_text, sizeof(link_text), "socket:[%lu]", inode);
    for (const struct dirent *entry = readdir(proc); entry; // NOLINT(concurrency-mt-unsafe)
         entry = readdir(proc)) {                           // NOLINT(concurrency-mt-unsafe)
        char *end;
        intmax_t pid = strtoimax(entry->d_name, &end, 10);

        if (*end || pid <= 0 || !process_has(dirfd(proc), entry->d_name, link_text))
            continue;
        holder->pid = (pid_t)pid;
        read_name(dirfd(proc), entry->d_name, holder->name, sizeof(holder->name));
        return;
    }
}

int cr_port_holder_find(uint16_t port, struct cr_port_holder *ret_holder)
{
    struct cr_port_holder holder = {.pid = 0};
    unsigned long inode;

    if (!find_inode("/proc/net/tcp", port, &holder.uid, &inode) &&
        !find_inode("/proc/net/tcp6", port, &holder.uid, &inode))
        return -ENOENT;
    find_process(inode, &holder);
    *ret_holder = holder;
    return 0;
}
