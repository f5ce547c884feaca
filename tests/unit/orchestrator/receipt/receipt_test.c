/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/receipt/receipt.h"
#include "rpc/json.h"
#include "rpc/status.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fails the first attempt, so that the result has more than one of everything. */
static void repair(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                   struct double_execution *ret_execution)
{
    struct engine_fixture *fixture = user;

    double_pass(NULL, request, ret_execution);
    if (fixture->executions++ == 0) {
        ret_execution->exit_code = 1;
        ret_execution->passed = 2;
        ret_execution->failed = 1;
    }
}

static Crisol__Agent__V1__RunResult *copy(const Crisol__Agent__V1__RunResult *result)
{
    size_t size = crisol__agent__v1__run_result__get_packed_size(result);
    uint8_t *packed = malloc(size);
    Crisol__Agent__V1__RunResult *same;

    assert_non_null(packed);
    (void)crisol__agent__v1__run_result__pack(result, packed);
    same = crisol__agent__v1__run_result__unpack(NULL, size, packed);
    assert_non_null(same);
    free(packed);
    return same;
}

static int set_up(void **state)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    engine_fixture_start(&fixture, NULL, repair, NULL);
    fixture.verify = CRISOL__AGENT__V1__VERIFICATION_LEVEL__VERIFICATION_LEVEL_STUBS;
    run_reader_read(&reader, engine_fixture_run(&fixture, 0));
    assert_int_equal(reader.result->n_attempts, 2);
    *state = copy(reader.result);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
    return 0;
}

static int tear_down(void **state)
{
    crisol__agent__v1__run_result__free_unpacked(*state, NULL);
    return 0;
}

static void a_result_fits_its_receipt(void **state)
{
    Crisol__Agent__V1__RunResult *result = *state;
    struct cr_err err = CR_ERR_INIT;

    if (agt_receipt_verify(result, NULL, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(agt_receipt_verify(result, result->receipt->head, &err), 0);
    assert_int_equal(result->receipt->n_links >= 20, 1);
}

static void a_result_fits_its_receipt_after_json(void **state)
{
    const struct rpc_json_style style = {.use_snake_case = true,
                                         .with_defaults = true,
                                         .int64_as_number = true,
                                         .strip_enum_prefix = true};
    CR_AUTO_BUF struct cr_buf json = {0};
    const Crisol__Agent__V1__RunResult *result = *state;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *read = NULL;

    cr_buf_init(&json, 4 << 20);
    assert_int_equal(rpc_json_write(&result->base, &style, &json), 0);
    if (rpc_json_read(&crisol__agent__v1__run_result__descriptor, cr_buf_str(&json), json.size,
                      &read, &status) < 0)
        fail_msg("%s", status.message);
    assert_int_equal(agt_receipt_verify((void *)read, NULL, NULL), 0);
    protobuf_c_message_free_unpacked(read, NULL);
}

static void another_head_than_the_one_kept_is_noticed(void **state)
{
    char kept[AGT_RECEIPT_DIGEST_SIZE];
    struct cr_err err = CR_ERR_INIT;

    agt_receipt_digest("x", 1, kept);
    assert_int_equal(agt_receipt_verify(*state, kept, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "kept"));
}

/* ---- every value of the result, changed one at a time ---- */

struct change {
    size_t wanted; /* the value to change */
    size_t seen;
    char name[256]; /* of the one that was changed; "" when there were fewer */
};

static void name_it(struct change *change, const ProtobufCFieldDescriptor *field)
{
    (void)snprintf(change->name, sizeof(change->name), "%s", field->name);
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void change_message(ProtobufCMessage *message, struct change *change);

/* A string that is empty is protobuf-c's own, so it gets another one. */
static void change_text(char **text)
{
    char *longer = malloc(strlen(*text) + 2);

    assert_non_null(longer);
    memcpy(longer, *text, strlen(*text) + 1);
    if (longer[0])
        longer[0] = (char)(longer[0] ^ 1);
    else
        memcpy(longer, "x", 2);
    if ((*text)[0])
        free(*text);
    *text = longer;
}

static void change_value(const ProtobufCFieldDescriptor *field, void *value, struct change *change)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        change_message(*(ProtobufCMessage **)value, change);
        return;
    }
    if (field->type == PROTOBUF_C_TYPE_BYTES || change->seen++ != change->wanted)
        return;
    name_it(change, field);
    if (field->type == PROTOBUF_C_TYPE_STRING)
        change_text(value);
    else if (field->type == PROTOBUF_C_TYPE_DOUBLE)
        *(double *)value += 1;
    else
        *(uint8_t *)value ^= 1; /* whole numbers, names of values and booleans */
}

static void change_message(ProtobufCMessage *message, struct change *change)
{
    for (unsigned i = 0; message && change->name[0] == '\0' && i < message->descriptor->n_fields;
         i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        uint8_t *base = (uint8_t *)message;

        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            change_value(field, base + field->offset, change);
            continue;
        }
        for (size_t j = 0; change->name[0] == '\0' &&
                           j < *(const size_t *)(const void *)(base + field->quantifier_offset);
             j++)
            change_value(field, *(uint8_t **)(void *)(base + field->offset) + j * size_of(field),
                         change);
    }
}

