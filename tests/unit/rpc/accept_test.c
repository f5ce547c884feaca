/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/listen.h"
#include "rpc/accept.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static int connect_v4(uint16_t port)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return cr_take_fd(&fd);
}

static int connect_v6(uint16_t port)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    address.sin6_addr = in6addr_loopback;
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return cr_take_fd(&fd);
}

static int connect_unix(const char *path)
{
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return cr_take_fd(&fd);
}

static void wait_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&wait, 1, 30000), 1);
}

/* Opens, or skips when the machine has no such address. */
static struct cr_listen open_or_skip(const char *address)
{
    struct cr_listen listen = CR_LISTEN_INIT;

    if (cr_listen_open(address, (uid_t)-1, &listen, NULL) < 0)
        skip();
    return listen;
}

/* The caller closes its fd. */
static struct rpc_accepted accept_one(const struct cr_listen *listen, int client)
{
    CR_AUTO_CLOSE int spare = -1;
    struct rpc_accepted accepted;

    assert_true(client >= 0);
    wait_readable(listen->fd);
    assert_int_equal(rpc_accept(listen->fd, false, &spare, &accepted), RPC_ACCEPT_DONE);
    return accepted;
}

static void accept_knows_a_caller_by_its_user(void **state)
{
    char folder[TEST_PATH_SIZE];
    struct cr_listen listen = CR_LISTEN_INIT;
    struct rpc_accepted accepted;
    CR_AUTO_CLOSE int client = -1;
    CR_AUTO_CLOSE int spare = -1;
    char address[64];
    char expected[64];

    (void)state;
    test_folder_make(folder, sizeof(folder));
    (void)snprintf(address, sizeof(address), "unix:%s/a.sock", folder);
    assert_int_equal(cr_listen_open(address, (uid_t)-1, &listen, NULL), 0);
    assert_int_equal(rpc_accept(listen.fd, true, &spare, &accepted), RPC_ACCEPT_NOTHING);
    client = connect_unix(listen.path);

    assert_int_equal(rpc_accept(listen.fd, true, &spare, &accepted), RPC_ACCEPT_DONE);

    (void)snprintf(expected, sizeof(expected), "uid:%u", getuid());
    assert_true(accepted.peer.is_unix);
    assert_int_equal(accepted.peer.uid, getuid());
    assert_int_equal(accepted.peer.pid, getpid());
    assert_string_equal(accepted.peer.caller, expected);
    assert_string_equal(accepted.quota_key, expected);
    assert_true(fcntl(accepted.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(accepted.fd, F_GETFL) & O_NONBLOCK);
    (void)close(accepted.fd);
    cr_listen_close(&listen);
    assert_int_equal(rmdir(folder), 0);
}

static void accept_knows_a_caller_by_its_address(void **state)
{
    struct cr_listen listen = open_or_skip("127.0.0.1:0");
    CR_AUTO_CLOSE int client = connect_v4(listen.port);
    struct rpc_accepted accepted = accept_one(&listen, client);

    (void)state;
    assert_false(accepted.peer.is_unix);
    assert_string_equal(accepted.peer.caller, "ip:127.0.0.1");
    assert_string_equal(accepted.quota_key, "ip:127.0.0.1");
    assert_true(strncmp(accepted.peer.address, "127.0.0.1:", 10) == 0);
    (void)close(accepted.fd);
    cr_listen_close(&listen);
}

/* Quotas are for the whole network: one customer line has 2^64 addresses. */
static void accept_counts_an_ipv6_network_as_one(void **state)
{
    struct cr_listen listen = open_or_skip("[::1]:0");
    CR_AUTO_CLOSE int client = connect_v6(listen.port);
    struct rpc_accepted accepted = accept_one(&listen, client);

    (void)state;
    assert_string_equal(accepted.peer.caller, "ip:::1");
    assert_string_equal(accepted.quota_key, "net:::");
    (void)close(accepted.fd);
    cr_listen_close(&listen);
}

static void accept_sees_ipv4_behind_an_ipv6_socket(void **state)
{
    struct cr_listen listen = open_or_skip("[::]:0");
    CR_AUTO_CLOSE int client = connect_v4(listen.port);
    struct rpc_accepted accepted = accept_one(&listen, client);

    (void)state;
    assert_string_equal(accepted.peer.caller, "ip:127.0.0.1");
    assert_string_equal(accepted.quota_key, "ip:127.0.0.1");
    (void)close(accepted.fd);
    cr_listen_close(&listen);
}

static void accept_refuses_callers_while_there_are_no_fds(void **state)
{
    struct cr_listen listen = open_or_skip("127.0.0.1:0");
    CR_AUTO_CLOSE int first = connect_v4(listen.port);
    CR_AUTO_CLOSE int second = connect_v4(listen.port);
    CR_AUTO_CLOSE int spare = -1;
    struct rpc_accepted accepted;
    struct rlimit before;
    struct rlimit low;
    char byte;

    (void)state;
    assert_true(first >= 0 && second >= 0);
    rpc_accept_get_spare(&spare);
    assert_true(spare >= 0);
    wait_readable(listen.fd);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)spare + 1; /* the lowest free number is above it */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);

    assert_int_equal(rpc_accept(listen.fd, false, &spare, &accepted), RPC_ACCEPT_REFUSED);
    assert_int_equal(recv(first, &byte, 1, 0), 0);
    assert_true(spare >= 0);

    /* Somebody else took the last one: the listener must wait, not spin. */
    cr_close_fd(&spare);
    low.rlim_cur -= 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(rpc_accept(listen.fd, false, &spare, &accepted), RPC_ACCEPT_PAUSE);

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rpc_accept(listen.fd, false, &spare, &accepted), RPC_ACCEPT_DONE);
    (void)close(accepted.fd);
    cr_listen_close(&listen);
}

/* After the last who waits, accept(2) still says that there is no descriptor: nobody is refused
 * then, and the next can be. */
static void accept_keeps_its_spare_when_nobody_waits(void **state)
{
    struct cr_listen listen = open_or_skip("127.0.0.1:0");
    CR_AUTO_CLOSE int spare = -1;
    struct rpc_accepted accepted;
    struct rlimit before;
    struct rlimit low;

    (void)state;
    rpc_accept_get_spare(&spare);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)spare + 1; /* the lowest free number is above it */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(rpc_accept(listen.fd, false, &spare, &accepted), RPC_ACCEPT_NOTHING);
        assert_true(spare >= 0);
    }

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_listen_close(&listen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_knows_a_caller_by_its_user),
        cmocka_unit_test(accept_knows_a_caller_by_its_address),
        cmocka_unit_test(accept_counts_an_ipv6_network_as_one),
        cmocka_unit_test(accept_sees_ipv4_behind_an_ipv6_socket),
        cmocka_unit_test(accept_keeps_its_spare_when_nobody_waits),
        cmocka_unit_test(accept_refuses_callers_while_there_are_no_fds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
