/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/selftest/probes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define CHUNK (1U << 16)
#define PAGE 4096U
#define TRIES_MAX 100000

/* How often or how much at most: the argument, or more than any box allows. */
static uint64_t most(const char *argument)
{
    const uint64_t value = strtoull(argument, NULL, 10);

    return value > 0 ? value : TRIES_MAX;
}

/* Prints what was reached and why it ended. */
static int report(uint64_t count, int error)
{
    (void)printf("%llu %s\n", (unsigned long long)count, error ? strerrorname_np(error) : "none");
    return fflush(stdout) == 0 ? 0 : 1;
}

_Noreturn static void wait_for_ever(void)
{
    for (;;)
        (void)pause();
}

static int fork_bomb(const char *argument)
{
    for (uint64_t i = 0; i < most(argument); i++) {
        const pid_t pid = fork();

        if (pid < 0)
            return report(i, errno);
        if (pid == 0)
            wait_for_ever();
    }
    return report(most(argument), 0);
}

static void *wait_in_thread(void *argument)
{
    (void)argument;
    wait_for_ever();
}

static int thread_bomb(const char *argument)
{
    pthread_attr_t attributes;

    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, 1U << 16); /* so that memory is not what ends it */
    for (uint64_t i = 0; i < most(argument); i++) {
        pthread_t thread;
        const int error = pthread_create(&thread, &attributes, wait_in_thread, NULL);

        if (error != 0)
            return report(i, error);
    }
    return report(most(argument), 0);
}

/* Processes that end at once and that nobody waits for. */
static int orphan_storm(const char *argument)
{
    for (uint64_t i = 0; i < most(argument); i++) {
        const pid_t pid = fork();

        if (pid == 0)
            _exit(fork() == 0 ? 0 : 1);
        if (pid > 0)
            (void)waitpid(pid, NULL, 0);
    }
    return 0;
}

static int eat_memory(const char *argument)
{
    const size_t size = (size_t)strtoull(argument, NULL, 10);
    volatile char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < size; i += PAGE)
        memory[i] = 1;
    return 0;
}

static int eat_memory_in_child(const char *argument)
{
    const pid_t pid = fork();

    if (pid == 0)
        _exit(eat_memory(argument));
    (void)waitpid(pid, NULL, 0);
    return 0; /* as if nothing had happened */
}

/* Writes until nothing fits; prints the sum over the folders. */
static int fill_bytes(const char *argument)
{
    static const char *const paths[] = {"/workspace/fill", "/tmp/fill", "/dev/shm/fill"};
    static char chunk[CHUNK];
    const uint64_t cap = strtoull(argument, NULL, 10);
    uint64_t total = 0;
    int error = 0;

    for (size_t i = 0; i < CR_ARRAY_SIZE(paths); i++) {
        CR_AUTO_CLOSE int fd = open(paths[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ssize_t written;

        errno = 0;
        while (total < cap && (written = write(fd, chunk, sizeof(chunk))) > 0)
            total += (uint64_t)written;
        error = errno;
    }
    return report(total, error);
}

static int fill_inodes(const char *argument)
{
    uint64_t count = 0;
    int fd;

    for (; count < most(argument); count++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "%s/%llu", count % 2 ? "/tmp" : "/workspace",
                       (unsigned long long)count);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return report(count, errno);
        (void)close(fd);
    }
    return report(count, 0);
}

static int open_files(const char *argument)
{
    for (uint64_t i = 3; i < most(argument); i++) {
        if (dup(0) < 0)
            return report(i, errno);
    }
    return report(most(argument), 0);
}

static int grow_file(const char *argument)
{
    CR_AUTO_CLOSE int fd = open("/workspace/large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    /* SIGXFSZ kills. */
    return ftruncate(fd, (off_t)strtoull(argument, NULL, 10)) < 0 ? 1 : 0;
}

static int use_stack(const volatile char *above, unsigned int depth)
{
    volatile char page[PAGE];

    page[0] = (char)(above ? above[0] + 1 : 1);
    return depth == 0 ? page[0] : use_stack(page, depth - 1) + page[0];
}

static int recurse(const char *argument)
{
    return use_stack(NULL, (unsigned int)strtoul(argument, NULL, 10)) == 0;
}

_Noreturn static int spin(const char *argument)
{
    volatile uint64_t count = 0;

    (void)argument;
    for (;;)
        count++;
}

_Noreturn static int sleep_deaf(const char *argument)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)argument;
    for (int number = 1; number < SIGRTMAX; number++)
        (void)sigaction(number, &ignore, NULL);
    wait_for_ever();
}

