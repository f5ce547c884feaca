/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "rpc/status.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/bidi.h"
#include "tests/integration/rpc/fixture.h"

#include <stdio.h>
#include <string.h>

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

#define REQUEST(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define RESPONSE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

#define V1 "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

static reflection_response *ask(struct bidi *bidi, int kind, const char *text)
{
    reflection_request request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    char name[256];

    (void)snprintf(name, sizeof(name), "%s", text);
    request.message_request_case =
        (Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)kind;
    request.file_by_filename = name; /* the oneof's strings share their place */
    bidi_send(bidi, &request.base);
    return (reflection_response *)(void *)bidi_receive(
        bidi, &grpc__reflection__v1__server_reflection_response__descriptor);
}

static bool lists(const reflection_response *response, const char *name)
{
    const Grpc__Reflection__V1__ListServiceResponse *list = response->list_services_response;

    for (size_t i = 0; i < list->n_service; i++) {
        if (strcmp(list->service[i]->name, name) == 0)
            return true;
    }
    return false;
}

static void check_list(struct bidi *bidi)
{
    reflection_response *response = ask(bidi, REQUEST(LIST_SERVICES), "*");

    assert_int_equal(response->message_response_case, RESPONSE(LIST_SERVICES_RESPONSE));
    assert_int_equal(response->list_services_response->n_service, 4);
    assert_true(lists(response, "crisol.test.v1.TestService"));
    assert_true(lists(response, "grpc.health.v1.Health"));
    assert_true(lists(response, "grpc.reflection.v1.ServerReflection"));
    assert_true(lists(response, "grpc.reflection.v1alpha.ServerReflection"));
    assert_string_equal(response->original_request->list_services, "*");
    rpc_message_free(&response->base);
}

/* google.rpc.Status imports any.proto, so two files come, the asked one first. */
static void check_symbol(struct bidi *bidi)
{
    reflection_response *response = ask(bidi, REQUEST(FILE_CONTAINING_SYMBOL), "google.rpc.Status");
    static const char name[] = "google/rpc/status.proto";
    const ProtobufCBinaryData *file;

    assert_int_equal(response->message_response_case, RESPONSE(FILE_DESCRIPTOR_RESPONSE));
    assert_int_equal(response->file_descriptor_response->n_file_descriptor_proto, 2);
    file = &response->file_descriptor_response->file_descriptor_proto[0];
    assert_true(file->len > sizeof(name) + 1);
    assert_memory_equal(file->data + 2, name, sizeof(name) - 1);
    rpc_message_free(&response->base);
}

static void check_errors(struct bidi *bidi)
{
    static const int kinds[] = {REQUEST(FILE_CONTAINING_SYMBOL), REQUEST(FILE_BY_FILENAME),
                                REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE)};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        reflection_response *response = ask(bidi, kinds[i], "no.such.Thing");

        assert_int_equal(response->message_response_case, RESPONSE(ERROR_RESPONSE));
        assert_int_equal(response->error_response->error_code, RPC_NOT_FOUND);
        rpc_message_free(&response->base);
    }
}

static void check_file_and_extensions(struct bidi *bidi)
{
    reflection_response *response =
        ask(bidi, REQUEST(FILE_BY_FILENAME), "grpc/health/v1/health.proto");

    assert_int_equal(response->file_descriptor_response->n_file_descriptor_proto, 1);
    rpc_message_free(&response->base);
    response = ask(bidi, REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE), "google.rpc.Status");
    assert_int_equal(response->message_response_case, RESPONSE(ALL_EXTENSION_NUMBERS_RESPONSE));
    assert_int_equal(response->all_extension_numbers_response->n_extension_number, 0);
    rpc_message_free(&response->base);
}

static void check_version(struct fixture *fixture, const char *path)
{
    struct bidi *bidi = bidi_open(fixture->channel, path);

    check_list(bidi);
    check_symbol(bidi);
    check_errors(bidi);
    check_file_and_extensions(bidi);
    bidi_half_close(bidi);
    assert_null(bidi_receive(bidi, &grpc__reflection__v1__server_reflection_response__descriptor));
    assert_int_equal(bidi_finish(bidi), RPC_OK);
}

static void both_versions_answer(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});

    check_version(&fixture, V1);
    check_version(&fixture, V1ALPHA);

    fixture_stop(&fixture);
}

static void an_idle_stream_does_not_hold_the_drain(void **state)
{
    struct fixture fixture;
    struct bidi *bidi;

    (void)state;
    fixture_start(&fixture, (struct rpc_server_options){0});
    bidi = bidi_open(fixture.channel, V1);
    check_list(bidi);

    assert_true(rpc_server_drain(fixture.server, 10000));

    assert_null(bidi_receive(bidi, &grpc__reflection__v1__server_reflection_response__descriptor));
    assert_int_equal(bidi_finish(bidi), RPC_UNAVAILABLE);
    fixture_stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_answer),
        cmocka_unit_test(an_idle_stream_does_not_hold_the_drain),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
