/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "rpc/listener.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A server behind a listener on a unix socket, which can stop and come back. */
struct place {
    char folder[64];
    char address[96];
    struct fixture fixture; /* its channel goes through a socketpair */
    struct rpc_listener *listener;
};

static void make_place(struct place *place)
{
    memset(place, 0, sizeof(*place));
    test_folder_make(place->folder, sizeof(place->folder));
    (void)snprintf(place->address, sizeof(place->address), "unix:%s/s", place->folder);
}

static void start_server(struct place *place)
{
    const struct rpc_listener_options options = {.edge = NULL};
    struct cr_err err = CR_ERR_INIT;

    fixture_start(&place->fixture, (struct rpc_server_options){0});
    assert_int_equal(rpc_listener_new(place->fixture.server, &options, &place->listener, &err), 0);
    assert_int_equal(rpc_listener_add(place->listener, place->address, &err), 0);
    assert_int_equal(rpc_listener_start(place->listener, &err), 0);
}

static void stop_server(struct place *place)
{
    rpc_listener_stop(place->listener);
    (void)rpc_server_drain(place->fixture.server, 5000);
    place->listener = rpc_listener_free(place->listener);
    place->fixture.server = rpc_server_free(place->fixture.server);
    place->fixture.channel = rpc_channel_free(place->fixture.channel);
}

static void remove_place(struct place *place)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/s.lock", place->folder);
    (void)unlink(path);
    assert_int_equal(rmdir(place->folder), 0);
}

static struct rpc_channel *open_channel(const struct place *place, const char *config)
{
    const struct rpc_channel_options options = {.target = place->address,
                                                .service_config_json = config};
    struct rpc_channel *channel = NULL;

    assert_int_equal(rpc_channel_new(&options, &channel, NULL), 0);
    return channel;
}

static int echo(struct rpc_channel *channel, int deadline_ms)
{
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    int code =
        rpc_call_blocking(channel, &test_echo, &request.base, deadline_ms, &response, &status);

    rpc_message_free(response);
    return code;
}

static void a_channel_waits_until_it_is_ready(void **state)
{
    struct rpc_channel *channel;
    struct place place;

    (void)state;
    make_place(&place);
    channel = open_channel(&place, NULL);

    assert_int_equal(rpc_channel_wait_ready(channel, 100), -ETIMEDOUT);
    assert_int_equal(echo(channel, 5000), RPC_UNAVAILABLE);
    start_server(&place);
    assert_int_equal(rpc_channel_wait_ready(channel, 10000), 0);
    assert_int_equal(echo(channel, 5000), RPC_OK);
    assert_int_equal(place.fixture.service.last_uid, getuid());

    (void)rpc_channel_free(channel);
    stop_server(&place);
    remove_place(&place);
}

static void a_channel_comes_back_with_its_server(void **state)
{
    struct rpc_channel *channel;
    struct place place;
    int64_t due_ns;
    int code;

    (void)state;
    make_place(&place);
    start_server(&place);
    channel = open_channel(&place, NULL);
    assert_int_equal(echo(channel, 5000), RPC_OK);

    stop_server(&place);
    assert_int_equal(echo(channel, 5000), RPC_UNAVAILABLE);
    start_server(&place);
    due_ns = cr_clock_mono_ns() + 10 * CR_NS_PER_S;
    do {
        (void)poll(NULL, 0, 10);
        code = echo(channel, 5000);
    } while (code == RPC_UNAVAILABLE && cr_clock_mono_ns() < due_ns);
    assert_int_equal(code, RPC_OK);

    (void)rpc_channel_free(channel);
    stop_server(&place);
    remove_place(&place);
}

static void keep_code(void *user, const struct rpc_status *status)
{
    *(atomic_int *)user = 100 + (int)status->code;
}

/* waitForReady: without it the call would fail at once, as the first test shows. */
static void a_service_config_is_obeyed(void **state)
{
    static const char config[] = "{\"methodConfig\":[{\"name\":[{}],\"waitForReady\":true}]}";
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    atomic_int code = 0;
    const struct rpc_client_handlers handlers = {.on_end = keep_code, .user = &code};
    struct rpc_client_call *call = NULL;
    struct rpc_channel *channel;
    struct rpc_loop *loop = NULL;
    struct place place;

    (void)state;
    make_place(&place);
    channel = open_channel(&place, config);
    assert_int_equal(rpc_loop_new(&loop, NULL), 0);

    assert_int_equal(
        rpc_client_start(loop, channel, &test_echo, &request.base, 10000, &handlers, &call, NULL),
        0);
    assert_int_equal(rpc_channel_wait_ready(channel, 100), -ETIMEDOUT);
    assert_int_equal(code, 0);
    start_server(&place);
    wait_for_count(&code, 100);
    assert_int_equal(code, 100 + RPC_OK);

    (void)rpc_client_unref(call);
    (void)rpc_loop_free(loop);
    (void)rpc_channel_free(channel);
    stop_server(&place);
    remove_place(&place);
}

static void options_that_cannot_work_are_refused(void **state)
{
    static const struct rpc_channel_options bad[] = {
        {.target = NULL},
        {.target = ""},
        {.target = "nonsense"},
        {.target = "unix:relative.sock"},
        {.target = "/run/a.sock"},
        {.target = "http://127.0.0.1:1"},
        {.target = ":1"},
        {.target = "localhost:"},
        {.target = "localhost:0"},
        {.target = "localhost:65536"},
        {.target = "localhost:1x"},
        {.target = "localhost:-1"},
        {.target = "bogus:::"},
        {.target = "::1:50051"},
        {.target = "unix:/x", .token = ""},
        {.target = "unix:/x", .token = "two words"},
        {.target = "unix:/x", .token = "line\nbreak"},
        {.target = "unix:/x", .token = "n\xC3\xB8"},
        {.target = "unix:/x", .service_config_json = "{bad"},
        {.target = "unix:/x", .service_config_json = "[]"},
        {.target = "unix:/x",
         .service_config_json = "{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"xs\"}]}"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct rpc_channel *channel = NULL;
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(rpc_channel_new(&bad[i], &channel, &err), -EINVAL);
        assert_null(channel);
        assert_int_equal(err.code, -EINVAL);
        assert_null(strstr(err.text, "words")); /* a token never shows */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_waits_until_it_is_ready),
        cmocka_unit_test(a_channel_comes_back_with_its_server),
        cmocka_unit_test(a_service_config_is_obeyed),
        cmocka_unit_test(options_that_cannot_work_are_refused),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