static int stop_self(const char *argument)
{
    (void)argument;
    (void)kill(0, SIGSTOP);
    return 0;
}

static int close_and_exit(const char *argument)
{
    (void)close(0);
    (void)close(1);
    (void)close(2);
    return (int)strtol(argument, NULL, 10);
}

static int exit_with(const char *argument)
{
    return (int)strtol(argument, NULL, 10);
}

static int die_of(const char *argument)
{
    (void)kill(getpid(), (int)strtol(argument, NULL, 10));
    return 0;
}

/* A grandchild in a session of its own that keeps the pipes open and hears nothing. */
static int leave_daemon(const char *argument)
{
    (void)argument;
    if (fork() == 0) {
        (void)setsid();
        if (fork() == 0)
            (void)sleep_deaf(NULL);
        _exit(0);
    }
    return wait(NULL) > 0 ? 0 : 1;
}

/* Keeps forking, so that a kill process by process would run behind. */
static int leave_runners(const char *argument)
{
    (void)argument;
    for (int i = 0; i < 8; i++) {
        if (fork() == 0) {
            for (;;) {
                if (fork() > 0)
                    _exit(0);
            }
        }
    }
    return 0;
}

/* What a control message might look like, on every fd that might be a control socket. */
static int forge(const char *argument)
{
    static const uint32_t frame[6] = {4, 0, 0, 0, 0, 0};
    int written = 0;

    (void)argument;
    for (int fd = 3; fd < 1024; fd++)
        written += write(fd, frame, sizeof(frame)) > 0;
    (void)printf("{\"verdict\":\"OK\"}\n5 passed in 0.01s\n");
    (void)fflush(stdout);
    return written ? 99 : 1;
}

static void write_text(const char *path, const char *text)
{
    CR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    (void)!write(fd, text, strlen(text));
}

/* Somebody rewrites the result while and after the leader ends. */
static int rewrite_result(const char *argument)
{
    (void)argument;
    write_text("/workspace/result", "early");
    if (fork() == 0) {
        while (getppid() != 1)
            ;
        for (;;)
            write_text("/workspace/result", "forged");
    }
    return 0;
}

static int make_traps(const char *argument)
{
    CR_AUTO_CLOSE int sparse = open("/workspace/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    (void)argument;
    write_text("/workspace/honest", "honest");
    return symlink("/etc/passwd", "/workspace/link") | symlink("/etc", "/workspace/folder") |
           symlink("/proc/self/root/etc/passwd", "/workspace/magic") |
           mkfifo("/workspace/fifo", 0644) | link("/workspace/honest", "/workspace/second") |
           ftruncate(sparse, 32U << 20);
}

static void print_file(const char *path)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char chunk[4096];
    ssize_t got;

    while ((got = read(fd, chunk, sizeof(chunk))) > 0)
        (void)!write(1, chunk, (size_t)got);
}

static const struct dirent *next_entry(DIR *dir)
{
    return readdir(dir); // NOLINT(concurrency-mt-unsafe): this process has one thread
}

/* The environment of every process in sight. */
static int print_environments(const char *argument)
{
    DIR *dir = opendir("/proc");

    (void)argument;
    if (!dir)
        return 1;
    for (const struct dirent *entry = next_entry(dir); entry; entry = next_entry(dir)) {
        char path[300];

        (void)snprintf(path, sizeof(path), "/proc/%s/environ", entry->d_name);
        print_file(path);
    }
    return closedir(dir);
}

