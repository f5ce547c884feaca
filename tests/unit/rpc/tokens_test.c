/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "rpc/tokens.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#define ONE "0123456789abcdef"
#define TWO "fedcba9876543210"

static struct rpc_tokens *load(const char *text)
{
    struct rpc_tokens *tokens = rpc_tokens_new();

    assert_non_null(tokens);
    assert_int_equal(rpc_tokens_load(tokens, text, strlen(text), NULL), 0);
    return tokens;
}

static const char *find(struct rpc_tokens *tokens, const char *value)
{
    static char caller[64];

    return rpc_tokens_find(tokens, value, strlen(value), caller) ? caller : "-";
}

static void tokens_tell_who_sent_one(void **state)
{
    struct rpc_tokens *tokens =
        load("# ours\n\nci " ONE "\n  web\t" TWO "  \r\nci another-of-ci-1234");

    (void)state;
    assert_int_equal(rpc_tokens_count(tokens), 3);
    assert_string_equal(find(tokens, "Bearer " ONE), "token:ci");
    assert_string_equal(find(tokens, "bearer " TWO), "token:web");
    assert_string_equal(find(tokens, "Bearer another-of-ci-1234"), "token:ci");
    assert_string_equal(find(tokens, "Bearer 0123456789abcdeg"), "-");
    assert_string_equal(find(tokens, "Bearer " ONE "0"), "-");
    assert_string_equal(find(tokens, "Bearer 0123456789abcde"), "-");
    assert_string_equal(find(tokens, "Bearer ci " ONE), "-");
    assert_string_equal(find(tokens, "Bearer "), "-");
    assert_string_equal(find(tokens, "Basic " ONE), "-");
    assert_string_equal(find(tokens, ONE), "-");
    assert_false(rpc_tokens_find(tokens, NULL, 0, (char[64]){0}));
    (void)rpc_tokens_free(tokens);
}

static void tokens_need_no_name_when_there_is_one(void **state)
{
    struct rpc_tokens *tokens = load(ONE "\n");

    (void)state;
    assert_string_equal(find(tokens, "Bearer " ONE), "token");
    (void)rpc_tokens_free(tokens);
}

static void tokens_refuse_a_bad_file_and_keep_the_last(void **state)
{
    static const char *const bad[] = {
        "",
        "# nothing\n",
        "short",
        "ci short",
        "ci " ONE " more",
        "c/i " ONE,
        ONE "\n" TWO,
        "ci " ONE "\n" TWO,
        ONE "\nci " TWO,
        "a-name-that-is-longer-than-a-name-may-be-at-its-longest " ONE,
        "ci 0123456789abcde\xc3\xa9"};
    struct rpc_tokens *tokens = load("ci " ONE);
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++)
        assert_int_equal(rpc_tokens_load(tokens, bad[i], strlen(bad[i]), &err), -EINVAL);
    assert_int_equal(rpc_tokens_load(tokens, "ci " ONE "\0x", 21, &err), -EINVAL);
    assert_null(strstr(err.text, ONE));
    assert_string_equal(find(tokens, "Bearer " ONE), "token:ci");
    assert_int_equal(rpc_tokens_load(tokens, "ci " TWO, strlen("ci " TWO), &err), 0);
    assert_string_equal(find(tokens, "Bearer " ONE), "-");
    (void)rpc_tokens_free(tokens);
}

static void tokens_are_bounded_in_number_and_bytes(void **state)
{
    static char text[RPC_TOKENS_FILE_MAX + 1];
    struct rpc_tokens *tokens = rpc_tokens_new();
    int fd = memfd_create("test", MFD_CLOEXEC);
    size_t used = 0;

    (void)state;
    for (unsigned i = 0; i <= RPC_TOKENS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "n%u token-number-%06u\n", i, i);
    assert_int_equal(rpc_tokens_load(tokens, text, used, NULL), -EINVAL);
    used = (size_t)(strrchr(text, 'n') - text); /* without the last number */
    used = (size_t)((char *)memrchr(text, '\n', used) - text);
    used = (size_t)((char *)memrchr(text, '\n', used) - text) + 1;
    assert_int_equal(rpc_tokens_load(tokens, text, used, NULL), 0);
    memset(text, '#', sizeof(text));
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    assert_int_equal(rpc_tokens_read(tokens, fd, NULL), -EINVAL);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "ci " ONE, 19, 0), 19);
    assert_int_equal(rpc_tokens_read(tokens, fd, NULL), 0);
    assert_int_equal(rpc_tokens_read(tokens, fd, NULL), 0); /* from the begin again */
    assert_string_equal(find(tokens, "Bearer " ONE), "token:ci");
    (void)close(fd);
    (void)rpc_tokens_free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_tell_who_sent_one),
        cmocka_unit_test(tokens_need_no_name_when_there_is_one),
        cmocka_unit_test(tokens_refuse_a_bad_file_and_keep_the_last),
        cmocka_unit_test(tokens_are_bounded_in_number_and_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
