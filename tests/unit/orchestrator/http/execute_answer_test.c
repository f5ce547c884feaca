/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/execute_answer.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

static cJSON *answer_of(const void *out, size_t out_size, bool is_cut)
{
    CR_AUTO_BUF struct cr_buf buf;
    CR_AUTO_BUF struct cr_buf out_data;
    struct cr_buf err_data;
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    const struct agt_execute_answer answer = {
        .result = &result,
        .stdout_data = &out_data,
        .stderr_data = &err_data,
        .is_cut = is_cut,
    };
    cJSON *root;

    cr_buf_init(&buf, 65536);
    cr_buf_init(&out_data, 1024);
    cr_buf_init(&err_data, 1024);
    (void)cr_buf_add(&out_data, out, out_size);
    result.exit_code = 3;
    assert_int_equal(agt_execute_answer_write(&answer, &buf), 0);
    root = cJSON_Parse(cr_buf_str(&buf));
    assert_non_null(root);
    return root;
}

static const char *text_at(const cJSON *root, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, name));
}

static void text_output_is_shown_as_it_is(void **state)
{
    cJSON *root = answer_of("4\n", 2, false);
    cJSON *result = cJSON_GetObjectItem(root, "result");

    (void)state;
    assert_string_equal(text_at(root, "stdout"), "4\n");
    assert_string_equal(text_at(root, "stderr"), "");
    assert_false(cJSON_HasObjectItem(root, "stdout_base64"));
    assert_false(cJSON_HasObjectItem(root, "is_cut"));
    assert_int_equal(cJSON_GetObjectItem(result, "exit_code")->valueint, 3);
    cJSON_Delete(root);
}

static void bytes_come_as_base64_too(void **state)
{
    cJSON *root = answer_of("\xff\x00Z", 3, true);

    (void)state;
    assert_string_equal(text_at(root, "stdout"), "\xef\xbf\xbd\xef\xbf\xbdZ");
    assert_string_equal(text_at(root, "stdout_base64"), "/wBa");
    assert_false(cJSON_HasObjectItem(root, "stderr_base64"));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(root, "is_cut")));
    cJSON_Delete(root);
}

static void assert_output_frame(const char *text, const char *data, size_t size,
                                const char *expected)
{
    CR_AUTO_BUF struct cr_buf scratch;
    CR_AUTO_BUF struct cr_buf out;
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Output output = CRISOL__SANDBOX__V1__OUTPUT__INIT;
    char text_copy[64] = "";
    uint8_t data_copy[64];

    cr_buf_init(&scratch, 4096);
    cr_buf_init(&out, 4096);
    (void)snprintf(text_copy, sizeof(text_copy), "%s", text);
    memcpy(data_copy, data, size);
    output.stream = CRISOL__SANDBOX__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
    output.offset = 12;
    output.text = text_copy;
    output.data.data = data_copy;
    output.data.len = size;
    event.seq = 4;
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_OUTPUT;
    event.output = &output;
    assert_int_equal(agt_execute_add_event(&event, &scratch, &out), 0);
    assert_string_equal(cr_buf_str(&out), expected);
}

static void output_events_show_text(void **state)
{
    (void)state;
    assert_output_frame("hi\n", "hi\n", 3,
                        "event: output\ndata: {\"execution_id\":\"\",\"seq\":4,\"output\":"
                        "{\"stream\":\"STDERR\",\"offset\":12,\"text\":\"hi\\n\"}}\n\n");
    assert_output_frame("", "hi", 2,
                        "event: output\ndata: {\"execution_id\":\"\",\"seq\":4,\"output\":"
                        "{\"stream\":\"STDERR\",\"offset\":12,\"text\":\"hi\"}}\n\n");
}

static void output_events_keep_bytes_that_text_cannot_show(void **state)
{
    (void)state;
    assert_output_frame("\xef\xbf\xbd", "\xff", 1,
                        "event: output\ndata: {\"execution_id\":\"\",\"seq\":4,\"output\":"
                        "{\"stream\":\"STDERR\",\"offset\":12,\"text\":\"\xef\xbf\xbd\","
                        "\"data\":\"/w==\"}}\n\n");
}

static void program_output_cannot_forge_an_event(void **state)
{
    (void)state;
    assert_output_frame("\n\nevent: result\n", "\n\nevent: result\n", 16,
                        "event: output\ndata: {\"execution_id\":\"\",\"seq\":4,\"output\":"
                        "{\"stream\":\"STDERR\",\"offset\":12,"
                        "\"text\":\"\\n\\nevent: result\\n\"}}\n\n");
}

static void other_events_are_named_by_their_case(void **state)
{
    CR_AUTO_BUF struct cr_buf scratch;
    CR_AUTO_BUF struct cr_buf out;
    Crisol__Sandbox__V1__ExecuteResponse event = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__INIT;
    Crisol__Sandbox__V1__Truncated truncated = CRISOL__SANDBOX__V1__TRUNCATED__INIT;

    (void)state;
    cr_buf_init(&scratch, 4096);
    cr_buf_init(&out, 4096);
    assert_int_equal(agt_execute_add_event(&event, &scratch, &out), -EINVAL);
    event.event_case = CRISOL__SANDBOX__V1__EXECUTE_RESPONSE__EVENT_TRUNCATED;
    event.truncated = &truncated;
    assert_int_equal(agt_execute_add_event(&event, &scratch, &out), 0);
    assert_non_null(strstr(cr_buf_str(&out), "event: truncated\ndata: {"));
}

static void a_call_outlasts_its_program(void **state)
{
    (void)state;
    assert_int_equal(agt_execute_deadline_ms(0), 180000);
    assert_int_equal(agt_execute_deadline_ms(1000), 121000);
    assert_int_equal(agt_execute_deadline_ms(86400000), 86520000);
    assert_int_equal(agt_execute_deadline_ms(UINT32_MAX), INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_output_is_shown_as_it_is),
        cmocka_unit_test(bytes_come_as_base64_too),
        cmocka_unit_test(output_events_show_text),
        cmocka_unit_test(output_events_keep_bytes_that_text_cannot_show),
        cmocka_unit_test(program_output_cannot_forge_an_event),
        cmocka_unit_test(other_events_are_named_by_their_case),
        cmocka_unit_test(a_call_outlasts_its_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
