/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/peers.h"
#include "rpc/server.h"
#include "tests/harness/alloc.h"
#include "tests/harness/test.h"

#include <errno.h>

static void a_peer_is_found_by_cores_name(void **state)
{
    const struct rpc_peer first = {.uid = 1, .caller = "uid:1"};
    const struct rpc_peer second = {.uid = 2, .caller = "uid:2"};
    struct rpc_peers *peers = rpc_peers_new();
    struct rpc_peer found;

    (void)state;
    assert_int_equal(rpc_peers_set(peers, 7, &first), 0);
    assert_int_equal(rpc_peers_set(peers, 3000, &second), 0);

    assert_true(rpc_peers_find(peers, "fd:7", &found));
    assert_string_equal(found.caller, "uid:1");
    assert_true(rpc_peers_find(peers, "fd:3000", &found));
    assert_int_equal(found.uid, 2);
    (void)rpc_peers_free(peers);
}

static void a_number_that_comes_again_is_the_new_peer(void **state)
{
    const struct rpc_peer first = {.uid = 1};
    const struct rpc_peer second = {.uid = 2};
    struct rpc_peers *peers = rpc_peers_new();
    struct rpc_peer found;

    (void)state;
    assert_int_equal(rpc_peers_set(peers, 7, &first), 0);
    assert_int_equal(rpc_peers_set(peers, 7, &second), 0);

    assert_true(rpc_peers_find(peers, "fd:7", &found));
    assert_int_equal(found.uid, 2);
    (void)rpc_peers_free(peers);
}

static void other_names_find_nobody(void **state)
{
    static const char *const names[] = {"",
                                        "fd:",
                                        "fd:8",
                                        "fd:7x",
                                        "fd:-7",
                                        "fd: 7",
                                        "fd:+7",
                                        "unix:/run/x",
                                        "FD:7",
                                        "7",
                                        "fd:65536",
                                        "fd:99999999999999999999",
                                        "ipv4:1.2.3.4:5"};
    const struct rpc_peer peer = {.uid = 1};
    struct rpc_peers *peers = rpc_peers_new();
    struct rpc_peer found;

    (void)state;
    assert_int_equal(rpc_peers_set(peers, 7, &peer), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_false(rpc_peers_find(peers, names[i], &found));
    (void)rpc_peers_free(peers);
}

static void the_table_has_an_end(void **state)
{
    const struct rpc_peer peer = {.uid = 1};
    struct rpc_peers *peers = rpc_peers_new();

    (void)state;
    assert_int_equal(rpc_peers_set(peers, RPC_PEERS_MAX - 1, &peer), 0);
    assert_int_equal(rpc_peers_set(peers, RPC_PEERS_MAX, &peer), -EMFILE);
    assert_int_equal(rpc_peers_set(peers, -1, &peer), -EMFILE);
    (void)rpc_peers_free(peers);
}

static void every_allocation_may_fail(void **state)
{
    const struct rpc_peer peer = {.uid = 1};
    int n = 0;
    int r;

    (void)state;
    do {
        struct rpc_peers *peers;

        test_fail_alloc(n++);
        peers = rpc_peers_new();
        r = peers ? rpc_peers_set(peers, 100, &peer) : -ENOMEM;
        assert_true(r == 0 || r == -ENOMEM);
        (void)rpc_peers_free(peers);
    } while (test_stop_alloc());
    assert_int_equal(r, 0);
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_is_found_by_cores_name),
        cmocka_unit_test(a_number_that_comes_again_is_the_new_peer),
        cmocka_unit_test(other_names_find_nobody),
        cmocka_unit_test(the_table_has_an_end),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
