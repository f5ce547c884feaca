/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/outside.h"

#include "common/auto.h"
#include "sandboxd/backend/cgroup_paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define TEXT_MAX (1U << 16)

/* Reads a file whole, as text. Returns 0 or -errno. */
static int read_text(const char *path, char *ret_text, size_t size)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;

    if (fd < 0)
        return -errno;
    while (used < size - 1) {
        ssize_t n = read(fd, ret_text + used, size - 1 - used);

        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    ret_text[used] = '\0';
    return 0;
}

static int read_proc(pid_t pid, const char *name, char *ret_text, size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return read_text(path, ret_text, size);
}

static void say(char *ret_seen, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(char *ret_seen, size_t size, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    (void)vsnprintf(ret_seen, size, format, values);
    va_end(values);
}

/* Parent and name of a process. */
static int read_stat(pid_t pid, pid_t *ret_parent, char ret_comm[32])
{
    char text[1024];
    const char *open_at;
    const char *close_at;

    if (read_proc(pid, "stat", text, sizeof(text)) < 0)
        return -ENOENT;
    open_at = strchr(text, '(');
    close_at = strrchr(text, ')');
    if (!open_at || !close_at || strlen(close_at) < 5)
        return -EPROTO;
    say(ret_comm, 32, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    *ret_parent = (pid_t)strtol(close_at + 4, NULL, 10);
    return 0;
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): one thread reads this stream
}

int sbx_view_find(pid_t native, const char *comm, struct sbx_view *ret_view)
{
    DIR *dir = opendir("/proc");
    int r = -ENOENT;

    if (!dir)
        return -errno;
    for (const struct dirent *entry = next_entry(dir); r < 0 && entry; entry = next_entry(dir)) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        pid_t init = 0;
        pid_t parent = 0;
        char name[32];

        if (pid <= 0 || read_stat(pid, &init, name) < 0 || strcmp(name, comm) != 0 ||
            read_stat(init, &parent, name) < 0 || parent != native)
            continue;
        *ret_view = (struct sbx_view){.pid = pid, .init = init};
        r = 0;
    }
    (void)closedir(dir);
    return r;
}

void sbx_view_status(const struct sbx_view *view, const char *key, char *ret_seen, size_t size)
{
    char text[8192];
    const size_t length = strlen(key);

    say(ret_seen, size, "?");
    if (read_proc(view->pid, "status", text, sizeof(text)) < 0)
        return;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *value = line + length + 1;
        int used;

        if (strncmp(line, key, length) != 0 || line[length] != ':')
            continue;
        value += strspn(value, "\t ");
        used = (int)strcspn(value, "\n");
        say(ret_seen, size, "%.*s", used > 0 ? used : 4, used > 0 ? value : "none");
        return;
    }
}

