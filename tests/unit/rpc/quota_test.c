/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "rpc/quota.h"
#include "tests/harness/test.h"

#include <stdio.h>

static const struct rpc_quota_limits limits = {.max_connections = 3,
                                               .accepts = {.per_s = 10, .burst = 5}};

static void bucket_gives_its_burst_and_then_its_rate(void **state)
{
    static const struct cr_rate RATE = {.per_s = 10, .burst = 3};
    struct rpc_bucket bucket = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(rpc_bucket_take(&bucket, &RATE, CR_NS_PER_S));
    assert_false(rpc_bucket_take(&bucket, &RATE, CR_NS_PER_S));

    /* One token each 100 ms. */
    assert_false(rpc_bucket_take(&bucket, &RATE, CR_NS_PER_S + 99 * CR_NS_PER_MS));
    assert_true(rpc_bucket_take(&bucket, &RATE, CR_NS_PER_S + 100 * CR_NS_PER_MS));
    assert_false(rpc_bucket_take(&bucket, &RATE, CR_NS_PER_S + 100 * CR_NS_PER_MS));
    assert_false(rpc_bucket_is_full(&bucket, CR_NS_PER_S + 399 * CR_NS_PER_MS));
    assert_true(rpc_bucket_is_full(&bucket, CR_NS_PER_S + 400 * CR_NS_PER_MS));

    /* However long it was left alone, it holds no more than its burst. */
    for (int i = 0; i < 3; i++)
        assert_true(rpc_bucket_take(&bucket, &RATE, 1000 * CR_NS_PER_S));
    assert_false(rpc_bucket_take(&bucket, &RATE, 1000 * CR_NS_PER_S));
}

static void quota_holds_connections_per_peer(void **state)
{
    struct rpc_quotas *quotas = rpc_quotas_new(100);
    struct rpc_quota *quota = NULL;
    struct rpc_quota *other = NULL;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rpc_quotas_admit(quotas, "uid:1", &limits, 1, &quota), RPC_QUOTA_OK);
    assert_int_equal(rpc_quotas_admit(quotas, "uid:1", &limits, 1, &quota), RPC_QUOTA_PEER);
    assert_int_equal(rpc_quotas_admit(quotas, "uid:2", &limits, 1, &other), RPC_QUOTA_OK);

    rpc_quotas_release(quotas, quota);
    assert_int_equal(rpc_quotas_admit(quotas, "uid:1", &limits, 1, &quota), RPC_QUOTA_OK);
    assert_null(rpc_quotas_free(quotas));
}

static void quota_holds_connections_of_all_peers(void **state)
{
    struct rpc_quotas *quotas = rpc_quotas_new(2);
    struct rpc_quota *quota = NULL;

    (void)state;
    assert_int_equal(rpc_quotas_admit(quotas, "a", &limits, 1, &quota), RPC_QUOTA_OK);
    assert_int_equal(rpc_quotas_admit(quotas, "b", &limits, 1, &quota), RPC_QUOTA_OK);
    assert_int_equal(rpc_quotas_admit(quotas, "c", &limits, 1, &quota), RPC_QUOTA_TOTAL);
    (void)rpc_quotas_free(quotas);
}

static void quota_counts_refused_attempts_too(void **state)
{
    struct rpc_quotas *quotas = rpc_quotas_new(100);
    struct rpc_quota *quota = NULL;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rpc_quotas_admit(quotas, "a", &limits, 1, &quota), RPC_QUOTA_OK);
    assert_int_equal(rpc_quotas_admit(quotas, "a", &limits, 1, &quota), RPC_QUOTA_PEER);
    assert_int_equal(rpc_quotas_admit(quotas, "a", &limits, 1, &quota), RPC_QUOTA_PEER);
    assert_int_equal(rpc_quotas_admit(quotas, "a", &limits, 1, &quota), RPC_QUOTA_RATE);
    assert_int_equal(rpc_quotas_admit(quotas, "a", &limits, 1 + CR_NS_PER_S, &quota),
                     RPC_QUOTA_PEER);
    (void)rpc_quotas_free(quotas);
}

/* Many addresses must not fill the memory, and must not push out those who are connected. */
static void quota_forgets_peers_that_are_gone(void **state)
{
    struct rpc_quotas *quotas = rpc_quotas_new(10);
    struct rpc_quota *connected = NULL;
    struct rpc_quota *again = NULL;

    (void)state;
    assert_int_equal(rpc_quotas_admit(quotas, "stays", &limits, 1, &connected), RPC_QUOTA_OK);
    for (int i = 0; i < 5000; i++) {
        struct rpc_quota *quota = NULL;
        char key[32];

        (void)snprintf(key, sizeof(key), "ip:10.0.%d.%d", i / 256, i % 256);
        assert_int_equal(rpc_quotas_admit(quotas, key, &limits, 1, &quota), RPC_QUOTA_OK);
        rpc_quotas_release(quotas, quota);
    }
    assert_int_equal(rpc_quotas_count(quotas), 10 + 1024);

    assert_int_equal(rpc_quotas_admit(quotas, "stays", &limits, 1, &again), RPC_QUOTA_OK);
    assert_ptr_equal(again, connected);

    /* Once their buckets are full again they are all forgotten together. */
    assert_int_equal(rpc_quotas_admit(quotas, "new", &limits, 1 + 60 * CR_NS_PER_S, &again),
                     RPC_QUOTA_OK);
    assert_int_equal(rpc_quotas_count(quotas), 2);
    (void)rpc_quotas_free(quotas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_gives_its_burst_and_then_its_rate),
        cmocka_unit_test(quota_holds_connections_per_peer),
        cmocka_unit_test(quota_holds_connections_of_all_peers),
        cmocka_unit_test(quota_counts_refused_attempts_too),
        cmocka_unit_test(quota_forgets_peers_that_are_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