static int print_path(const char *argument)
{
    print_file(argument);
    return 0;
}

static int count_processes(const char *argument)
{
    DIR *dir = opendir("/proc");
    uint64_t count = 0;

    (void)argument;
    for (const struct dirent *entry = dir ? next_entry(dir) : NULL; entry; entry = next_entry(dir))
        count += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
    if (dir)
        (void)closedir(dir);
    return report(count, 0);
}

static int connect_port(const char *argument)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtoul(argument, NULL, 10))};

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return report(0, connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ? errno : 0);
}

/* The address of the abstract socket `name`; returns its size. */
static socklen_t abstract_address(struct sockaddr_un *ret_address, const char *name)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* Waits for callers on 127.0.0.1:1025 and on an abstract socket; says so first. */
static int listen_everywhere(const char *argument)
{
    const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(1025)};
    struct sockaddr_un name;
    const socklen_t name_size = abstract_address(&name, argument);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(tcp, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(tcp, 1) < 0 ||
        bind(local, (const struct sockaddr *)&name, name_size) < 0 || listen(local, 1) < 0)
        return 1;
    (void)report(0, 0);
    wait_for_ever();
}

static int connect_abstract(const char *argument)
{
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un to;
    const socklen_t size = abstract_address(&to, argument);

    return report(0, connect(fd, (const struct sockaddr *)&to, size) < 0 ? errno : 0);
}

/* So that somebody outside can look at this process. */
_Noreturn static int wait_to_be_seen(const char *argument)
{
    (void)argument;
    (void)report(0, 0);
    wait_for_ever();
}

/* "1 BYTES" or "2 BYTES": writes that much to stdout or stderr, as fast as it goes. */
static int flood(const char *argument)
{
    static char chunk[CHUNK];
    char *end;
    const int fd = (int)strtol(argument, &end, 10);
    uint64_t left = strtoull(end, NULL, 10);

    while (left > 0) {
        const ssize_t written = write(fd, chunk, left < sizeof(chunk) ? left : sizeof(chunk));

        if (written < 0)
            return 1;
        left -= (uint64_t)written;
    }
    return 0;
}

/* Fills every folder that can be written with traces. */
static int leave_traces(const char *argument)
{
    (void)argument;
    write_text("/workspace/trace", "x");
    write_text("/tmp/trace", "x");
    write_text("/dev/shm/trace", "x");
    return 0;
}

int probe_behave(const char *name, const char *argument)
{
    static const struct {
        const char *name;
        int (*run)(const char *argument);
    } behaviours[] = {
        {"close-and-exit", close_and_exit},
        {"connect-abstract", connect_abstract},
        {"connect-port", connect_port},
        {"count-processes", count_processes},
        {"die", die_of},
        {"eat-memory", eat_memory},
        {"eat-memory-in-child", eat_memory_in_child},
        {"exit", exit_with},
        {"fill-bytes", fill_bytes},
        {"fill-inodes", fill_inodes},
        {"forge", forge},
        {"flood", flood},
        {"fork-bomb", fork_bomb},
        {"grow-file", grow_file},
        {"leave-daemon", leave_daemon},
        {"leave-runners", leave_runners},
        {"leave-traces", leave_traces},
        {"listen", listen_everywhere},
        {"make-traps", make_traps},
        {"open-files", open_files},
        {"orphan-storm", orphan_storm},
        {"print", print_path},
        {"print-environments", print_environments},
        {"recurse", recurse},
        {"rewrite-result", rewrite_result},
        {"sleep-deaf", sleep_deaf},
        {"spin", spin},
        {"stop-self", stop_self},
        {"thread-bomb", thread_bomb},
        {"wait-to-be-seen", wait_to_be_seen},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(behaviours); i++) {
        if (strcmp(behaviours[i].name, name) == 0)
            return behaviours[i].run(argument);
    }
    return -1;
}
