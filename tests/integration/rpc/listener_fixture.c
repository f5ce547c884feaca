/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/rpc/listener_fixture.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "google/protobuf/any.pb-c.h"
#include "rpc/status.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_NS (30 * CR_NS_PER_S)

void listening_start(struct listening *listening, struct rpc_listener_options options)
{
    const struct rpc_method *const tables[] = {test_service_methods};
    struct rpc_server_options server_options = {.context = &listening->service};
    struct cr_err err = CR_ERR_INIT;

    memset(listening, 0, sizeof(*listening));
    listening->fds_before = test_count_fds();
    test_folder_make(listening->folder, sizeof(listening->folder));
    (void)snprintf(listening->unix_address, sizeof(listening->unix_address), "unix:%s/a.sock",
                   listening->folder);
    assert_int_equal(rpc_server_new(tables, 1, &server_options, &listening->server, &err), 0);
    assert_int_equal(rpc_server_start(listening->server, &err), 0);
    assert_int_equal(rpc_listener_new(listening->server, &options, &listening->listener, &err), 0);
    assert_int_equal(rpc_listener_add(listening->listener, listening->unix_address, &err), 0);
    assert_int_equal(rpc_listener_add(listening->listener, "127.0.0.1:0", &err), 0);
    listening->port = rpc_listener_port(listening->listener, 1);
    (void)snprintf(listening->tcp_address, sizeof(listening->tcp_address), "127.0.0.1:%u",
                   listening->port);
    assert_int_equal(rpc_listener_start(listening->listener, &err), 0);
}

static void wait_for_fds(int count)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;

    while (test_count_fds() > count && cr_clock_mono_ns() < due_ns)
        (void)poll(NULL, 0, 1);
    assert_int_equal(test_count_fds(), count);
}

void listening_stop(struct listening *listening)
{
    rpc_listener_stop(listening->listener);
    (void)rpc_server_drain(listening->server, 2000);
    listening->listener = rpc_listener_free(listening->listener);
    listening->server = rpc_server_free(listening->server);
    (void)rpc_call_unref(atomic_exchange(&listening->service.hung, NULL));
    wait_for_fds(listening->fds_before);
    assert_int_equal(rmdir(listening->folder), 0);
}

struct rpc_channel *listening_connect(const char *address)
{
    const struct rpc_channel_options options = {.target = address};
    struct rpc_channel *channel = NULL;

    assert_int_equal(rpc_channel_new(&options, &channel, NULL), 0);
    return channel;
}

int listening_echo(struct rpc_channel *channel, const char *text, int deadline_ms)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    char copy[64];
    int code;

    (void)snprintf(copy, sizeof(copy), "%s", text);
    request.type_url = copy;
    code = rpc_call_blocking(channel, &test_echo, &request.base, deadline_ms, &response, &status);
    rpc_message_free(response);
    return code;
}

int listening_echo_once(const char *address, int deadline_ms)
{
    struct rpc_channel *channel = listening_connect(address);
    int code = listening_echo(channel, "once", deadline_ms);

    (void)rpc_channel_free(channel);
    return code;
}

int listening_raw(const struct listening *listening, bool is_unix)
{
    CR_AUTO_CLOSE int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_port = htons(listening->port)};
    int r;

    if (fd < 0)
        return -1;
    port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)snprintf(path.sun_path, sizeof(path.sun_path), "%s", listening->unix_address + 5);
    r = is_unix ? connect(fd, (const struct sockaddr *)&path, sizeof(path))
                : connect(fd, (const struct sockaddr *)&port, sizeof(port));
    return r < 0 ? -1 : cr_take_fd(&fd);
}

void wait_for_close(int fd)
{
    int64_t due_ns = cr_clock_mono_ns() + PATIENCE_NS;
    ssize_t size = 1;

    while (size > 0 && cr_clock_mono_ns() < due_ns) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        char drop[4096];

        if (poll(&wait, 1, 100) > 0)
            size = recv(fd, drop, sizeof(drop), 0);
    }
    assert_true(size <= 0);
}
