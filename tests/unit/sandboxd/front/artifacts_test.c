/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/front/artifacts.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_NS (SBX_ARTIFACT_LIFE_MS * CR_NS_PER_MS)
/* sha256 of "abc" (FIPS 180-2, appendix B.1). */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static int put(struct sbx_artifacts *artifacts, const char *caller, const char *text,
               int64_t now_ns)
{
    char digest[SBX_DIGEST_SIZE];

    return sbx_artifacts_put(artifacts, caller, text, strlen(text), now_ns, digest);
}

static void artifacts_are_found_by_digest_and_caller(void **state)
{
    struct sbx_artifacts artifacts = {0};
    char digest[SBX_DIGEST_SIZE];
    struct sbx_artifact *found;

    (void)state;
    assert_int_equal(sbx_artifacts_put(&artifacts, "a", "abc", 3, 0, digest), 0);
    assert_string_equal(digest, ABC);
    found = sbx_artifacts_get(&artifacts, "a", ABC, 1);
    assert_non_null(found);
    assert_int_equal(found->size, 3);
    assert_memory_equal(found->data, "abc", 4);
    assert_null(sbx_artifacts_get(&artifacts, "b", ABC, 1));
    assert_null(sbx_artifacts_get(&artifacts, "a", "", 1));
    assert_false(sbx_artifacts_drop(&artifacts, "b", ABC));
    assert_true(sbx_artifacts_drop(&artifacts, "a", ABC));
    assert_false(sbx_artifacts_drop(&artifacts, "a", ABC));
    assert_int_equal(artifacts.bytes, 0);
    sbx_artifacts_done(&artifacts);
}

static void artifacts_store_the_same_content_once_for_each_caller(void **state)
{
    struct sbx_artifacts artifacts = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(&artifacts, "a", "abc", i), 0);
    assert_int_equal(artifacts.count, 1);
    assert_int_equal(put(&artifacts, "b", "abc", 0), 0);
    assert_int_equal(artifacts.count, 2);
    assert_int_equal(put(&artifacts, "b", "", 0), 0); /* nothing is a content, too */
    assert_int_equal(artifacts.bytes, 6);
    sbx_artifacts_done(&artifacts);
    assert_int_equal(artifacts.count, 0);
}

static void artifacts_go_when_nobody_uses_them(void **state)
{
    struct sbx_artifacts artifacts = {0};

    (void)state;
    assert_int_equal(put(&artifacts, "a", "abc", 0), 0);
    assert_int_equal(put(&artifacts, "a", "def", 0), 0);
    assert_non_null(sbx_artifacts_get(&artifacts, "a", ABC, LIFE_NS - 1));
    assert_null(sbx_artifacts_get(&artifacts, "b", ABC, 2 * LIFE_NS - 2));
    sbx_artifacts_sweep(&artifacts, 2 * LIFE_NS - 2);
    assert_int_equal(artifacts.count, 1); /* the one that was used */
    assert_null(sbx_artifacts_get(&artifacts, "a", ABC, 2 * LIFE_NS - 1));
    assert_int_equal(put(&artifacts, "a", "ghi", 3 * LIFE_NS), 0); /* sweeps */
    assert_int_equal(artifacts.count, 1);
    sbx_artifacts_done(&artifacts);
}

static void artifacts_are_bounded_for_each_caller_and_for_all(void **state)
{
    const size_t size = SBX_ARTIFACT_BYTES_MAX;
    CR_AUTO_FREE char *data = calloc(1, size + 1);
    struct sbx_artifacts artifacts = {0};
    char digest[SBX_DIGEST_SIZE];
    char caller[16];
    int r = 0;

    (void)state;
    assert_non_null(data);
    assert_int_equal(sbx_artifacts_put(&artifacts, "a", data, size + 1, 0, digest), -EFBIG);
    for (unsigned int i = 0; r == 0; i++) {
        (void)snprintf(caller, sizeof(caller), "c%u", i / 8);
        (void)snprintf(data, size, "%u", i);
        if (i % 8 == 0 && i > 0) { /* the last caller has no room left */
            (void)snprintf(caller, sizeof(caller), "c%u", i / 8 - 1);
            assert_int_equal(sbx_artifacts_put(&artifacts, caller, data, size, 0, digest), -EDQUOT);
            (void)snprintf(caller, sizeof(caller), "c%u", i / 8);
        }
        r = sbx_artifacts_put(&artifacts, caller, data, size, 0, digest);
    }
    assert_int_equal(r, -ENOSPC);
    assert_int_equal(artifacts.bytes, SBX_ARTIFACTS_BYTES);
    sbx_artifacts_done(&artifacts);
}

static void artifacts_of_a_caller_are_counted(void **state)
{
    struct sbx_artifacts artifacts = {0};
    char text[16];

    (void)state;
    for (unsigned int i = 0; i < SBX_ARTIFACTS_CALLER_COUNT; i++) {
        (void)snprintf(text, sizeof(text), "%u", i);
        assert_int_equal(put(&artifacts, "a", text, 0), 0);
    }
    assert_int_equal(put(&artifacts, "a", "more", 0), -EDQUOT);
    assert_int_equal(put(&artifacts, "a", "0", 0), 0); /* is there */
    assert_int_equal(put(&artifacts, "b", "more", 0), 0);
    sbx_artifacts_done(&artifacts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(artifacts_are_found_by_digest_and_caller),
        cmocka_unit_test(artifacts_store_the_same_content_once_for_each_caller),
        cmocka_unit_test(artifacts_go_when_nobody_uses_them),
        cmocka_unit_test(artifacts_are_bounded_for_each_caller_and_for_all),
        cmocka_unit_test(artifacts_of_a_caller_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
