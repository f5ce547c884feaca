/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/unconst.h"
#include "sandboxd/front/recall.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A claim that must give this. */
static struct sbx_record *claim(struct sbx_recall *recall, const char *caller, const char *id,
                                const char *digest, int64_t now_ns, enum sbx_claim expected)
{
    const struct sbx_recall_key key = {caller, id, digest};
    struct sbx_record *record = NULL;
    struct sbx_waiter waiter = {0};

    assert_int_equal(sbx_recall_claim(recall, &key, now_ns, &waiter, &record), expected);
    if (expected == SBX_CLAIM_WAIT)
        sbx_record_leave(record, &waiter);
    return record;
}

static void add(struct sbx_record *record, size_t size)
{
    Crisol__Sandbox__V1__RunResponse message = CRISOL__SANDBOX__V1__RUN_RESPONSE__INIT;

    message.stdout_data.len = size;
    message.stdout_data.data = calloc(1, size);
    assert_non_null(message.stdout_data.data);
    sbx_record_add(record, &message.base);
    free(message.stdout_data.data);
}

/* Runs a request to its end. */
static void run(struct sbx_recall *recall, const char *caller, const char *id, size_t size,
                int64_t now_ns)
{
    struct sbx_record *record = claim(recall, caller, id, "d", now_ns, SBX_CLAIM_OWN);

    add(record, size);
    sbx_record_end(record, now_ns);
    (void)sbx_record_unref(record);
}

static void retry_gets_the_first_answer_message_by_message(void **state)
{
    struct sbx_recall recall = {0};
    struct sbx_record *record = claim(&recall, "a", "1", "d", 0, SBX_CLAIM_OWN);
    const uint8_t *data;
    size_t at = 0;
    size_t size;

    (void)state;
    add(record, 10);
    add(record, 0);
    add(record, 300);
    sbx_record_end(record, 0);
    (void)sbx_record_unref(record);

    record = claim(&recall, "a", "1", "d", 1, SBX_CLAIM_ANSWERED);
    assert_true(sbx_record_next(record, &at, &data, &size));
    assert_int_equal(size, 12); /* tag, length, bytes */
    assert_true(sbx_record_next(record, &at, &data, &size));
    assert_int_equal(size, 0);
    assert_false(sbx_record_is_last(record, at));
    assert_true(sbx_record_next(record, &at, &data, &size));
    assert_int_equal(size, 303);
    assert_true(sbx_record_is_last(record, at));
    assert_false(sbx_record_next(record, &at, &data, &size));
    (void)sbx_record_unref(record);
    sbx_recall_done(&recall);
}

static void key_is_caller_id_and_request(void **state)
{
    struct sbx_recall recall = {0};

    (void)state;
    run(&recall, "a", "1", 1, 0);
    assert_null(claim(&recall, "a", "1", "other", 0, SBX_CLAIM_OTHER));
    run(&recall, "b", "1", 1, 0); /* another caller's key is another key */
    run(&recall, "a", "2", 1, 0);
    sbx_recall_done(&recall);
}

static void count_wake(void *user)
{
    ++*(int *)user;
}

static void waiters_are_woken_at_the_end_and_at_a_drop(void **state)
{
    const struct sbx_recall_key key = {"a", "1", "d"};
    struct sbx_recall recall = {0};
    struct sbx_record *joined[2];
    int wakes = 0;

    (void)state;
    for (int is_drop = 0; is_drop < 2; is_drop++) {
        struct sbx_waiter waiters[2] = {{.wake = count_wake, .user = &wakes},
                                        {.wake = count_wake, .user = &wakes}};
        struct sbx_record *owned = claim(&recall, "a", "1", "d", 0, SBX_CLAIM_OWN);

        for (int i = 0; i < 2; i++)
            assert_int_equal(sbx_recall_claim(&recall, &key, 0, &waiters[i], &joined[i]),
                             SBX_CLAIM_WAIT);
        sbx_record_leave(joined[1], &waiters[1]); /* that one went away */
        if (is_drop)
            sbx_record_drop(owned);
        else
            sbx_record_end(owned, 0);
        sbx_record_drop(owned); /* nothing after the end */
        assert_int_equal(wakes, is_drop + 1);
        assert_int_equal(sbx_record_is_known(joined[0]), !is_drop);
        (void)sbx_record_unref(owned);
        (void)sbx_record_unref(joined[0]);
        (void)sbx_record_unref(joined[1]);
        sbx_recall_done(&recall);
    }
}

