/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/backend.h"
#include "sandboxd/backend/weaken.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void nothing_is_left_out_unless_asked_for(void **state)
{
    const struct sbx_weaken_settings settings = {.is_selftest = true};
    uint32_t control = 0;

    (void)state;
    assert_int_equal(sbx_weaken_parse(&settings, &control, NULL), 0);
    assert_int_equal(control, SBX_WEAKEN_NOTHING);
}

/* One flag alone, as an operator could set it by mistake, is an error. */
static void it_takes_the_self_test_to_leave_something_out(void **state)
{
    static char name[] = "network";
    struct sbx_weaken_settings settings = {.control = name};
    struct cr_err err = CR_ERR_INIT;
    uint32_t control = SBX_WEAKEN_NOTHING;

    (void)state;
    assert_int_equal(sbx_weaken_parse(&settings, &control, &err), -EPERM);
    assert_non_null(strstr(err.text, "sandboxd selftest"));
    assert_int_equal(control, SBX_WEAKEN_NOTHING);
    settings.is_selftest = true;
    assert_int_equal(sbx_weaken_parse(&settings, &control, NULL), 0);
    assert_int_equal(control, SBX_CONTROL_NETWORK);
}

static void what_is_no_control_is_refused(void **state)
{
    static char names[][32] = {"nonsense", "net", ""};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        const struct sbx_weaken_settings settings = {.is_selftest = true, .control = names[i]};
        uint32_t control = 0;

        assert_int_equal(sbx_weaken_parse(&settings, &control, NULL), -EINVAL);
    }
}

static void what_is_left_out_is_a_gap(void **state)
{
    struct sbx_backend backend;

    (void)state;
    sbx_backend_init(&backend, NULL);
    memset(backend.controls, SBX_ENFORCED, sizeof(backend.controls));
    sbx_weaken_controls(&backend);
    for (int i = 0; i < SBX_CONTROL_COUNT; i++)
        assert_int_equal(backend.controls[i], SBX_ENFORCED);
    backend.weakened = SBX_CONTROL_DEV;
    sbx_weaken_controls(&backend);
    assert_int_equal(backend.controls[SBX_CONTROL_DEV], SBX_GAP);
    assert_true(sbx_is_weakened(&backend, SBX_CONTROL_DEV));
    assert_false(sbx_is_weakened(&backend, SBX_CONTROL_PROC));
}

static void only_a_weakened_filter_is_replaced(void **state)
{
    struct sbx_backend backend;
    int before = test_count_fds();
    int fd = -1;

    (void)state;
    sbx_backend_init(&backend, NULL);
    assert_int_equal(sbx_weaken_filter(&backend, &fd, NULL), 0);
    assert_int_equal(fd, -1);
    backend.weakened = SBX_CONTROL_SECCOMP;
    assert_int_equal(sbx_weaken_filter(&backend, &fd, NULL), 0);
    assert_true(fd >= 0);
    assert_true((fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE) != 0);
    cr_close_fd(&fd);
    assert_int_equal(test_count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_left_out_unless_asked_for),
        cmocka_unit_test(it_takes_the_self_test_to_leave_something_out),
        cmocka_unit_test(what_is_no_control_is_refused),
        cmocka_unit_test(what_is_left_out_is_a_gap),
        cmocka_unit_test(only_a_weakened_filter_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
