/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/privilege.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define NOBODY_IN_PARTICULAR 12345

/* A folder of its own for each test, and the address of a socket two levels below /tmp. */
struct place {
    char folder[64];
    char inner[80];
    char path[96];
    char lock[104];
    char address[104];
    int fds_before;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    assert_non_null(place);
    test_folder_make(place->folder, sizeof(place->folder));
    (void)snprintf(place->inner, sizeof(place->inner), "%s/run", place->folder);
    (void)snprintf(place->path, sizeof(place->path), "%s/a.sock", place->inner);
    (void)snprintf(place->lock, sizeof(place->lock), "%s.lock", place->path);
    (void)snprintf(place->address, sizeof(place->address), "unix:%s", place->path);
    place->fds_before = test_count_fds();
    *state = place;
    return 0;
}

/* Every test leaves its fds closed and its files removed: the folders must be empty. */
static int tear_down(void **state)
{
    struct place *place = *state;

    assert_int_equal(test_count_fds(), place->fds_before);
    assert_true(rmdir(place->inner) == 0 || errno == ENOENT);
    assert_int_equal(rmdir(place->folder), 0);
    free(place);
    return 0;
}

static int connect_to(const char *path)
{
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

/* A socket of a program that takes no lock. */
static int serve_plainly(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void listen_makes_a_private_socket_in_a_private_folder(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct stat info;

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &listen, NULL), 0);

    assert_int_equal(stat(place->path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(stat(place->inner, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(connect_to(place->path), 0);
    assert_string_equal(listen.path, place->path);
    assert_true(fcntl(listen.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(listen.fd, F_GETFL) & O_NONBLOCK);
    cr_listen_close(&listen);
    cr_listen_close(&listen);
    assert_int_equal(access(place->path, F_OK), -1);
    assert_int_equal(access(place->lock, F_OK), -1);
}

static void listen_gives_socket_and_folder_to_their_owner(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct stat info;

    if (geteuid() != 0)
        skip();
    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, NULL), 0);

    assert_int_equal(stat(place->path, &info), 0);
    assert_int_equal(info.st_uid, NOBODY_IN_PARTICULAR);
    assert_int_equal(stat(place->inner, &info), 0);
    assert_int_equal(info.st_uid, NOBODY_IN_PARTICULAR);
    cr_listen_close(&listen);
}

static uid_t owner_of(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    return info.st_uid;
}

/* What a server of another owner has left behind must not shut the next one out. */
static void listen_opens_a_folder_that_it_left_to_the_new_owner(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    char other[128];

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(place->inner, 0700), 0);

    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, &err), 0);
    assert_int_equal(owner_of(place->inner), NOBODY_IN_PARTICULAR);
    cr_listen_close(&listen);

    /* One of a third user, and one in which there is something else, are left as they are. */
    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR + 1, &listen, &err),
                     -EACCES);
    assert_non_null(strstr(err.text, "cannot be entered by uid 12346"));
    assert_int_equal(chown(place->inner, 0, 0), 0);
    (void)snprintf(other, sizeof(other), "%s/other", place->inner);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, &err), -EACCES);
    assert_int_equal(owner_of(place->inner), 0);
    assert_int_equal(chmod(place->inner, 0711), 0);
    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, &err), 0);
    assert_int_equal(owner_of(place->inner), 0);
    cr_listen_close(&listen);
    assert_int_equal(rmdir(other), 0);
}

/* Whoever can put a link in the way would have any empty folder of root's for himself. */
static void listen_gives_no_folder_away_behind_a_link(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    char private[sizeof(place->folder) + 16];

    if (geteuid() != 0)
        skip();
    (void)snprintf(private, sizeof(private), "%s/private", place->folder);
    assert_int_equal(mkdir(private, 0700), 0);
    assert_int_equal(symlink("private", place->inner), 0);

    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, &err), -EACCES);
    assert_int_equal(owner_of(private), 0);
    assert_int_equal(chmod(private, 0711), 0); /* as a link it is as good as any */
    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, &err), 0);
    cr_listen_close(&listen);
    assert_int_equal(unlink(place->inner), 0);
    assert_int_equal(rmdir(private), 0);
}

