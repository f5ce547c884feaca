/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/policy.h"
#include "sandboxd/front/request.h"
#include "sandboxd/runtimes/table.h"
#include "tests/harness/test.h"

#include <string.h>

static struct sbx_msg_hello hello(void)
{
    struct sbx_msg_hello message = {.backend = 1, .slots = 2};

    memset(message.controls, SBX_ENFORCED, sizeof(message.controls));
    return message;
}

static struct sbx_request request(void)
{
    return (struct sbx_request){.runtime = (uint32_t)sbx_runtime_find("python"),
                                .limits = sbx_default_limits};
}

static void policy_names_every_control_and_limit(void **state)
{
    struct sbx_msg_hello host = hello();
    struct sbx_request wanted = request();
    struct sbx_policy policy;

    (void)state;
    sbx_policy_fill(&policy, &wanted, &host, NULL);

    assert_int_equal(policy.message.n_controls, SBX_CONTROL_COUNT);
    for (size_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        assert_true(strlen(policy.message.controls[i]->name) > 0);
        assert_true(strlen(policy.message.controls[i]->detail) > 0);
        assert_int_equal(policy.message.controls[i]->enforcement, SBX_ENFORCED);
    }
    assert_int_equal(policy.message.limits->wall_time_ms, 10000);
    assert_int_equal(policy.message.limits->memory_bytes, 128U << 20);
    assert_int_equal(policy.message.limits->output_bytes, 1U << 20);
    assert_int_equal(policy.message.n_requested, 0);
    assert_string_equal(policy.message.runtime, "python");
    assert_int_equal(strlen(policy.message.digest), 64);
    assert_int_equal(strlen(policy.message.runtime_digest), 64);
}

static void policy_tells_what_was_asked_for(void **state)
{
    struct sbx_msg_hello host = hello();
    struct sbx_request wanted = request();
    struct sbx_policy policy;

    (void)state;
    wanted.requested = (1U << SBX_LIMIT_MEMORY) | (1U << SBX_LIMIT_OUTPUT);
    sbx_policy_fill(&policy, &wanted, &host, NULL);
    assert_int_equal(policy.message.n_requested, 2);
    assert_string_equal(policy.message.requested[0], "memory_bytes");
    assert_string_equal(policy.message.requested[1], "output_bytes");
}

static void policy_names_a_gap(void **state)
{
    struct sbx_msg_hello host = hello();
    struct sbx_request wanted = request();
    struct sbx_policy policy;

    (void)state;
    host.controls[SBX_CONTROL_SWAP] = SBX_GAP;
    sbx_policy_fill(&policy, &wanted, &host, NULL);
    assert_int_equal(policy.message.controls[SBX_CONTROL_SWAP]->enforcement,
                     CRISOL__SANDBOX__V1__ENFORCEMENT__ENFORCEMENT_GAP);
    assert_non_null(strstr(policy.message.controls[SBX_CONTROL_SWAP]->detail, "accepted"));
}

/* The digest is there to be compared: equal for equals, different for any difference. */
static void policy_digest_changes_with_everything_in_force(void **state)
{
    struct sbx_msg_hello host = hello();
    struct sbx_request wanted = request();
    struct sbx_policy_memo memo = {0}; /* must not tell of another's */
    struct sbx_policy first;
    struct sbx_policy other;

    (void)state;
    sbx_policy_fill(&first, &wanted, &host, &memo);
    wanted.requested = 1; /* where a value came from does not change what is in force */
    sbx_policy_fill(&other, &wanted, &host, &memo);
    assert_string_equal(first.digest, other.digest);
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        wanted = request();
        wanted.limits.value[i]++;
        sbx_policy_fill(&other, &wanted, &host, &memo);
        assert_string_not_equal(first.digest, other.digest);
    }
    wanted = request();
    for (size_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        host = hello();
        host.controls[i] = SBX_PARTIAL;
        sbx_policy_fill(&other, &wanted, &host, &memo);
        assert_string_not_equal(first.digest, other.digest);
    }
    host = hello();
    wanted.runtime = (uint32_t)sbx_runtime_find("shell");
    sbx_policy_fill(&other, &wanted, &host, &memo);
    assert_string_not_equal(first.digest, other.digest);
    assert_string_not_equal(first.runtime_digest, other.runtime_digest);
}

static void a_policy_that_is_known_is_the_same(void **state)
{
    struct sbx_msg_hello host = hello();
    struct sbx_request wanted = request();
    struct sbx_policy_memo memo = {0};
    struct sbx_policy first;
    struct sbx_policy again;

    (void)state;
    sbx_policy_fill(&first, &wanted, &host, &memo);
    sbx_policy_fill(&again, &wanted, &host, &memo);

    assert_string_equal(first.message.digest, again.message.digest);
    assert_string_equal(first.message.runtime_digest, again.message.runtime_digest);
    for (size_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        assert_string_equal(first.message.controls[i]->name, again.message.controls[i]->name);
        assert_string_equal(first.message.controls[i]->detail, again.message.controls[i]->detail);
        assert_int_equal(first.message.controls[i]->enforcement,
                         again.message.controls[i]->enforcement);
    }
}

static void digest_is_sha256(void **state)
{
    char digest[SBX_DIGEST_SIZE];

    (void)state;
    sbx_digest("abc", 3, digest);
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy_names_every_control_and_limit),
        cmocka_unit_test(policy_tells_what_was_asked_for),
        cmocka_unit_test(policy_names_a_gap),
        cmocka_unit_test(policy_digest_changes_with_everything_in_force),
        cmocka_unit_test(a_policy_that_is_known_is_the_same),
        cmocka_unit_test(digest_is_sha256),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
