/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/confine.h"
#include "common/listen.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A folder to write in, one to serve in, one that no rule names; and a port to connect to, and not.
 */
static struct {
    char root[64];
    char writable[80];
    char serving[80];
    char hidden[80];
    struct cr_listen allowed;
    struct cr_listen forbidden;
} place;

static int landlock_abi; /* of the child */

static const char *below(const char *folder, const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static bool is_error(long result, int error)
{
    return result == -1 && errno == error;
}

static bool is_denied_by_landlock(long result)
{
    return landlock_abi == 0 || is_error(result, EACCES);
}

/* ---- what an attacker needs ---- */

static bool cannot_execute(void)
{
    char *const argv[] = {NULL};

    return is_error(execve("/usr/bin/true", argv, argv), EPERM) &&
           is_error(syscall(SYS_execveat, AT_FDCWD, "/usr/bin/true", argv, argv, 0), EPERM);
}

/* What is harmless comes first: it is all that a process which may would do. */
static bool cannot_touch_processes(void)
{
    return is_error(kill(getppid(), 0), EPERM) &&
           is_error(syscall(SYS_pidfd_open, getppid(), 0), EPERM) &&
           is_error(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL), EPERM);
}

static bool cannot_make_namespaces(void)
{
    return is_error(unshare(CLONE_NEWUSER), EPERM) &&
           is_error(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM) &&
           is_error(syscall(SYS_clone3, NULL, 0), ENOSYS);
}

static bool cannot_reach_the_kernel(void)
{
    return is_error(syscall(SYS_bpf, 0, NULL, 0), EPERM) &&
           is_error(syscall(SYS_io_uring_setup, 1, NULL), EPERM) &&
           is_error(syscall(SYS_keyctl, 0, 0), EPERM);
}

static bool cannot_make_odd_sockets(void)
{
    return is_error(socket(AF_PACKET, SOCK_DGRAM, 0), EAFNOSUPPORT) &&
           is_error(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT) &&
           is_error(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT) &&
           is_error(socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), EAFNOSUPPORT);
}

