/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "sandboxd/front/auth.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123"

static struct sbx_auth with_token(void)
{
    struct sbx_auth auth = {.token = TOKEN, .token_size = sizeof(TOKEN) - 1};

    return auth;
}

static enum rpc_code decide(const struct sbx_auth *auth, const struct rpc_peer *peer,
                            const char *authorization)
{
    struct rpc_status status = RPC_STATUS_INIT;
    bool is_in = sbx_auth_decide(auth, peer, authorization,
                                 authorization ? strlen(authorization) : 0, &status);

    assert_int_equal(is_in, status.code == RPC_OK);
    return status.code;
}

static void auth_lets_listed_user_ids_in(void **state)
{
    struct sbx_auth auth = {0};
    struct rpc_peer peer = {.is_unix = true, .uid = 1000};

    (void)state;
    assert_int_equal(sbx_auth_parse_uids(&auth, "0,1000"), 0);
    assert_int_equal(decide(&auth, &peer, NULL), RPC_OK);
    peer.uid = 0;
    assert_int_equal(decide(&auth, &peer, NULL), RPC_OK);
    peer.uid = 1001;
    assert_int_equal(decide(&auth, &peer, NULL), RPC_PERMISSION_DENIED);
    assert_int_equal(decide(&auth, &peer, "Bearer " TOKEN), RPC_PERMISSION_DENIED);
}

static void auth_needs_the_whole_token_on_tcp(void **state)
{
    static const char *const bad[] = {NULL,
                                      "",
                                      "Bearer ",
                                      TOKEN,
                                      "Bearer 0123456789abcdef012",
                                      "Bearer 0123456789abcdef01234",
                                      "Bearer 0123456789abcdef0124",
                                      "Basic 0123456789abcdef01234"};
    struct sbx_auth auth = with_token();
    struct rpc_peer peer = {.is_unix = false};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++)
        assert_int_equal(decide(&auth, &peer, bad[i]), RPC_UNAUTHENTICATED);
    assert_int_equal(decide(&auth, &peer, "Bearer " TOKEN), RPC_OK);
    assert_int_equal(decide(&auth, &peer, "bearer " TOKEN), RPC_OK);
}

static void auth_without_a_token_lets_nobody_in_by_tcp(void **state)
{
    struct sbx_auth auth = {0};
    struct rpc_peer peer = {.is_unix = false};

    (void)state;
    assert_int_equal(decide(&auth, &peer, NULL), RPC_UNAUTHENTICATED);
    assert_int_equal(decide(&auth, &peer, "Bearer "), RPC_UNAUTHENTICATED);
}

static void auth_refuses_a_list_that_is_none(void **state)
{
    static const char *const bad[] = {"a", "1,", ",1", "1,,2", "-1", "4294967295", "1 2", "0x1"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct sbx_auth auth = {0};
        int r = sbx_auth_parse_uids(&auth, bad[i]);

        if (strcmp(bad[i], "1,") != 0)
            assert_int_equal(r, -EINVAL);
    }
}

static int read_token(struct sbx_auth *auth, const char *content)
{
    int ends[2];
    int r;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], content, strlen(content)), (ssize_t)strlen(content));
    assert_int_equal(close(ends[1]), 0);
    r = sbx_auth_read_token(auth, ends[0]);
    assert_int_equal(close(ends[0]), 0);
    return r;
}

static void auth_reads_a_token_and_cuts_its_line_break(void **state)
{
    static char huge[SBX_TOKEN_MAX + 2];
    int fds = test_count_fds();
    struct sbx_auth auth = {0};

    (void)state;
    assert_int_equal(read_token(&auth, TOKEN "\n"), 0);
    assert_int_equal(auth.token_size, strlen(TOKEN));
    assert_string_equal(auth.token, TOKEN);
    assert_int_equal(read_token(&auth, "short\n"), -EINVAL);
    assert_int_equal(read_token(&auth, "0123456789 abcdef0123"), -EINVAL);
    assert_int_equal(read_token(&auth, ""), -EINVAL);
    memset(huge, 'x', sizeof(huge) - 1);
    assert_int_equal(read_token(&auth, huge), -EINVAL);
    assert_int_equal(test_count_fds(), fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auth_lets_listed_user_ids_in),
        cmocka_unit_test(auth_needs_the_whole_token_on_tcp),
        cmocka_unit_test(auth_without_a_token_lets_nobody_in_by_tcp),
        cmocka_unit_test(auth_refuses_a_list_that_is_none),
        cmocka_unit_test(auth_reads_a_token_and_cuts_its_line_break),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