void sbx_view_namespace(const struct sbx_view *view, const char *kind, char *ret_seen, size_t size)
{
    char path[64];
    struct stat box;
    struct stat own;

    say(ret_seen, size, "?");
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", view->pid, kind);
    if (stat(path, &box) < 0)
        return;
    (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    if (stat(path, &own) == 0)
        say(ret_seen, size, "%s", box.st_ino == own.st_ino ? "the host's" : "own");
}

void sbx_view_rlimit(const struct sbx_view *view, int resource, char *ret_seen, size_t size)
{
    struct rlimit limit;

    if (prlimit(view->pid, (__rlimit_resource_t)resource, NULL, &limit) < 0)
        say(ret_seen, size, "?");
    else
        say(ret_seen, size, "%" PRIu64, (uint64_t)limit.rlim_max);
}

/* The file of its control group in the hierarchy of `controller` (NULL: version 2). */
static int read_cgroup(const struct sbx_view *view, const char *controller, const char *file,
                       char *ret_text, size_t size)
{
    static char mounts[TEXT_MAX];
    char groups[4096];
    char own[PATH_MAX];
    char path[PATH_MAX];
    size_t used;

    if (read_proc(view->pid, "cgroup", groups, sizeof(groups)) < 0 ||
        read_text("/proc/self/mountinfo", mounts, sizeof(mounts)) < 0 ||
        sbx_cgroup_own_path(groups, controller, own, sizeof(own)) < 0 ||
        sbx_cgroup_directory(mounts, controller, own, path, sizeof(path)) < 0)
        return -ENOENT;
    used = strlen(path);
    (void)snprintf(path + used, sizeof(path) - used, "/%s", file);
    if (read_text(path, ret_text, size) < 0)
        return -ENOENT;
    ret_text[strcspn(ret_text, "\n")] = '\0';
    return 0;
}

void sbx_view_cgroup(const struct sbx_view *view, const char *what, char *ret_seen, size_t size)
{
    static const struct {
        const char *what;
        const char *controller;
        const char *v1;
        const char *v2;
    } files[] = {
        {"memory", "memory", "memory.limit_in_bytes", "memory.max"},
        {"swap", "memory", "memory.memsw.limit_in_bytes", "memory.swap.max"},
        {"cpu", "cpu", "cpu.cfs_quota_us", "cpu.max"},
        {"pids", "pids", "pids.max", "pids.max"},
    };

    say(ret_seen, size, "?");
    for (size_t i = 0; i < CR_ARRAY_SIZE(files); i++) {
        char text[64];

        if (strcmp(files[i].what, what) != 0)
            continue;
        if (read_cgroup(view, files[i].controller, files[i].v1, text, sizeof(text)) == 0) {
            say(ret_seen, size, strcmp(what, "cpu") == 0 ? "%s 100000" : "%s", text);
        } else if (read_cgroup(view, NULL, files[i].v2, text, sizeof(text)) == 0) {
            /* Version 2 limits swap by itself: none is the same as the memory limit for both. */
            if (strcmp(what, "swap") == 0 && strcmp(text, "0") == 0)
                sbx_view_cgroup(view, "memory", ret_seen, size);
            else
                say(ret_seen, size, "%s", text);
        }
    }
}

/* True when `option` is one of the words between blanks and commas of `line`. */
static bool has_option(const char *line, const char *option, size_t length)
{
    for (const char *at = line; *at && *at != '\n';) {
        const size_t word = strcspn(at, " ,\n");

        if (word == length && strncmp(at, option, length) == 0)
            return true;
        at += word + (at[word] == ' ' || at[word] == ',');
    }
    return false;
}

/* The line of the mount at `point` (the last one counts), behind its path. */
static const char *find_mount(const char *mounts, const char *point)
{
    const char *found = NULL;

    for (const char *line = mounts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;

        for (int field = 0; field < 4; field++) {
            at += strcspn(at, " \n");
            at += *at == ' ';
        }
        if (strncmp(at, point, strlen(point)) == 0 && at[strlen(point)] == ' ')
            found = at + strlen(point) + 1;
    }
    return found;
}

void sbx_view_mount(const struct sbx_view *view, const char *point, const char *options,
                    char *ret_seen, size_t size)
{
    static char mounts[TEXT_MAX];
    const char *line;

    say(ret_seen, size, "?");
    if (read_proc(view->pid, "mountinfo", mounts, sizeof(mounts)) < 0)
        return;
    line = find_mount(mounts, point);
    if (!line)
        return;
    ret_seen[0] = '\0';
    for (const char *option = options; *option;) {
        const size_t length = strcspn(option, ",");
        const size_t used = strlen(ret_seen);

        if (has_option(line, option, length))
            say(ret_seen + used, size - used, "%s%.*s", used > 0 ? "," : "", (int)length, option);
        option += length + (option[length] == ',');
    }
    if (!ret_seen[0])
        say(ret_seen, size, "none of these");
}

void sbx_view_space(const struct sbx_view *view, const char *point, char *ret_seen, size_t size)
{
    char path[64];
    struct statvfs space;

    (void)snprintf(path, sizeof(path), "/proc/%d/root%s", view->pid, point);
    if (statvfs(path, &space) < 0)
        say(ret_seen, size, "?");
    else
        say(ret_seen, size, "%" PRIu64 " bytes, %" PRIu64 " inodes",
            (uint64_t)space.f_blocks * space.f_frsize, (uint64_t)space.f_files);
}

void sbx_view_descriptors(const struct sbx_view *view, char *ret_seen, size_t size)
{
    char path[64];
    DIR *dir;
    int count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", view->pid);
    dir = opendir(path);
    if (!dir) {
        say(ret_seen, size, "?");
        return;
    }
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir))
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    say(ret_seen, size, "%d", count);
}

void sbx_view_init_user(const struct sbx_view *view, char *ret_seen, size_t size)
{
    const struct sbx_view init = {.pid = view->init};
    char program[64];

    sbx_view_status(view, "Uid", program, sizeof(program));
    sbx_view_status(&init, "Uid", ret_seen, size);
    if (ret_seen[0] != '?' && strcmp(program, ret_seen) != 0)
        say(ret_seen, size, "another user");
}