static void listen_gives_no_folder_away_when_it_fails(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(place->inner, 0700), 0);
    assert_int_equal(mkdir(place->path, 0700), 0);

    assert_int_equal(cr_listen_open(place->address, NOBODY_IN_PARTICULAR, &listen, NULL), -EEXIST);
    assert_int_equal(owner_of(place->inner), 0);
    assert_int_equal(rmdir(place->path), 0);
}

static void listen_refuses_the_path_of_a_live_server_and_names_it(void **state)
{
    const struct place *place = *state;
    struct cr_listen first = CR_LISTEN_INIT;
    struct cr_listen second = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    char pid[32];

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &first, NULL), 0);

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &second, &err), -EADDRINUSE);

    (void)snprintf(pid, sizeof(pid), "(pid %ld)", (long)getpid());
    assert_non_null(strstr(err.text, place->path));
    assert_non_null(strstr(err.text, pid));
    assert_int_equal(second.fd, -1);
    assert_int_equal(connect_to(place->path), 0);
    cr_listen_close(&first);
}

static void listen_replaces_what_a_killed_server_left(void **state)
{
    const struct place *place = *state;
    struct cr_listen first = CR_LISTEN_INIT;
    struct cr_listen second = CR_LISTEN_INIT;

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &first, NULL), 0);
    (void)close(first.fd);
    (void)close(first.lock_fd);
    assert_int_equal(connect_to(place->path), -ECONNREFUSED);

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &second, NULL), 0);

    assert_int_equal(connect_to(place->path), 0);
    cr_listen_close(&second);
}

static void listen_leaves_the_socket_of_another_program_alone(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    int other;

    assert_int_equal(mkdir(place->inner, 0700), 0);
    other = serve_plainly(place->path);

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &listen, &err), -EADDRINUSE);

    assert_non_null(strstr(err.text, "another program"));
    assert_int_equal(connect_to(place->path), 0);
    assert_int_equal(access(place->lock, F_OK), -1);
    (void)close(other);
    assert_int_equal(unlink(place->path), 0);
}

static void listen_leaves_a_plain_file_alone(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(mkdir(place->inner, 0700), 0);
    assert_int_equal(close(creat(place->path, 0600)), 0);

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &listen, &err), -EEXIST);

    assert_non_null(strstr(err.text, "is not a socket"));
    assert_int_equal(unlink(place->path), 0);
}

static void listen_does_not_follow_a_link_to_its_lock(void **state)
{
    const struct place *place = *state;
    struct cr_listen listen = CR_LISTEN_INIT;

    assert_int_equal(mkdir(place->inner, 0700), 0);
    assert_int_equal(symlink("elsewhere", place->lock), 0);

    assert_int_equal(cr_listen_open(place->address, (uid_t)-1, &listen, NULL), -ELOOP);

    assert_int_equal(unlink(place->lock), 0);
}

static void listen_takes_a_free_port_and_reports_it(void **state)
{
    static const char *const ADDRESSES[] = {"127.0.0.1:0", "localhost:0", "[::1]:0"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(ADDRESSES); i++) {
        struct cr_listen listen = CR_LISTEN_INIT;
        int r = cr_listen_open(ADDRESSES[i], (uid_t)-1, &listen, NULL);

        /* A machine without IPv6. */
        if (r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT)
            continue;
        assert_int_equal(r, 0);
        assert_true(listen.port > 0);
        assert_string_equal(listen.path, "");
        cr_listen_close(&listen);
    }
}

static void listen_names_a_taken_port_and_its_holder(void **state)
{
    struct cr_listen first = CR_LISTEN_INIT;
    struct cr_listen second = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    char address[32];
    char expected[64];

    (void)state;
    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, &first, NULL), 0);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", first.port);

    assert_int_equal(cr_listen_open(address, (uid_t)-1, &second, &err), -EADDRINUSE);

    (void)snprintf(expected, sizeof(expected), "port %u is taken by process %ld (", first.port,
                   (long)getpid());
    assert_non_null(strstr(err.text, expected));
    cr_listen_close(&first);
}

