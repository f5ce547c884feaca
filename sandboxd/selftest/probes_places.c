/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/selftest/probes.h"
#include "sandboxd/wire/msg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#define OPEN(name, path, flags)                                                                    \
    static long name(void)                                                                         \
    {                                                                                              \
        return open(path, (flags) | O_CLOEXEC, 0600);                                              \
    }

/* Another process: pid 1 belongs to another user and is not in /proc. */
OPEN(init_memory, "/proc/1/mem", O_RDWR)
OPEN(init_environ, "/proc/1/environ", O_RDONLY)
OPEN(init_fds, "/proc/1/fd", O_RDONLY)
OPEN(init_root, "/proc/1/root", O_RDONLY)
/* Knobs and leaks of the kernel. */
OPEN(core_pattern, "/proc/sys/kernel/core_pattern", O_WRONLY)
OPEN(sysrq, "/proc/sysrq-trigger", O_WRONLY)
OPEN(kcore, "/proc/kcore", O_RDONLY)
OPEN(kallsyms, "/proc/kallsyms", O_RDONLY)
OPEN(keys, "/proc/keys", O_RDONLY)
OPEN(config, "/proc/config.gz", O_RDONLY)
OPEN(cpu_info, "/proc/cpuinfo", O_RDONLY)
OPEN(sys_folder, "/sys/kernel", O_RDONLY)
OPEN(cgroup_folder, "/sys/fs/cgroup", O_RDONLY)
/* Devices. */
OPEN(dev_mem, "/dev/mem", O_RDONLY)
OPEN(dev_kmsg, "/dev/kmsg", O_RDONLY)
OPEN(dev_kvm, "/dev/kvm", O_RDWR)
OPEN(dev_fuse, "/dev/fuse", O_RDWR)
OPEN(dev_tun, "/dev/net/tun", O_RDWR)
OPEN(dev_disk, "/dev/vda", O_RDONLY)
OPEN(dev_loop, "/dev/loop-control", O_RDWR)
OPEN(dev_tty, "/dev/tty", O_RDWR)
OPEN(dev_null, "/dev/null", O_RDWR)
/* The root file system. */
OPEN(write_root, "/probe", O_WRONLY | O_CREAT)
OPEN(write_etc, "/etc/probe", O_WRONLY | O_CREAT)
OPEN(write_usr, "/usr/lib/probe", O_WRONLY | O_CREAT)
OPEN(write_passwd, "/etc/passwd", O_WRONLY)
OPEN(write_dev, "/dev/probe", O_WRONLY | O_CREAT)
OPEN(write_home, "/home/probe", O_WRONLY | O_CREAT)
OPEN(write_var_tmp, "/var/tmp/probe", O_WRONLY | O_CREAT)
OPEN(write_python, "/usr/bin/python3", O_WRONLY)
/* The host's files and sockets. */
OPEN(shadow, "/etc/shadow", O_RDONLY)
OPEN(machine_id, "/etc/machine-id", O_RDONLY)
OPEN(resolv_conf, "/etc/resolv.conf", O_RDONLY)
OPEN(root_home, "/root", O_RDONLY)
OPEN(docker_socket, "/var/run/docker.sock", O_RDWR)
OPEN(docker_socket_run, "/run/docker.sock", O_RDWR)
OPEN(containerd_socket, "/run/containerd/containerd.sock", O_RDWR)
OPEN(crisol_socket, "/run/crisol/sandboxd.sock", O_RDWR)
OPEN(systemd_socket, "/run/systemd/private", O_RDWR)
OPEN(dbus_socket, "/run/dbus/system_bus_socket", O_RDWR)

static long oom_score(void)
{
    CR_AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -1 : write(fd, "-1000", 5);
}

static long make_device(void)
{
    return mknod("/workspace/device", S_IFCHR | 0600, makedev(1, 1));
}

static long hard_link_out(void)
{
    return link("/etc/passwd", "/workspace/passwd");
}

static long copy_self(const char *path)
{
    CR_AUTO_CLOSE int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CR_AUTO_CLOSE int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    char chunk[65536];
    ssize_t got;

    while ((got = read(from, chunk, sizeof(chunk))) > 0) {
        if (write(to, chunk, (size_t)got) != got)
            return -1;
    }
    return to < 0 ? -1 : fchmod(to, 04711);
}

