/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/listen.h"
#include "orchestrator/config.h"
#include "orchestrator/confine.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Which files and ports the settings open; what else is lost: tests/unit/common/confine_test.c. */
static struct {
    char root[64];
    char store[96];
    char ca[96];
    char beside[96];
    char listen[96];
    char url[64];
    char sandbox[64];
    struct cr_listen model;
    struct cr_listen sandboxd;
    struct cr_listen other;
} place;

static int landlock_abi; /* of the child */

static bool can_open(const char *path, int flags)
{
    CR_AUTO_CLOSE int fd = open(path, flags | O_CLOEXEC, 0600);

    return fd >= 0;
}

static bool can_connect(uint16_t port)
{
    CR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool has_what_it_needs(void)
{
    return can_open(place.store, O_CREAT | O_RDWR) && unlink(place.store) == 0 &&
           can_open(place.ca, O_RDONLY) && can_open("/etc/resolv.conf", O_RDONLY) &&
           can_open("/etc/hosts", O_RDONLY) && can_open("/proc/self/status", O_RDONLY) &&
           can_connect(place.model.port) && can_connect(place.sandboxd.port);
}

static bool has_nothing_else(void)
{
    return landlock_abi == 0 ||
           (!can_open(place.beside, O_RDONLY) && !can_open(place.ca, O_RDWR) &&
            !can_open("/etc/crisol-test", O_CREAT | O_WRONLY) && !can_open("/", O_RDONLY) &&
            (landlock_abi < 4 || !can_connect(place.other.port)));
}

static bool can_make_its_socket(void)
{
    struct cr_listen listen = CR_LISTEN_INIT;

    if (cr_listen_open(place.listen, (uid_t)-1, &listen, NULL) < 0)
        return false;
    cr_listen_close(&listen);
    return true;
}

/* Runs one claim in a confined child. */
static void assert_confined(const struct agt_config *config, bool (*claim)(void))
{
    pid_t pid = fork();
    int status = -1;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (agt_confine(config, &landlock_abi, NULL) < 0)
            _exit(2);
        _exit(claim() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static struct agt_config settings(void)
{
    static char store[128];
    static char provider[] = "gemini";

    (void)snprintf(store, sizeof(store), "sqlite:%s", place.store);
    return (struct agt_config){.provider = provider,
                               .listen = place.listen,
                               .store = store,
                               .ca_file = place.ca,
                               .base_url = place.url,
                               .sandbox = place.sandbox};
}

static void settings_open_what_they_name_and_no_more(void **state)
{
    const struct agt_config config = settings();

    (void)state;
    assert_confined(&config, has_what_it_needs);
    assert_confined(&config, has_nothing_else);
    assert_confined(&config, can_make_its_socket);
}

static void without_confinement_the_rest_is_open_too(void **state)
{
    (void)state;
    landlock_abi = INT32_MAX;
    assert_false(has_nothing_else());
}

static bool can_connect_to_model(void)
{
    return can_connect(place.model.port);
}

static bool cannot_connect_to_model(void)
{
    return landlock_abi < 4 || !can_connect(place.model.port);
}

/* Where the port of the model's double stands in a setting, and whether that opens it. */
static const struct {
    const char *before;
    const char *behind;
    bool is_target; /* of sandboxd, else the URL of the model */
    bool is_open;
} ways[] = {
    {"http://127.0.0.1:", "", false, true},
    {"http://127.0.0.1:", "/v1?a=:9", false, true},
    {"https://[::1]:", "/", false, true},
    {"https://a.test/:", "", false, false},
    {"http://[::", "]/", false, false},
    {"https://x", "", false, false},
    {"127.0.0.1:", "", true, true},
    {"dns:///sandbox.test:", "", true, true},
    {"ipv4:10.0.0.1:1,127.0.0.1:", "", true, true},
    {"unix:/a:", "", true, false},
};

static void every_way_to_write_a_port_is_understood(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(ways); i++) {
        struct agt_config config = settings();
        char text[64];

        (void)snprintf(text, sizeof(text), "%s%u%s", ways[i].before, place.model.port,
                       ways[i].behind);
        config.base_url = ways[i].is_target ? NULL : text;
        if (ways[i].is_target)
            config.sandbox = text;
        assert_confined(&config, ways[i].is_open ? can_connect_to_model : cannot_connect_to_model);
    }
}

/* Of several sandboxd the last one counts as much as the first, and many share one port. */
static void many_addresses_of_sandboxd_leave_room_for_the_rest(void **state)
{
    struct agt_config config = settings();
    char text[1024] = "ipv4:";
    size_t size = strlen(text);

    (void)state;
    for (int i = 0; i < 20; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "10.0.0.%d:%u,", i,
                                 place.sandboxd.port);
    for (int i = 0; i < 20; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "10.0.1.%d:%d,", i, i + 1);
    (void)snprintf(text + size, sizeof(text) - size, "127.0.0.1:%u", place.model.port);
    config.base_url = NULL;
    config.sandbox = text;
    assert_confined(&config, can_connect_to_model);
}

static void more_ports_than_can_be_opened_are_refused(void **state)
{
    struct agt_config config = settings();
    char text[1024] = "ipv4:";
    size_t size = strlen(text);
    int abi;

    (void)state;
    for (int i = 1; i < 70; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "10.0.0.1:%d,", i);
    config.sandbox = text;
    assert_int_equal(agt_confine(&config, &abi, NULL), -E2BIG);
}

static void open_port(struct cr_listen *listen)
{
    *listen = (struct cr_listen)CR_LISTEN_INIT;
    assert_int_equal(cr_listen_open("127.0.0.1:0", (uid_t)-1, listen, NULL), 0);
}

static void make_file(char path[96], const char *folder, const char *name)
{
    (void)snprintf(path, 96, "%s/%s", place.root, folder);
    assert_true(mkdir(path, 0700) == 0);
    (void)snprintf(path, 96, "%s/%s/%s", place.root, folder, name);
    assert_int_equal(close(creat(path, 0600)), 0);
}

static int set_up(void **state)
{
    char folder[96];

    (void)state;
    test_folder_make(place.root, sizeof(place.root));
    make_file(place.store, "db", "runs.db");
    make_file(place.ca, "ca", "ca.pem");
    make_file(place.beside, "home", "secret");
    open_port(&place.model);
    open_port(&place.sandboxd);
    open_port(&place.other);
    (void)snprintf(place.url, sizeof(place.url), "http://127.0.0.1:%u", place.model.port);
    (void)snprintf(place.sandbox, sizeof(place.sandbox), "127.0.0.1:%u", place.sandboxd.port);
    (void)snprintf(place.listen, sizeof(place.listen), "unix:%s/sockets/run/a.sock", place.root);
    (void)snprintf(folder, sizeof(folder), "%s/sockets", place.root);
    assert_int_equal(mkdir(folder, 0700), 0);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const made[] = {"db/runs.db",  "db",   "ca/ca.pem",   "ca",
                                       "home/secret", "home", "sockets/run", "sockets"};
    char path[96];

    (void)state;
    cr_listen_close(&place.model);
    cr_listen_close(&place.sandboxd);
    cr_listen_close(&place.other);
    for (size_t i = 0; i < CR_ARRAY_SIZE(made); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", place.root, made[i]);
        (void)remove(path);
    }
    assert_int_equal(rmdir(place.root), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settings_open_what_they_name_and_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_confinement_the_rest_is_open_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_way_to_write_a_port_is_understood, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_addresses_of_sandboxd_leave_room_for_the_rest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(more_ports_than_can_be_opened_are_refused, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
