/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/outside.h"

#include "common/auto.h"
#include "sandboxd/backend/cgroup.h"
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
#define INODES_MANY 100000U /* nobody set that: the kernel did, by the size of the machine */

static int read_proc(pid_t pid, const char *name, char *ret_text, size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return sbx_cgroup_read(AT_FDCWD, path, ret_text, size);
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

/* 0 when it cannot be seen. */
static pid_t read_parent(pid_t pid)
{
    char text[1024];
    const char *close_at;

    if (read_proc(pid, "stat", text, sizeof(text)) < 0)
        return 0;
    close_at = strrchr(text, ')'); /* behind the name, which may hold anything */
    return close_at && strlen(close_at) > 4 ? (pid_t)strtol(close_at + 4, NULL, 10) : 0;
}

/* The arguments of a process, each with its NUL, and a NUL more. Returns the size without it. */
static size_t read_arguments(pid_t pid, char *ret_text, size_t size)
{
    char path[64];
    CR_AUTO_CLOSE int fd = -1;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, ret_text, size - 1);
    ret_text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static bool ends_with_token(const char *arguments, size_t size, const char *token)
{
    const size_t length = strlen(token) + 1;

    return size >= length && memcmp(arguments + size - length, token, length) == 0;
}

bool sbx_view_has_token(pid_t pid, const char *token)
{
    char arguments[512];
    const size_t size = read_arguments(pid, arguments, sizeof(arguments));

    return ends_with_token(arguments, size, token);
}

/* The second one of sbprobe says how it behaves. */
static bool behaves(pid_t pid, const char *behaviour, const char *token)
{
    char arguments[512];
    const size_t size = read_arguments(pid, arguments, sizeof(arguments));

    return ends_with_token(arguments, size, token) &&
           strcmp(arguments + strlen(arguments) + 1, behaviour) == 0;
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): one thread reads this stream
}

int sbx_view_find(const char *behaviour, const char *token, struct sbx_view *ret_view)
{
    DIR *dir = opendir("/proc");
    int r = -ENOENT;

    if (!dir)
        return -errno;
    for (const struct dirent *entry = next_entry(dir); r < 0 && entry; entry = next_entry(dir)) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid <= 0 || !behaves(pid, behaviour, token))
            continue;
        *ret_view = (struct sbx_view){.pid = pid, .init = read_parent(pid)};
        r = ret_view->init > 0 ? 0 : -ENOENT;
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
        while (used > 0 && value[used - 1] == ' ')
            used--;
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

/* As text, because prlimit(2) asks for more privilege than reading does. */
void sbx_view_rlimit(const struct sbx_view *view, const char *name, char *ret_seen, size_t size)
{
    char text[4096];
    char hard[32];
    const char *line;

    say(ret_seen, size, "?");
    if (read_proc(view->pid, "limits", text, sizeof(text)) < 0)
        return;
    line = strstr(text, name);
    if (line && sscanf(line + strlen(name), "%*31s %31s", hard) == 1)
        say(ret_seen, size, "%s", hard);
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
        sbx_cgroup_read(AT_FDCWD, "/proc/self/mountinfo", mounts, sizeof(mounts)) < 0 ||
        sbx_cgroup_own_path(groups, controller, own, sizeof(own)) < 0 ||
        sbx_cgroup_directory(mounts, controller, own, path, sizeof(path)) < 0)
        return -ENOENT;
    used = strlen(path);
    (void)snprintf(path + used, sizeof(path) - used, "/%s", file);
    if (sbx_cgroup_read(AT_FDCWD, path, ret_text, size) < 0)
        return -ENOENT;
    ret_text[strcspn(ret_text, "\n")] = '\0';
    return 0;
}

/* Version 1 limits memory and swap together, version 2 swap alone: says what both are together. */
static void say_sum(const char *memory, const char *swap, char *ret_seen, size_t size)
{
    char *memory_end;
    char *swap_end;
    const uint64_t memory_bytes = strtoull(memory, &memory_end, 10);
    const uint64_t swap_bytes = strtoull(swap, &swap_end, 10);

    if (swap_end == swap || *swap_end != '\0')
        say(ret_seen, size, "%s", swap); /* "max" */
    else if (memory_end == memory || *memory_end != '\0')
        say(ret_seen, size, "%s", memory);
    else
        say(ret_seen, size, "%" PRIu64, memory_bytes + swap_bytes);
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
            char memory[64] = "";

            if (strcmp(what, "swap") == 0 &&
                read_cgroup(view, NULL, "memory.max", memory, sizeof(memory)) == 0)
                say_sum(memory, text, ret_seen, size);
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

/* Whether `path` is, or lies below, the mount point `at` of `size` bytes. */
static bool lies_below(const char *path, const char *at, size_t size)
{
    return size == 1 || (strncmp(path, at, size) == 0 && (path[size] == '\0' || path[size] == '/'));
}

/*
 * The line of the mount at `point` (the last one counts), behind its path; or,
 * with `is_below`, of the innermost mount that holds `point`.
 */
static const char *find_mount(const char *mounts, const char *point, bool is_below)
{
    const char *found = NULL;
    size_t most = 0;

    for (const char *line = mounts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;
        size_t size;

        for (int field = 0; field < 4; field++) {
            at += strcspn(at, " \n");
            at += *at == ' ';
        }
        size = strcspn(at, " \n");
        if (is_below ? lies_below(point, at, size) && size >= most
                     : size == strlen(point) && strncmp(at, point, size) == 0) {
            found = at + size + (at[size] == ' ');
            most = size;
        }
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
    line = find_mount(mounts, point, true);
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

void sbx_view_reach(const struct sbx_view *view, const char *path, char *ret_seen, size_t size)
{
    static char mounts[TEXT_MAX];
    char full[128];

    (void)snprintf(full, sizeof(full), "/proc/%d/root%s", view->pid, path);
    if (read_proc(view->pid, "mountinfo", mounts, sizeof(mounts)) < 0)
        say(ret_seen, size, "?");
    else
        say(ret_seen, size, "%s",
            find_mount(mounts, path, false) || access(full, F_OK) < 0 ? "out of reach" : "there");
}

void sbx_view_space(const struct sbx_view *view, const char *point, char *ret_seen, size_t size)
{
    char path[64];
    char inodes[32];
    struct statvfs space;

    (void)snprintf(path, sizeof(path), "/proc/%d/root%s", view->pid, point);
    if (statvfs(path, &space) < 0) {
        say(ret_seen, size, "?");
        return;
    }
    say(inodes, sizeof(inodes), "%" PRIu64, (uint64_t)space.f_files);
    say(ret_seen, size, "%" PRIu64 " bytes, %s inodes", (uint64_t)space.f_blocks * space.f_frsize,
        space.f_files < INODES_MANY ? inodes : "many");
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