static long execute_at(const char *path)
{
    char *const argv[] = {(char[]){"sbprobe"}, (char[]){"exit"}, (char[]){"0"}, NULL};
    char *const envp[] = {NULL};
    CR_AUTO_CLOSE int fd = -1;
    char by_fd[32];

    if (copy_self(path) < 0)
        return -1;
    /* Without the control the folder may be the host's: it must not keep a set-user-id program. */
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || unlink(path) < 0)
        return -1;
    (void)snprintf(by_fd, sizeof(by_fd), "/proc/self/fd/%d", fd);
    return execve(by_fd, argv, envp);
}

static long execute_in_tmp(void)
{
    return execute_at("/tmp/sbprobe");
}

static long execute_in_shm(void)
{
    return execute_at("/dev/shm/sbprobe");
}

static long execute_in_workspace(void)
{
    return execute_at("/workspace/copy");
}

static long map_code_in_tmp(void)
{
    CR_AUTO_CLOSE int fd = open("/tmp/code", O_RDWR | O_CREAT | O_CLOEXEC, 0700);

    if (fd < 0 || ftruncate(fd, 4096) < 0)
        return 0;
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}

static long connect_to(int type, const char *address, uint16_t port)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        return 0;
    return connect(fd, (const struct sockaddr *)&to, sizeof(to));
}

static long connect_metadata(void)
{
    return connect_to(SOCK_STREAM, "169.254.169.254", 80);
}

static long connect_dns(void)
{
    return connect_to(SOCK_DGRAM, "8.8.8.8", 53);
}

static long connect_private(void)
{
    return connect_to(SOCK_STREAM, "10.0.0.1", 443);
}

static long connect_six(void)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(53)};

    if (fd < 0 || inet_pton(AF_INET6, "2001:4860:4860::8888", &to.sin6_addr) != 1)
        return 0;
    return connect(fd, (const struct sockaddr *)&to, sizeof(to));
}

static long loopback(void)
{
    CR_AUTO_CLOSE int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CR_AUTO_CLOSE int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(server, (struct sockaddr *)&address, size) < 0 || listen(server, 1) < 0 ||
        getsockname(server, (struct sockaddr *)&address, &size) < 0)
        return -1;
    return connect(client, (struct sockaddr *)&address, size);
}

/* Every entry of a folder, sorted, joined by blanks, must be `expected`. */
static long folder_is(const char *path, const char *expected)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    char text[512] = "";

    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            (void)strncat(text, entries[i]->d_name, sizeof(text) - strlen(text) - 1);
            (void)strncat(text, " ", sizeof(text) - strlen(text) - 1);
        }
        free(entries[i]);
    }
    free(entries);
    if (strcmp(text, expected) == 0)
        return 0;
    (void)fprintf(stderr, "%s: %s\n", path, text);
    errno = EEXIST;
    return -1;
}

static long dev_is_complete(void)
{
    return folder_is("/dev", "fd full null random shm stderr stdin stdout urandom zero ");
}

static long workspace_is_clean(void)
{
    return folder_is("/workspace", "sbprobe ");
}

static long tmp_is_clean(void)
{
    return folder_is("/tmp", "");
}

static long shm_is_clean(void)
{
    return folder_is("/dev/shm", "");
}

static long only_three_fds(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            errno = EEXIST;
            return -1;
        }
    }
    return 0;
}

static long no_terminal(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (isatty(fd)) {
            errno = EEXIST;
            return -1;
        }
    }
    return 0;
}

static long no_core_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 0)
        return 0;
    errno = EEXIST;
    return -1;
}

/* True when a file has a line that begins with `text`. */
static bool has_line(const char *path, const char *text)
{
    FILE *file = fopen(path, "re");
    char line[512];
    bool found = false;

    while (file && fgets(line, sizeof(line), file))
        found = found || strncmp(line, text, strlen(text)) == 0;
    if (file)
        (void)fclose(file);
    return found;
}

/* "name:\tvalue\n" of this process, as the kernel says it. */
static long has_status(const char *line)
{
    if (has_line("/proc/self/status", line))
        return 0;
    errno = EPERM;
    return -1;
}

#define STATUS(name, line)                                                                         \
    static long name(void)                                                                         \
    {                                                                                              \
        return has_status(line);                                                                   \
    }