/* As the orchestrator, which drops root before it listens, meets another orchestrator. */
static int meet_without_privilege(const char *address)
{
    struct cr_listen second = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    char expected[64];

    (void)snprintf(expected, sizeof(expected), "taken by a process of user %u; 'sudo ss ",
                   (unsigned)getuid());
    if (cr_privilege_drop(getuid() == 0 ? 64903 : getuid(), getgid(), &err) < 0)
        return 1;
    if (cr_listen_open(address, (uid_t)-1, &second, &err) != -EADDRINUSE)
        return 2;
    return strstr(err.text, expected) ? 0 : 3;
}

static void listen_names_the_user_of_a_holder_that_it_may_not_see(void **state)
{
    struct cr_listen first = CR_LISTEN_INIT;
    char address[32];
    int status = 0;
    pid_t child;

    (void)state;
    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, &first, NULL), 0);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", first.port);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), 0);

    child = fork();
    if (child == 0) {
        cr_listen_close(&first); /* else it would find itself */
        _exit(meet_without_privilege(address));
    }

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    cr_listen_close(&first);
    assert_int_equal(status, 0);
}

static const struct {
    const char *address;
    int r;
    const char *expects;
} bad[] = {
    {"unix:relative.sock", -EINVAL, "not absolute"},
    {"unix:", -EINVAL, "not absolute"},
    {"unix:/tmp/", -EINVAL, "file name is missing"},
    {"unix:/tmp/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     -ENAMETOOLONG, "at most 107"},
    {"unix:/nowhere/at/all.sock", -ENOENT, "'/nowhere/at'"},
    {"", -EINVAL, "no port"},
    {"127.0.0.1", -EINVAL, "no port"},
    {":80", -EINVAL, "no host"},
    {"127.0.0.1:", -EINVAL, "0 to 65535"},
    {"127.0.0.1:65536", -EINVAL, "0 to 65535"},
    {"127.0.0.1:-1", -EINVAL, "0 to 65535"},
    {"127.0.0.1:+1", -EINVAL, "0 to 65535"},
    {"127.0.0.1:1x", -EINVAL, "0 to 65535"},
    {"127.0.0.1: 1", -EINVAL, "0 to 65535"},
    {"::1:80", -EINVAL, "[ADDRESS]:PORT"},
    {"example.org:80", -EINVAL, "not an IP address"},
    {"[::1:80", -EINVAL, "[ADDRESS]:PORT"},
};

static void listen_says_what_is_wrong_with_an_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct cr_listen listen = CR_LISTEN_INIT;
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(cr_listen_open(bad[i].address, (uid_t)-1, &listen, &err), bad[i].r);
        assert_non_null(strstr(err.text, bad[i].expects));
        assert_int_equal(listen.fd, -1);
    }
}

#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLACE(listen_makes_a_private_socket_in_a_private_folder),
        WITH_PLACE(listen_gives_socket_and_folder_to_their_owner),
        WITH_PLACE(listen_opens_a_folder_that_it_left_to_the_new_owner),
        WITH_PLACE(listen_gives_no_folder_away_behind_a_link),
        WITH_PLACE(listen_gives_no_folder_away_when_it_fails),
        WITH_PLACE(listen_refuses_the_path_of_a_live_server_and_names_it),
        WITH_PLACE(listen_replaces_what_a_killed_server_left),
        WITH_PLACE(listen_leaves_the_socket_of_another_program_alone),
        WITH_PLACE(listen_leaves_a_plain_file_alone),
        WITH_PLACE(listen_does_not_follow_a_link_to_its_lock),
        WITH_PLACE(listen_takes_a_free_port_and_reports_it),
        WITH_PLACE(listen_names_a_taken_port_and_its_holder),
        WITH_PLACE(listen_names_the_user_of_a_holder_that_it_may_not_see),
        WITH_PLACE(listen_says_what_is_wrong_with_an_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
