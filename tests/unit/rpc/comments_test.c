/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "proto/descriptor_set.h"
#include "rpc/comments.h"
#include "tests/harness/test.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <string.h>

static struct rpc_comments all_comments(void)
{
    return (struct rpc_comments){crisol_descriptor_set,
                                 (size_t)(crisol_descriptor_set_end - crisol_descriptor_set)};
}

static void every_message_and_field_of_ours_has_a_comment(void **state)
{
    const struct rpc_comments comments = all_comments();
    const ProtobufCMessageDescriptor *message = &crisol__agent__v1__generate_request__descriptor;

    (void)state;
    for (unsigned i = 0; i <= message->n_fields; i++) {
        const char *field = i < message->n_fields ? message->fields[i].name : NULL;
        CR_AUTO_BUF struct cr_buf buf;

        cr_buf_init(&buf, 4096);
        assert_int_equal(rpc_comments_add_message(&comments, message, field, &buf), 0);
        assert_true(buf.size > 3);
        assert_null(strchr(cr_buf_str(&buf), '\n'));
    }
}

static void a_comment_of_lines_becomes_one_line(void **state)
{
    const struct rpc_comments comments = all_comments();
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 4096);
    (void)rpc_comments_add_message(&comments, &crisol__sandbox__v1__input_file__descriptor, "path",
                                   &buf);
    assert_non_null(strstr(cr_buf_str(&buf), "Relative to /workspace: 1 to 255 bytes per "
                                             "component, at most 16 components,"));
}

static void enums_and_their_values_have_theirs(void **state)
{
    const struct rpc_comments comments = all_comments();
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 4096);
    (void)rpc_comments_add_enum(&comments, &crisol__agent__v1__run_status__descriptor, NULL, &buf);
    (void)rpc_comments_add_enum(&comments, &crisol__agent__v1__run_status__descriptor,
                                "RUN_STATUS_CANCELLED", &buf);
    assert_string_equal(cr_buf_str(&buf), "State of a run.Cancelled.");
}

static void what_is_not_there_has_none(void **state)
{
    struct rpc_comments comments = all_comments();
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 4096);
    (void)rpc_comments_add_message(&comments, &crisol__agent__v1__file__descriptor, "nothing",
                                   &buf);
    for (size_t size = comments.size; size > 0; size = size * 7 / 8) {
        comments.size = size - 1; /* cut anywhere */
        (void)rpc_comments_add_message(&comments, &crisol__agent__v1__file__descriptor, "nothing",
                                       &buf);
    }
    comments = (struct rpc_comments){0};
    (void)rpc_comments_add_message(&comments, &crisol__agent__v1__file__descriptor, "path", &buf);
    assert_int_equal(buf.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_and_field_of_ours_has_a_comment),
        cmocka_unit_test(a_comment_of_lines_becomes_one_line),
        cmocka_unit_test(enums_and_their_values_have_theirs),
        cmocka_unit_test(what_is_not_there_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
