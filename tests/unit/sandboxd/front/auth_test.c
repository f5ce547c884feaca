/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "rpc/tokens.h"
#include "sandboxd/front/auth.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123"

static struct sbx_auth with_token(void)
{
    struct sbx_auth auth = {.tokens = rpc_tokens_new()};

    assert_int_equal(rpc_tokens_load(auth.tokens, "ci " TOKEN, sizeof("ci " TOKEN) - 1, NULL), 0);
    return auth;
}

static enum rpc_code decide(const struct sbx_auth *auth, const struct rpc_peer *peer,
                            const char *authorization)
{
    struct rpc_status status = RPC_STATUS_INIT;
    char caller[64] = "nobody";
    bool is_in = sbx_auth_decide(auth, peer, authorization,
                                 authorization ? strlen(authorization) : 0, caller, &status);

    assert_int_equal(is_in, status.code == RPC_OK);
    if (is_in && !peer->is_unix)
        assert_string_equal(caller, peer->is_certified ? "nobody" : "token:ci");
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
    (void)rpc_tokens_free(auth.tokens);
}

static void auth_lets_certificates_in(void **state)
{
    struct sbx_auth auth = {0};
    struct rpc_peer peer = {.is_certified = true};

    (void)state;
    assert_int_equal(decide(&auth, &peer, NULL), RPC_OK);
    peer = (struct rpc_peer){.is_encrypted = true};
    assert_int_equal(decide(&auth, &peer, NULL), RPC_UNAUTHENTICATED);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auth_lets_listed_user_ids_in),
        cmocka_unit_test(auth_needs_the_whole_token_on_tcp),
        cmocka_unit_test(auth_without_a_token_lets_nobody_in_by_tcp),
        cmocka_unit_test(auth_refuses_a_list_that_is_none),
        cmocka_unit_test(auth_lets_certificates_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