static bool cannot_read_elsewhere(void)
{
    return is_denied_by_landlock(open(below(place.hidden, "secret"), O_RDONLY | O_CLOEXEC)) &&
           is_denied_by_landlock(open(place.hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static bool cannot_write_elsewhere(void)
{
    return is_denied_by_landlock(open(below(place.hidden, "new"), O_CREAT | O_WRONLY, 0600)) &&
           is_denied_by_landlock(unlink(below(place.hidden, "secret"))) &&
           is_denied_by_landlock(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static bool cannot_make_special_files(void)
{
    return is_denied_by_landlock(mkdir(below(place.writable, "folder"), 0700)) &&
           is_denied_by_landlock(symlink("/", below(place.writable, "link"))) &&
           is_denied_by_landlock(mkfifo(below(place.serving, "fifo"), 0600));
}

static int connect_to(uint16_t port)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return fd < 0 ? fd : connect(fd, (const struct sockaddr *)&address, sizeof(address));
}

static bool cannot_connect_elsewhere(void)
{
    int r = connect_to(place.forbidden.port);

    return landlock_abi < 4 || is_error(r, EACCES);
}

static bool cannot_undo_it(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}

/* ---- what a server needs ---- */

static bool can_write_where_it_may(void)
{
    CR_AUTO_CLOSE int fd = open(below(place.writable, "file"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);

    return fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 0) == 0 &&
           unlink(below(place.writable, "file")) == 0;
}

static bool can_serve_where_it_may(void)
{
    struct cr_listen listen = CR_LISTEN_INIT;
    char address[128];

    (void)snprintf(address, sizeof(address), "unix:%s/new/a.sock", place.serving);
    if (cr_listen_open(address, (uid_t)-1, &listen, NULL) < 0)
        return false;
    cr_listen_close(&listen);
    (void)snprintf(address, sizeof(address), "%s/new", place.serving);
    return rmdir(address) == 0;
}

static bool can_connect_where_it_may(void)
{
    return connect_to(place.allowed.port) == 0;
}

static bool can_listen(void)
{
    struct cr_listen listen = CR_LISTEN_INIT;

    if (cr_listen_open("127.0.0.1:0", (uid_t)-1, &listen, NULL) < 0)
        return false;
    cr_listen_close(&listen);
    return true;
}

static bool can_look_up_names(void)
{
    const struct addrinfo hints = {.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    if (getaddrinfo("localhost", "443", &hints, &list) != 0)
        return false;
    freeaddrinfo(list);
    return true;
}

static void *say_so(void *user)
{
    return cannot_execute() ? user : NULL;
}

static bool can_start_threads_that_are_confined_too(void)
{
    pthread_t thread;
    void *result = NULL;

    return pthread_create(&thread, NULL, say_so, &place) == 0 &&
           pthread_join(thread, &result) == 0 && result == &place;
}

/* ---- */

static int confine(void)
{
    const struct cr_confine_path paths[] = {
        {"/etc", CR_CONFINE_READ},
        {"/usr", CR_CONFINE_READ},
        {"/lib", CR_CONFINE_READ},
        {"/dev/urandom", CR_CONFINE_READ},
        {place.writable, CR_CONFINE_WRITE},
        {place.serving, CR_CONFINE_SERVE},
        {"/not/there/at/all", CR_CONFINE_READ},
    };
    const struct cr_confine_policy policy = {
        .paths = paths,
        .path_count = CR_ARRAY_SIZE(paths),
        .sockets = CR_CONFINE_UNIX | CR_CONFINE_INET | CR_CONFINE_ROUTE,
        .may_connect = true,
        .may_bind_tcp = true,
        .has_ports = true,
        .ports = &place.allowed.port,
        .port_count = 1,
    };

    return cr_confine(&policy, &landlock_abi, NULL);
}

static const struct claim {
    const char *name;
    bool (*holds)(void);
    bool is_denial; /* so it must not hold for a process that is not confined */
} claims[] = {
    {"cannot execute", cannot_execute, false}, /* unconfined it would be another program */
    {"cannot touch processes", cannot_touch_processes, true},
    {"cannot make namespaces", cannot_make_namespaces, true},
    {"cannot reach the kernel", cannot_reach_the_kernel, true},
    {"cannot make odd sockets", cannot_make_odd_sockets, true},
    {"cannot read elsewhere", cannot_read_elsewhere, true},
    {"cannot write elsewhere", cannot_write_elsewhere, true},
    {"cannot make special files", cannot_make_special_files, true},
    {"cannot connect elsewhere", cannot_connect_elsewhere, true},
    {"cannot undo it", cannot_undo_it, true},
    {"can write where it may", can_write_where_it_may, false},
    {"can serve where it may", can_serve_where_it_may, false},
    {"can connect where it may", can_connect_where_it_may, false},
    {"can listen", can_listen, false},
    {"can look up names", can_look_up_names, false},
    {"can start threads", can_start_threads_that_are_confined_too, false},
};

/* In a child of its own; a claim that makes a child itself ends that one with it. */
static int exit_code_of(const struct claim *claim, bool is_confined)
{
    pid_t pid = fork();
    int status = -1;

    assert_true(pid >= 0);
    if (pid == 0) {
        landlock_abi = INT32_MAX; /* so that the claims about it can fail */
        if (is_confined && confine() < 0)
            _exit(2);
        _exit(claim->holds() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void confined_process_does_what_it_may_and_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(claims); i++) {
        if (exit_code_of(&claims[i], true) != 0)
            fail_msg("a confined process: %s", claims[i].name);
    }
}

static void process_that_is_not_confined_can(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(claims); i++) {
        if (claims[i].is_denial && exit_code_of(&claims[i], false) != 1)
            fail_msg("a process that is not confined: %s", claims[i].name);
    }
}

static int set_up(void **state)
{
    int fd;

    (void)state;
    test_folder_make(place.root, sizeof(place.root));
    (void)snprintf(place.writable, sizeof(place.writable), "%s/w", place.root);
    (void)snprintf(place.serving, sizeof(place.serving), "%s/s", place.root);
    (void)snprintf(place.hidden, sizeof(place.hidden), "%s/h", place.root);
    assert_int_equal(mkdir(place.writable, 0700), 0);
    assert_int_equal(mkdir(place.serving, 0700), 0);
    assert_int_equal(mkdir(place.hidden, 0700), 0);
    fd = creat(below(place.hidden, "secret"), 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    place.allowed = place.forbidden = (struct cr_listen)CR_LISTEN_INIT;
    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, &place.allowed, NULL), 0);
    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, &place.forbidden, NULL), 0);
    return 0;
}

/* What the claims made when nothing denied it. */
static int tear_down(void **state)
{
    static const char *const made[] = {"w/folder", "w/link", "s/fifo", "h/new",
                                       "h/secret", "w",      "s",      "h"};

    (void)state;
    cr_listen_close(&place.allowed);
    cr_listen_close(&place.forbidden);
    for (size_t i = 0; i < CR_ARRAY_SIZE(made); i++)
        (void)remove(below(place.root, made[i]));
    assert_int_equal(rmdir(place.root), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(confined_process_does_what_it_may_and_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(process_that_is_not_confined_can, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