STATUS(status_seccomp, "Seccomp:\t2\n")
STATUS(status_no_new_privs, "NoNewPrivs:\t1\n")
STATUS(status_uid, "Uid:\t1000\t1000\t1000\t1000\n")
STATUS(status_gid, "Gid:\t1000\t1000\t1000\t1000\n")
STATUS(status_inheritable, "CapInh:\t0000000000000000\n")
STATUS(status_permitted, "CapPrm:\t0000000000000000\n")
STATUS(status_effective, "CapEff:\t0000000000000000\n")
STATUS(status_bounding, "CapBnd:\t0000000000000000\n")
STATUS(status_ambient, "CapAmb:\t0000000000000000\n")

static long in_workspace(void)
{
    char path[64];

    if (getcwd(path, sizeof(path)) && strcmp(path, "/workspace") == 0)
        return 0;
    errno = EXDEV;
    return -1;
}

static const struct probe places[] = {
    {"C20", "workspace-is-clean", SBX_CONTROL_TMPFS, "ok", false, workspace_is_clean},
    {"C20", "tmp-is-clean", SBX_CONTROL_TMPFS, "ok", false, tmp_is_clean},
    {"C20", "shm-is-clean", SBX_CONTROL_TMPFS, "ok", false, shm_is_clean},
    {"E13", "write-root", SBX_CONTROL_ROOTFS, "EROFS", false, write_root},
    {"E13", "write-etc", SBX_CONTROL_ROOTFS, "EROFS", false, write_etc},
    {"E13", "write-usr", SBX_CONTROL_ROOTFS, "EROFS", false, write_usr},
    {"E13", "write-passwd", SBX_CONTROL_ROOTFS, "EACCES", false, write_passwd},
    {"E13", "write-dev", SBX_CONTROL_ROOTFS, "EROFS", false, write_dev},
    {"E13", "write-home", SBX_CONTROL_ROOTFS, "EROFS", false, write_home},
    {"E13", "write-var-tmp", SBX_CONTROL_ROOTFS, "EROFS", true, write_var_tmp},
    {"E13", "write-python", SBX_CONTROL_ROOTFS, "EACCES", false, write_python},
    {"E24", "init-memory", SBX_CONTROL_PROC, "ENOENT", true, init_memory},
    {"E24", "init-environ", SBX_CONTROL_PROC, "ENOENT", true, init_environ},
    {"E24", "init-fds", SBX_CONTROL_PROC, "ENOENT", true, init_fds},
    {"E24", "init-root", SBX_CONTROL_PROC, "ENOENT", true, init_root},
    {"E26", "core-pattern", SBX_CONTROL_PROC, "ENOENT", true, core_pattern},
    {"E27", "sysrq", SBX_CONTROL_PROC, "ENOENT", true, sysrq},
    {"E28", "kcore", SBX_CONTROL_PROC, "ENOENT", true, kcore},
    {"E28", "keys", SBX_CONTROL_PROC, "ENOENT", true, keys},
    {"E32", "cgroup-folder", SBX_CONTROL_PROC, "ENOENT", true, cgroup_folder},
    {"E33", "sys-folder", SBX_CONTROL_PROC, "ENOENT", true, sys_folder},
    {"E34", "make-device", SBX_CONTROL_CAPABILITIES, "EPERM", false, make_device},
    {"E35", "dev-mem", SBX_CONTROL_DEV, "ENOENT", false, dev_mem},
    {"E35", "dev-kmsg", SBX_CONTROL_DEV, "ENOENT", true, dev_kmsg},
    {"E35", "dev-kvm", SBX_CONTROL_DEV, "ENOENT", false, dev_kvm},
    {"E35", "dev-fuse", SBX_CONTROL_DEV, "ENOENT", false, dev_fuse},
    {"E35", "dev-tun", SBX_CONTROL_DEV, "ENOENT", false, dev_tun},
    {"E35", "dev-disk", SBX_CONTROL_DEV, "ENOENT", false, dev_disk},
    {"E35", "dev-loop", SBX_CONTROL_DEV, "ENOENT", false, dev_loop},
    {"E35", "dev-null", SBX_CONTROL_DEV, "ok", false, dev_null},
    {"E35", "dev-is-complete", SBX_CONTROL_DEV, "ok", false, dev_is_complete},
    {"E46", "dev-tty", SBX_CONTROL_DEV, "ENOENT", true, dev_tty},
    {"E46", "no-terminal", SBX_CONTROL_DEV, "ok", false, no_terminal},
    {"E51", "execute-in-tmp", SBX_CONTROL_TMPFS, "EACCES", false, execute_in_tmp},
    {"E51", "execute-in-shm", SBX_CONTROL_TMPFS, "EACCES", false, execute_in_shm},
    {"E51", "execute-in-workspace", SBX_CONTROL_TMPFS, "ok", false, execute_in_workspace},
    {"E51", "map-code-in-tmp", SBX_CONTROL_TMPFS, "EPERM", false, map_code_in_tmp},
    {"E53", "status-seccomp", SBX_CONTROL_SECCOMP, "ok", false, status_seccomp},
    {"E53", "status-no-new-privs", SBX_CONTROL_NO_NEW_PRIVS, "ok", false, status_no_new_privs},
    {"E53", "status-uid", SBX_CONTROL_USER, "ok", false, status_uid},
    {"E53", "status-gid", SBX_CONTROL_USER, "ok", false, status_gid},
    {"E53", "status-inheritable", SBX_CONTROL_CAPABILITIES, "ok", false, status_inheritable},
    {"E53", "status-permitted", SBX_CONTROL_CAPABILITIES, "ok", false, status_permitted},
    {"E53", "status-effective", SBX_CONTROL_CAPABILITIES, "ok", false, status_effective},
    {"E53", "status-bounding", SBX_CONTROL_CAPABILITIES, "ok", false, status_bounding},
    {"E53", "status-ambient", SBX_CONTROL_CAPABILITIES, "ok", false, status_ambient},
    {"E55", "only-three-fds", SBX_CONTROL_IPC, "ok", false, only_three_fds},
    {"E56", "in-workspace", SBX_CONTROL_TMPFS, "ok", false, in_workspace},
    {"E58", "hard-link-out", SBX_CONTROL_ROOTFS, "EXDEV", false, hard_link_out},
    {"E60", "oom-score", SBX_CONTROL_CAPABILITIES, "EACCES", false, oom_score},
    {"E70", "docker-socket", SBX_CONTROL_ROOTFS, "ENOENT", false, docker_socket},
    {"E70", "docker-socket-run", SBX_CONTROL_ROOTFS, "ENOENT", false, docker_socket_run},
    {"E70", "containerd-socket", SBX_CONTROL_ROOTFS, "ENOENT", false, containerd_socket},
    {"E70", "crisol-socket", SBX_CONTROL_ROOTFS, "ENOENT", false, crisol_socket},
    {"E70", "systemd-socket", SBX_CONTROL_ROOTFS, "ENOENT", false, systemd_socket},
    {"E70", "dbus-socket", SBX_CONTROL_ROOTFS, "ENOENT", false, dbus_socket},
    {"L05", "shadow", SBX_CONTROL_ROOTFS, "ENOENT", true, shadow},
    {"L05", "machine-id", SBX_CONTROL_ROOTFS, "ENOENT", false, machine_id},
    {"L05", "resolv-conf", SBX_CONTROL_ROOTFS, "ENOENT", false, resolv_conf},
    {"L05", "root-home", SBX_CONTROL_ROOTFS, "ENOENT", true, root_home},
    {"L06", "kallsyms", SBX_CONTROL_PROC, "ENOENT", true, kallsyms},
    {"L07", "kernel-config", SBX_CONTROL_PROC, "ENOENT", false, config},
    {"L07", "cpuinfo", SBX_CONTROL_PROC, "ENOENT", true, cpu_info},
    {"L11", "connect-metadata", SBX_CONTROL_NETWORK, "ENETUNREACH", false, connect_metadata},
    {"L11", "connect-dns", SBX_CONTROL_NETWORK, "ENETUNREACH", false, connect_dns},
    {"L11", "connect-private", SBX_CONTROL_NETWORK, "ENETUNREACH", false, connect_private},
    {"L13", "connect-ipv6", SBX_CONTROL_NETWORK, "ENETUNREACH", false, connect_six},
    {"L14", "loopback", SBX_CONTROL_NETWORK, "ok", false, loopback},
    {"R34", "no-core-files", SBX_CONTROL_RLIMITS, "ok", false, no_core_files},
};

const struct probe *probes_places(size_t *ret_count)
{
    *ret_count = CR_ARRAY_SIZE(places);
    return places;
}
