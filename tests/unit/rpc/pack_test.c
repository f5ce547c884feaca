/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "everything.pb-c.h"
#include "rpc/pack.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define NAME "\x72\x04name" /* field 14, four bytes */

static Crisol__Test__V1__Everything named(void)
{
    static char name[] = "name";
    Crisol__Test__V1__Everything message = CRISOL__TEST__V1__EVERYTHING__INIT;

    message.a_string = name;
    return message;
}

static void pack_gives_the_bytes_of_the_wire(void **state)
{
    const Crisol__Test__V1__Everything message = named();
    const Crisol__Test__V1__Everything empty = CRISOL__TEST__V1__EVERYTHING__INIT;
    CR_AUTO_FREE uint8_t *packed = NULL;
    CR_AUTO_FREE uint8_t *nothing = NULL;
    size_t size;

    (void)state;

    assert_int_equal(rpc_pack(&message.base, &packed, &size), 0);
    assert_int_equal(size, sizeof(NAME) - 1);
    assert_memory_equal(packed, NAME, size);
    assert_int_equal(rpc_pack(&empty.base, &nothing, &size), 0);
    assert_int_equal(size, 0);
    assert_non_null(nothing);
}

static void pack_into_adds_and_keeps_the_cap(void **state)
{
    const Crisol__Test__V1__Everything message = named();
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 2 * (sizeof(NAME) - 1));

    assert_int_equal(rpc_pack_into(&message.base, &buf), 0);
    assert_int_equal(rpc_pack_into(&message.base, &buf), 0);
    assert_int_equal(rpc_pack_into(&message.base, &buf), -ENOSPC);
    assert_string_equal(cr_buf_str(&buf), NAME NAME);
}

static void pack_copy_shares_nothing(void **state)
{
    const Crisol__Test__V1__Everything message = named();
    const Crisol__Test__V1__Everything *copied;
    ProtobufCMessage *copy;

    (void)state;

    assert_int_equal(rpc_pack_copy(&message.base, &copy), 0);
    copied = (const Crisol__Test__V1__Everything *)(const void *)copy;
    assert_string_equal(copied->a_string, message.a_string);
    assert_ptr_not_equal(copied->a_string, message.a_string);
    protobuf_c_message_free_unpacked(copy, NULL);
}

static void pack_without_memory_leaves_what_was_there(void **state)
{
    const Crisol__Test__V1__Everything message = named();
    CR_AUTO_BUF struct cr_buf buf = {0};
    uint8_t *packed = NULL;
    ProtobufCMessage *copy = NULL;
    size_t size = 7;

    (void)state;
    cr_buf_init(&buf, 100);

    test_fail_alloc(0);
    assert_int_equal(rpc_pack(&message.base, &packed, &size), -ENOMEM);
    assert_int_equal(test_stop_alloc(), 1);
    test_fail_alloc(0);
    assert_int_equal(rpc_pack_into(&message.base, &buf), -ENOMEM);
    assert_int_equal(test_stop_alloc(), 1);
    test_fail_alloc(0);
    assert_int_equal(rpc_pack_copy(&message.base, &copy), -ENOMEM);
    assert_int_equal(test_stop_alloc(), 1);
    assert_null(packed);
    assert_int_equal(size, 7);
    assert_int_equal(buf.size, 0);
    assert_null(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_gives_the_bytes_of_the_wire),
        cmocka_unit_test(pack_into_adds_and_keeps_the_cap),
        cmocka_unit_test(pack_copy_shares_nothing),
        cmocka_unit_test(pack_without_memory_leaves_what_was_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
