/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/sandboxd/native_host.h"

#include "common/auto.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): this process has one thread
}

/* An orphan that is dead stays a zombie until the host's own init looks. */
static bool is_zombie(int proc_fd, const char *pid)
{
    char name[300];
    char text[256];
    CR_AUTO_CLOSE int fd = -1;
    const char *end;
    ssize_t n;

    (void)snprintf(name, sizeof(name), "%s/stat", pid);
    fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return true; /* gone */
    text[n] = '\0';
    end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'Z';
}

/* True for pid 1 of a box, also when it ends and has no memory left to be known by. */
static bool is_first(int proc_fd, const char *pid)
{
    char name[NAME_MAX + 8];
    char text[4096];
    CR_AUTO_CLOSE int fd = -1;
    const char *ids;
    const char *end;
    ssize_t n;

    (void)snprintf(name, sizeof(name), "%s/status", pid);
    fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return true; /* gone */
    text[n] = '\0';
    ids = strstr(text, "NSpid:");
    end = ids ? strchr(ids, '\n') : NULL;
    return end && end[-1] == '1' && end[-2] == '\t';
}

/* Of sandbox-init and what it will make a program of, the pool has some that wait. */
static bool is_init(int proc_fd, const char *pid)
{
    char link[NAME_MAX + 8];
    char path[64] = "";

    (void)snprintf(link, sizeof(link), "%s/exe", pid);
    (void)!readlinkat(proc_fd, link, path, sizeof(path) - 1);
    return strstr(path, "/sandbox-init") != NULL || is_first(proc_fd, pid);
}

pid_t native_client_find_child(const struct native_client *client, const char *name)
{
    char path[64];
    pid_t found = 0;
    int pid;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", client->pid, client->pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (found == 0 && fscanf(file, "%d", &pid) == 1) { // NOLINT(cert-err34-c): the kernel's own
        char comm[32] = "";
        FILE *comm_file;

        (void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        comm_file = fopen(path, "re");
        if (!comm_file)
            continue; /* a box that has just ended */
        if (fgets(comm, sizeof(comm), comm_file)) {
            comm[strcspn(comm, "\n")] = 0;
            found = strcmp(comm, name) == 0 ? pid : 0;
        }
        (void)fclose(comm_file);
    }
    (void)fclose(file);
    return found;
}

static int count_processes(const struct native_client *client, bool with_init)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir)) {
        struct stat stat;

        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
            fstatat(dirfd(dir), entry->d_name, &stat, 0) == 0 && stat.st_uid >= client->uid_base &&
            stat.st_uid - client->uid_base < NATIVE_UID_RANGE &&
            (with_init || !is_init(dirfd(dir), entry->d_name)))
            count += !is_zombie(dirfd(dir), entry->d_name);
    }
    (void)closedir(dir);
    return count;
}

int native_client_count_programs(const struct native_client *client)
{
    return count_processes(client, false);
}

int native_client_count_processes(const struct native_client *client)
{
    return count_processes(client, true);
}

int native_count_entries(const char *path, const char *prefix)
{
    DIR *dir = opendir(path);
    int count = 0;

    if (!dir)
        return 0;
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir))
        count += entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    (void)closedir(dir);
    return count;
}

static int count_fds(pid_t pid)
{
    char path[64];
    int count;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    count = native_count_entries(path, "");
    assert_int_not_equal(count, 0);
    return count;
}

int native_count_steady_fds(pid_t pid)
{
    int count = count_fds(pid);

    for (int same = 0; same < 60; same++) {
        int now;

        (void)poll(NULL, 0, 5);
        now = count_fds(pid);
        same = now == count ? same : 0;
        count = now;
    }
    return count;
}