static void every_value_that_is_changed_makes_it_fail(void **state)
{
    size_t count = 0;

    for (;; count++) {
        Crisol__Agent__V1__RunResult *result = copy(*state);
        struct change change = {.wanted = count};
        int r;

        change_message(&result->base, &change);
        r = agt_receipt_verify(result, NULL, NULL);
        crisol__agent__v1__run_result__free_unpacked(result, NULL);
        if (change.name[0] == '\0')
            break;
        if (r != -EBADMSG)
            fail_msg("'%s' (value %zu) was changed and nobody noticed", change.name, count);
    }
    assert_in_range(count, 200, 100000);
    print_message("%zu values changed, each was noticed\n", count);
}

static void what_is_left_out_makes_it_fail(void **state)
{
    Crisol__Agent__V1__RunResult *result = *state;
    size_t links = result->receipt->n_links;

    result->n_attempts--;
    assert_int_equal(agt_receipt_verify(result, NULL, NULL), -EBADMSG);
    result->n_attempts++;
    result->receipt->n_links--;
    assert_int_equal(agt_receipt_verify(result, NULL, NULL), -EBADMSG);
    result->receipt->n_links = links;
    assert_int_equal(agt_receipt_verify(result, NULL, NULL), 0);
}

static void a_result_without_a_receipt_is_told(void **state)
{
    Crisol__Agent__V1__RunResult *result = *state;
    Crisol__Agent__V1__Receipt *receipt = cr_take_ptr(&result->receipt);
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(agt_receipt_verify(result, NULL, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "no receipt"));
    result->receipt = receipt;
}

static void a_receipt_has_a_bound(void **state)
{
    Crisol__Agent__V1__RunResult result = CRISOL__AGENT__V1__RUN_RESULT__INIT;
    Crisol__Agent__V1__Receipt *message = NULL;
    struct agt_receipt receipt = {.links = NULL};

    (void)state;
    for (size_t i = 0; i <= AGT_RECEIPT_LINKS_MAX; i++)
        agt_receipt_add_text(&receipt, AGT_RECEIPT_TASK, 0, "x");
    assert_int_equal(agt_receipt_conclude(&receipt, &result, &message), -ENOMEM);
    assert_null(message);
    agt_receipt_done(&receipt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(a_result_fits_its_receipt),
        CASE(a_result_fits_its_receipt_after_json),
        CASE(another_head_than_the_one_kept_is_noticed),
        CASE(every_value_that_is_changed_makes_it_fail),
        CASE(what_is_left_out_makes_it_fail),
        CASE(a_result_without_a_receipt_is_told),
        cmocka_unit_test(a_receipt_has_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
