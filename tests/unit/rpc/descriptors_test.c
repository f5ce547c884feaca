/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "proto/descriptor_set.h"
#include "rpc/descriptors.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static struct rpc_descriptors *open_real_set(void)
{
    struct rpc_descriptors *descriptors = NULL;
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(
        rpc_descriptors_new(crisol_descriptor_set,
                            (size_t)(crisol_descriptor_set_end - crisol_descriptor_set),
                            &descriptors, &err),
        0);
    return descriptors;
}

static void symbols_of_every_kind_are_found(void **state)
{
    static const char *const symbols[] = {
        "crisol.sandbox.v1.SandboxService",                           /* service */
        "crisol.sandbox.v1.SandboxService.Execute",                   /* method */
        "crisol.sandbox.v1.ExecuteRequest",                           /* message */
        "crisol.sandbox.v1.ExecuteRequest.runtime",                   /* field */
        "google.rpc.BadRequest.FieldViolation",                       /* nested message */
        "grpc.health.v1.HealthCheckResponse.ServingStatus",           /* nested enum */
        "grpc.health.v1.HealthCheckResponse.SERVING",                 /* its value, beside it */
        "grpc.reflection.v1.ServerReflectionRequest.message_request", /* oneof */
    };
    struct rpc_descriptors *descriptors = open_real_set();

    (void)state;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        assert_true(rpc_descriptors_find_symbol(descriptors, symbols[i]) >= 0);
    assert_int_equal(rpc_descriptors_find_symbol(descriptors, "crisol.sandbox.v1"), -ENOENT);
    assert_int_equal(rpc_descriptors_find_symbol(descriptors, ""), -ENOENT);
    (void)rpc_descriptors_free(descriptors);
}

static void only_messages_are_messages(void **state)
{
    struct rpc_descriptors *descriptors = open_real_set();

    (void)state;
    assert_true(rpc_descriptors_find_message(descriptors, "google.rpc.Status") >= 0);
    assert_int_equal(rpc_descriptors_find_message(descriptors, "google.rpc.Status.code"), -ENOENT);
    assert_int_equal(rpc_descriptors_find_message(descriptors, "grpc.health.v1.Health"), -ENOENT);
    (void)rpc_descriptors_free(descriptors);
}

static void the_closure_holds_each_import_once(void **state)
{
    struct rpc_descriptors_file files[RPC_DESCRIPTORS_FILES_MAX];
    struct rpc_descriptors *descriptors = open_real_set();
    int file = rpc_descriptors_find_file(descriptors, "google/rpc/status.proto");

    (void)state;
    assert_true(file >= 0);
    assert_int_equal(rpc_descriptors_find_symbol(descriptors, "google.rpc.Status"), file);
    assert_int_equal(rpc_descriptors_closure(descriptors, file, files), 2);
    assert_non_null(memmem(files[0].data, files[0].size, "google/rpc/status.proto", 23));
    assert_memory_equal(files[1].data + 2, "google/protobuf/any.proto", 25);
    assert_int_equal(rpc_descriptors_find_file(descriptors, "no.proto"), -ENOENT);
    assert_int_equal(rpc_descriptors_find_file(descriptors, ""), -ENOENT);
    (void)rpc_descriptors_free(descriptors);
}

/* a imports b and b imports a. */
static void an_import_cycle_ends(void **state)
{
    static const uint8_t set[] = "\x0A\x06\x0A\x01"
                                 "a\x1A\x01"
                                 "b"
                                 "\x0A\x06\x0A\x01"
                                 "b\x1A\x01"
                                 "a";
    struct rpc_descriptors_file files[RPC_DESCRIPTORS_FILES_MAX];
    struct rpc_descriptors *descriptors = NULL;

    (void)state;
    assert_int_equal(rpc_descriptors_new(set, sizeof(set) - 1, &descriptors, NULL), 0);
    assert_int_equal(rpc_descriptors_closure(descriptors, 0, files), 2);
    (void)rpc_descriptors_free(descriptors);
}

static void an_empty_set_knows_nothing(void **state)
{
    struct rpc_descriptors *descriptors = NULL;

    (void)state;
    assert_int_equal(rpc_descriptors_new(NULL, 0, &descriptors, NULL), 0);
    assert_int_equal(rpc_descriptors_find_symbol(descriptors, "a"), -ENOENT);
    (void)rpc_descriptors_free(descriptors);
}

static void a_broken_set_is_refused(void **state)
{
    size_t size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set);
    struct rpc_descriptors *descriptors = NULL;
    struct cr_err err = CR_ERR_INIT;
    int refused = 0;

    (void)state;
    /* Cut anywhere: an error, or a set of the files before the cut; never a crash. */
    for (size_t cut = 1; cut < size; cut += 97) {
        int r = rpc_descriptors_new(crisol_descriptor_set, cut, &descriptors, &err);

        if (r == 0)
            (void)rpc_descriptors_free(descriptors);
        refused += r == -EINVAL;
    }
    assert_true(refused > 0);
}

static void every_allocation_may_fail(void **state)
{
    /* Two messages in one file: "m" and "n". */
    static const uint8_t set[] = "\x0A\x0D\x0A\x01"
                                 "f\x22\x03\x0A\x01"
                                 "m\x22\x03\x0A\x01"
                                 "n";
    int n = 0;
    int r;

    (void)state;
    do {
        struct rpc_descriptors *descriptors = NULL;

        test_fail_alloc(n++);
        r = rpc_descriptors_new(set, sizeof(set) - 1, &descriptors, NULL);
        assert_true(r == 0 || r == -ENOMEM);
        (void)rpc_descriptors_free(descriptors);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_int_equal(n, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_of_every_kind_are_found),
        cmocka_unit_test(only_messages_are_messages),
        cmocka_unit_test(the_closure_holds_each_import_once),
        cmocka_unit_test(an_import_cycle_ends),
        cmocka_unit_test(an_empty_set_knows_nothing),
        cmocka_unit_test(a_broken_set_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