static void answer_lives_for_its_life(void **state)
{
    const int64_t life_ns = SBX_RECALL_LIFE_MS * CR_NS_PER_MS;
    struct sbx_recall recall = {0};
    struct sbx_record *running;

    (void)state;
    running = claim(&recall, "a", "running", "d", 0, SBX_CLAIM_OWN);
    run(&recall, "a", "1", 1, 100);
    (void)sbx_record_unref(claim(&recall, "a", "1", "d", 99 + life_ns, SBX_CLAIM_ANSWERED));
    run(&recall, "a", "1", 1, 100 + life_ns); /* forgotten: it may run again */
    (void)sbx_record_unref(claim(&recall, "a", "running", "d", life_ns * 9, SBX_CLAIM_WAIT));
    sbx_record_drop(running);
    (void)sbx_record_unref(running);
    sbx_recall_done(&recall);
    assert_int_equal(recall.bytes, 0);
    assert_int_equal(recall.ended, 0);
}

static void answers_are_bounded_in_count(void **state)
{
    struct sbx_recall recall = {0};
    char id[32];

    (void)state;
    run(&recall, "modest", "0", 1, 0);
    for (unsigned int i = 0; i <= SBX_RECALL_CALLER_ANSWERS_MAX; i++) {
        (void)snprintf(id, sizeof(id), "%u", i);
        run(&recall, "greedy", id, 1, 0);
    }
    assert_int_equal(recall.ended, SBX_RECALL_CALLER_ANSWERS_MAX + 1);
    (void)sbx_record_unref(claim(&recall, "modest", "0", "d", 0, SBX_CLAIM_ANSWERED));
    (void)sbx_record_unref(claim(&recall, "greedy", "1", "d", 0, SBX_CLAIM_ANSWERED));
    run(&recall, "greedy", "0", 1, 0); /* its oldest had gone */
    sbx_recall_done(&recall);
}

static void answers_are_bounded_in_bytes(void **state)
{
    struct sbx_recall recall = {0};
    struct sbx_record *record;

    (void)state;
    run(&recall, "modest", "0", 100, 0);
    run(&recall, "greedy", "0", 7U << 20, 0);
    run(&recall, "greedy", "1", 7U << 20, 0);
    run(&recall, "greedy", "2", 7U << 20, 0);
    assert_true(recall.bytes <= SBX_RECALL_CALLER_BYTES_MAX + 200);
    (void)sbx_record_unref(claim(&recall, "modest", "0", "d", 0, SBX_CLAIM_ANSWERED));
    (void)sbx_record_unref(claim(&recall, "greedy", "2", "d", 0, SBX_CLAIM_ANSWERED));
    record = claim(&recall, "greedy", "0", "d", 0, SBX_CLAIM_OWN);

    add(record, 5U << 20);
    add(record, 5U << 20); /* together more than one answer may have */
    assert_false(sbx_record_is_kept(record));
    sbx_record_end(record, 0);
    (void)sbx_record_unref(record);
    assert_null(claim(&recall, "greedy", "0", "d", 0, SBX_CLAIM_NOT_KEPT));
    sbx_recall_done(&recall);
}

static void digest_knows_method_and_body_but_no_order_of_the_environment(void **state)
{
    typedef Crisol__Sandbox__V1__ExecuteRequest__EnvEntry entry;
    entry a = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__ENV_ENTRY__INIT;
    entry b = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__ENV_ENTRY__INIT;
    entry *one_way[] = {&a, &b};
    entry *other_way[] = {&b, &a};
    Crisol__Sandbox__V1__ExecuteRequest message = CRISOL__SANDBOX__V1__EXECUTE_REQUEST__INIT;
    char digests[4][SBX_DIGEST_SIZE];

    (void)state;
    a.key = cr_unconst("A");
    b.key = cr_unconst("B");
    message.n_env = 2;
    message.env = one_way;
    assert_int_equal(sbx_recall_digest("/Run", &message, digests[0]), 0);
    assert_int_equal(sbx_recall_digest("/Execute", &message, digests[1]), 0);
    message.env = other_way;
    assert_int_equal(sbx_recall_digest("/Run", &message, digests[2]), 0);
    message.code = cr_unconst("x");
    assert_int_equal(sbx_recall_digest("/Run", &message, digests[3]), 0);

    assert_string_equal(digests[0], digests[2]);
    assert_string_not_equal(digests[0], digests[1]);
    assert_string_not_equal(digests[0], digests[3]);
    assert_ptr_equal(message.env[0], &b); /* the message is as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_gets_the_first_answer_message_by_message),
        cmocka_unit_test(key_is_caller_id_and_request),
        cmocka_unit_test(waiters_are_woken_at_the_end_and_at_a_drop),
        cmocka_unit_test(answer_lives_for_its_life),
        cmocka_unit_test(answers_are_bounded_in_count),
        cmocka_unit_test(answers_are_bounded_in_bytes),
        cmocka_unit_test(digest_knows_method_and_body_but_no_order_of_the_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
