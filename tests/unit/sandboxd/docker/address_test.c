/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/docker/address.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#include <arpa/inet.h>
#include <sys/un.h>

static void sockets_and_ports_of_the_loopback_are_taken(void **state)
{
    static const struct {
        const char *text;
        int family;
        const char *name;
        const char *host;
    } good[] = {
        {"/run/docker.sock", AF_UNIX, "/run/docker.sock", "docker"},
        {"unix:///run/docker.sock", AF_UNIX, "/run/docker.sock", "docker"},
        {"tcp://127.0.0.1:2375", AF_INET, "tcp://127.0.0.1:2375", "127.0.0.1:2375"},
        {"tcp://127.9.9.9:1", AF_INET, "tcp://127.9.9.9:1", "127.9.9.9:1"},
        {"tcp://[::1]:65535", AF_INET6, "tcp://[::1]:65535", "[::1]:65535"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(good); i++) {
        struct sbx_engine_address address;

        assert_int_equal(sbx_engine_address_parse(good[i].text, &address, NULL), 0);
        assert_int_equal(address.address.ss_family, good[i].family);
        assert_int_equal(address.is_tcp, good[i].family != AF_UNIX);
        assert_string_equal(address.name, good[i].name);
        assert_string_equal(sbx_engine_address_host(&address), good[i].host);
    }
}

static void anything_else_is_refused_and_not_repeated(void **state)
{
    static const char *const bad[] = {
        "",
        "docker.sock",
        "unix://docker.sock",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:2375/v1.41",
        "tcp://127.0.0.1:-1",
        "tcp://localhost:2375",
        "tcp://10.0.0.1:2375",
        "tcp://0.0.0.0:2375",
        "tcp://me:secret@127.0.0.1:2375",
        "tcp://127.0.0.1.secret.example.invalid:2375",
        "http://127.0.0.1:2375",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct sbx_engine_address address;

        assert_int_equal(sbx_engine_address_parse(bad[i], &address, &err), -EINVAL);
        assert_non_null(strstr(err.text, "--docker-socket: "));
        assert_null(strstr(err.text, "secret"));
    }
}

static void a_path_longer_than_a_socket_may_have_is_refused(void **state)
{
    struct sbx_engine_address address;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

    (void)state;
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(sbx_engine_address_parse(path, &address, NULL), -EINVAL);
    path[sizeof(path) - 2] = '\0';
    assert_int_equal(sbx_engine_address_parse(path, &address, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_and_ports_of_the_loopback_are_taken),
        cmocka_unit_test(anything_else_is_refused_and_not_repeated),
        cmocka_unit_test(a_path_longer_than_a_socket_may_have_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
