/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/address.h"

#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#define UNIX "unix://"
#define TCP "tcp://"
#define PORT_MAX 65535UL

static int parse_path(const char *path, struct sbx_engine_address *address, struct cr_err *err)
{
    struct sockaddr_un *unix_address = (struct sockaddr_un *)&address->address;

    _Static_assert(sizeof(unix_address->sun_path) <= sizeof(address->name), "a path fits");
    if (path[0] != '/')
        return cr_err_set(err, EINVAL,
                          "--docker-socket: is neither an absolute path nor tcp://ADDRESS:PORT");
    if (strlen(path) >= sizeof(unix_address->sun_path))
        return cr_err_set(err, EINVAL, "--docker-socket: the path is longer than %zu bytes",
                          sizeof(unix_address->sun_path) - 1);
    unix_address->sun_family = AF_UNIX;
    memcpy(unix_address->sun_path, path, strlen(path) + 1);
    memcpy(address->name, path, strlen(path) + 1);
    address->size = sizeof(*unix_address);
    return 0;
}

/* "127.0.0.1" or "[::1]"; nothing else is this host for sure. */
static int parse_loopback(const char *host, uint16_t port, struct sbx_engine_address *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->address;

    if (strcmp(host, "[::1]") == 0) {
        v6->sin6_family = AF_INET6;
        v6->sin6_addr = in6addr_loopback;
        v6->sin6_port = htons(port);
        address->size = sizeof(*v6);
        return 0;
    }
    if (inet_pton(AF_INET, host, &v4->sin_addr) != 1 || ntohl(v4->sin_addr.s_addr) >> 24 != 127)
        return -EINVAL;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address->size = sizeof(*v4);
    return 0;
}

static int parse_tcp(const char *text, struct sbx_engine_address *address, struct cr_err *err)
{
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    char host[sizeof("255.255.255.255")] = "";
    char *end = NULL;
    unsigned long port;

    if (size > 0 && size < sizeof(host))
        memcpy(host, text, size);
    port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 0;
    if (port == 0 || port > PORT_MAX || *end != '\0' ||
        parse_loopback(host, (uint16_t)port, address) < 0)
        return cr_err_set(err, EINVAL,
                          "--docker-socket: tcp:// takes an address of the loopback and a port, as "
                          "in tcp://127.0.0.1:2375, and nothing else; reach an engine of another "
                          "host through a tunnel that ends there, such as ssh -L");
    address->is_tcp = true;
    (void)snprintf(address->name, sizeof(address->name), TCP "%s:%lu", host, port);
    return 0;
}

int sbx_engine_address_parse(const char *text, struct sbx_engine_address *ret_address,
                             struct cr_err *err)
{
    struct sbx_engine_address address = {.is_tcp = false};
    int r;

    if (strncmp(text, TCP, strlen(TCP)) == 0)
        r = parse_tcp(text + strlen(TCP), &address, err);
    else
        r = parse_path(strncmp(text, UNIX, strlen(UNIX)) == 0 ? text + strlen(UNIX) : text,
                       &address, err);
    if (r == 0)
        *ret_address = address;
    return r;
}

const char *sbx_engine_address_host(const struct sbx_engine_address *address)
{
    return address->is_tcp ? address->name + strlen(TCP) : "docker";
}
