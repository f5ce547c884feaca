/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Process 1 of the test machine, from its first instruction to its reset:
 * loads the modules of the initramfs, enters the root filesystem, mounts
 * control groups v2 and nothing else of the kind, runs one command and tells
 * the host how it ended. It stays process 1, so orphans are reaped at once: a
 * zombie counts against the pids.max of its group. With a file /systemd in the
 * initramfs it becomes systemd instead, which starts the command as a service.
 */
#include "common/auto.h"
#include "common/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define COMMAND_MAX (64 << 10)
#define WORDS_MAX 64
#define PORT_PATH_SIZE 300
#define DEVICE_MS 20000
#define CGROUPS "/sys/fs/cgroup"

static int status_fd = -1;

__attribute__((noreturn, format(printf, 1, 2))) static void finish(const char *format, ...)
{
    char text[256];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0 && write(status_fd >= 0 ? status_fd : STDERR_FILENO, text, strlen(text)) < 0)
        perror("vminit: status");
    sync();
    (void)reboot(RB_AUTOBOOT);
    for (;;)
        (void)pause();
}

__attribute__((noreturn)) static void fail(const char *what)
{
    finish("failed %s: %s\n", what, strerrordesc_np(errno));
}

static void mount_at(const char *source, const char *target, const char *type, unsigned long flags,
                     const char *data)
{
    (void)mkdir(target, 0755);
    if (mount(source, target, type, flags, data) < 0)
        fail(target);
}

static void write_file(const char *path, const char *text)
{
    CR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fail(path);
}

/* Reads a small file; an empty text when there is none. */
static void read_file(const char *path, char *ret_text, size_t size)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, ret_text, size - 1);

    ret_text[n > 0 ? n : 0] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
}

/* The names of the files say the order. */
static void load_modules(void)
{
    struct dirent **entries = NULL;
    int count = scandir("/modules", &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        char path[300];

        (void)snprintf(path, sizeof(path), "/modules/%s", entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

            if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
                fail(path);
        }
        free(entries[i]);
    }
    free(entries);
}

/*
 * The device under the folder `devices` whose file `attribute` says `name`, as
 * a path in /dev. The kernel finds devices in its own time: waits for it.
 */
static void find_device(const char *devices, const char *attribute, const char *name,
                        char *ret_path, size_t size)
{
    int64_t deadline_ns = cr_clock_mono_ns() + DEVICE_MS * CR_NS_PER_MS;

    while (cr_clock_mono_ns() < deadline_ns) {
        struct dirent **entries = NULL;
        int count = scandir(devices, &entries, NULL, alphasort);
        bool is_found = false;

        for (int i = 0; i < count; i++) {
            char path[600];
            char text[64];

            (void)snprintf(path, sizeof(path), "%s/%s/%s", devices, entries[i]->d_name, attribute);
            read_file(path, text, sizeof(text));
            if (!is_found && strcmp(text, name) == 0) {
                is_found = true;
                (void)snprintf(ret_path, size, "/dev/%s", entries[i]->d_name);
            }
            free(entries[i]);
        }
        free(entries);
        if (is_found && access(ret_path, F_OK) == 0)
            return;
        (void)poll(NULL, 0, 5);
    }
    errno = ENODEV;
    fail(name);
}

/* The path of the port comes back, too. */
static int open_port(const char *name, char path[PORT_PATH_SIZE])
{
    int fd;

    find_device("/sys/class/virtio-ports", "name", name, path, PORT_PATH_SIZE);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        fail(path);
    return fd;
}

static void mount_disk(const char *serial, const char *target)
{
    char path[300];

    find_device("/sys/block", "serial", serial, path, sizeof(path));
    mount_at(path, target, "ext4", MS_NOATIME, "");
}

/* The root filesystem takes the place of the initramfs, which cannot be unmounted. */
static void enter_root(void)
{
    static const char *const moved[] = {"/proc", "/sys", "/dev"};

    mount_disk("root", "/root");
    mount_disk("payload", "/root/payload");
    for (size_t i = 0; i < CR_ARRAY_SIZE(moved); i++) {
        char target[32];

        (void)snprintf(target, sizeof(target), "/root%s", moved[i]);
        if (mount(moved[i], target, NULL, MS_MOVE, NULL) < 0)
            fail(target);
    }
    if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0)
        fail("enter the root filesystem");
}

/*
 * As under systemd: the command is alone in a group of its own, two levels
 * down, and the controllers are on up to its parent.
 */
static void mount_cgroups(void)
{
    static const char controllers[] = "+cpu +memory +pids";

    mount_at("cgroup2", CGROUPS, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC,
             "nsdelegate,memory_recursiveprot");
    write_file(CGROUPS "/cgroup.subtree_control", controllers);
    if (mkdir(CGROUPS "/system.slice", 0755) < 0)
        fail("system.slice");
    write_file(CGROUPS "/system.slice/cgroup.subtree_control", controllers);
    if (mkdir(CGROUPS "/system.slice/tests.service", 0755) < 0)
        fail("tests.service");
}

static void bring_loopback_up(void)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        fail("loopback");
}

static void set_up_system(void)
{
    static const unsigned long flags = MS_NOSUID | MS_NODEV;

    mount_at("tmpfs", "/run", "tmpfs", flags, "mode=755");
    mount_at("tmpfs", "/tmp", "tmpfs", flags, "mode=1777");
    mount_at("tmpfs", "/dev/shm", "tmpfs", flags, "mode=1777");
    mount_at("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=666");
    mount_cgroups();
    /* As a booted Debian has it: propagation that a sandbox must cut off by itself. */
    if (mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL) < 0)
        fail("share the mounts");
    if (symlink("/proc/self/fd", "/dev/fd") < 0 || symlink("/proc/self/fd/0", "/dev/stdin") < 0 ||
        symlink("/proc/self/fd/1", "/dev/stdout") < 0 ||
        symlink("/proc/self/fd/2", "/dev/stderr") < 0)
        fail("links in /dev");
    bring_loopback_up();
    if (sethostname("crisol-vm", strlen("crisol-vm")) < 0)
        fail("host name");
}

/* The words of /command, each with its NUL. */
static void read_command(char *text, char **ret_words)
{
    CR_AUTO_CLOSE int fd = open("/command", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, COMMAND_MAX - 1);
    size_t count = 0;

    if (n < 0)
        fail("/command");
    text[n] = '\0';
    for (char *at = text; at < text + n && count < WORDS_MAX - 1; at += strlen(at) + 1)
        ret_words[count++] = at;
    ret_words[count] = NULL;
    if (count == 0)
        finish("failed no command\n");
}

__attribute__((noreturn)) static void become_command(int output_fd, char **words)
{
    static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static char home[] = "HOME=/root";
    static char locale[] = "LANG=C.UTF-8";
    static char *const environment[] = {path, home, locale, NULL};
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    write_file(CGROUPS "/system.slice/tests.service/cgroup.procs", "0");
    (void)setsid();
    if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
        dup2(output_fd, STDERR_FILENO) < 0 || chdir("/payload") < 0)
        _exit(126);
    (void)execvpe(words[0], words, environment);
    (void)dprintf(STDERR_FILENO, "vminit: %s: %s\n", words[0], strerrordesc_np(errno));
    _exit(127);
}

/* Reaps everybody until the command has ended; returns its code as a shell gives it. */
static int wait_for_command(pid_t command)
{
    for (;;) {
        int status = 0;
        pid_t pid = wait(&status);

        if (pid < 0 && errno != EINTR)
            fail("wait");
        if (pid == command)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

/* ---- under systemd ---- */

/* In single quotes, as a shell reads it. */
static void write_quoted(FILE *file, const char *word)
{
    (void)fputc('\'', file);
    for (; *word; word++) {
        if (*word == '\'')
            (void)fputs("'\\''", file);
        else
            (void)fputc(*word, file);
    }
    (void)fputs("' ", file);
}

/* A service that runs the command when the basis of the system stands, tells the host, and resets.
 */
static void write_service(char **words, const char *output, const char *status)
{
    static const char unit[] = "[Unit]\n"
                               "After=basic.target\n"
                               "Requires=basic.target\n"
                               "[Service]\n"
                               "Type=oneshot\n"
                               "TimeoutStartSec=infinity\n"
                               "ExecStart=/bin/sh /run/vm-command.sh\n";
    CR_AUTO_FCLOSE FILE *script = fopen("/run/vm-command.sh", "we");
    CR_AUTO_FCLOSE FILE *service = NULL;

    if (!script || (mkdir("/run/systemd", 0755) < 0 && errno != EEXIST) ||
        mkdir("/run/systemd/system", 0755) < 0)
        fail("/run");
    (void)fputs("cd /payload && ", script);
    for (size_t i = 0; words[i]; i++)
        write_quoted(script, words[i]);
    (void)fprintf(script,
                  ">%s 2>&1 </dev/null\necho \"exit $?\" >%s\nsync\n"
                  "echo b >/proc/sysrq-trigger\n",
                  output, status);
    service = fopen("/run/systemd/system/vm-command.service", "we");
    if (!service || fputs(unit, service) < 0)
        fail("vm-command.service");
}

/* Does not return. */
static void become_systemd(char **words, const char *output, const char *status)
{
    static char path[] = "/lib/systemd/systemd";
    static char unit[] = "--unit=vm-command.service";
    static char *const argv[] = {path, unit, NULL};
    static char *const environment[] = {NULL};

    mount_at("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
    write_service(words, output, status);
    (void)execve(path, argv, environment);
    fail(path);
}

int main(void)
{
    static char text[COMMAND_MAX];
    static char *words[WORDS_MAX];
    static char status_path[PORT_PATH_SIZE];
    static char output_path[PORT_PATH_SIZE];
    bool is_systemd = access("/systemd", F_OK) == 0;
    int output_fd;
    pid_t command;

    mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
    mount_at("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
    mount_at("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=755");
    load_modules();
    status_fd = open_port("status", status_path);
    output_fd = open_port("output", output_path);
    read_command(text, words);
    enter_root();
    if (is_systemd) {
        /* A port is for one program at a time. */
        (void)close(output_fd);
        cr_close_fd(&status_fd);
        become_systemd(words, output_path, status_path);
    }
    set_up_system();
    command = fork();
    if (command < 0)
        fail("fork");
    if (command == 0)
        become_command(output_fd, words);
    finish("exit %d\n", wait_for_command(command));
}
