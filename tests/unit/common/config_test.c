/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

struct values {
    char *listen;
    char *key;
    uint64_t runs;
    bool is_fast;
};

static const struct cr_setting settings[] = {
    {.flag = "listen",
     .environment = "TEST_LISTEN",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct values, listen),
     .fallback = "default",
     .is_list = true,
     .help = "h"},
    {.flag = "key",
     .environment = "TEST_KEY",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct values, key),
     .is_secret = true,
     .help = "h"},
    {.flag = "runs",
     .environment = "TEST_RUNS",
     .type = CR_SETTING_UINT,
     .offset = offsetof(struct values, runs),
     .fallback = "3",
     .min = 1,
     .max = 10,
     .help = "h"},
    {.flag = "fast",
     .type = CR_SETTING_BOOL,
     .offset = offsetof(struct values, is_fast),
     .help = "h"},
};

static int load(struct values *values, struct cr_err *err, char **argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    return cr_config_load(settings, CR_ARRAY_SIZE(settings), "test", "A test.", argc, argv, values,
                          err);
}

static void config_flag_beats_environment_beats_default(void **state)
{
    struct values values = {0};
    struct cr_err err = CR_ERR_INIT;
    char *argv[] = {(char[]){"test"}, (char[]){"--runs=5"}, (char[]){"--fast"}, NULL};

    (void)state;
    assert_int_equal(setenv("TEST_RUNS", "4", 1), 0);
    assert_int_equal(setenv("TEST_LISTEN", "env", 1), 0);

    assert_int_equal(load(&values, &err, argv), 0);

    assert_int_equal(values.runs, 5);
    assert_string_equal(values.listen, "env");
    assert_true(values.is_fast);
    assert_null(values.key);
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
    assert_int_equal(unsetenv("TEST_RUNS"), 0);
    assert_int_equal(unsetenv("TEST_LISTEN"), 0);
}

static void config_repeated_list_flags_join_and_replace_the_default(void **state)
{
    struct values values = {0};
    struct cr_err err = CR_ERR_INIT;
    char *argv[] = {(char[]){"test"}, (char[]){"--listen"}, (char[]){"a"}, (char[]){"--listen=b"},
                    NULL};

    (void)state;
    assert_int_equal(load(&values, &err, argv), 0);

    assert_string_equal(values.listen, "a,b");
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
}

static void config_refuses_and_names_what_is_wrong(void **state)
{
    static const struct {
        const char *flag;
        const char *text;
    } cases[] = {
        {"--runs=0", "--runs=0: '0' is not a whole number from 1 to 10"},
        {"--runs=11", "--runs=11: '11' is not a whole number from 1 to 10"},
        {"--runs=-1", "--runs=-1: '-1' is not a whole number from 1 to 10"},
        {"--runs=4x", "--runs=4x: '4x' is not a whole number from 1 to 10"},
        {"--runs=", "--runs=: '' is not a whole number from 1 to 10"},
        {"--runs", "--runs needs a value"},
        {"--fast=maybe", "--fast=maybe: 'maybe' is neither true nor false"},
        {"--speed=1", "there is no setting '--speed'; see --help"},
        {"word", "'word' is not a setting; see --help"},
        {"--key=s", "--key is a secret and would show in the process list: set TEST_KEY instead"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct values values = {0};
        struct cr_err err = CR_ERR_INIT;
        char flag[64];
        char *argv[] = {(char[]){"test"}, flag, NULL};

        (void)strncpy(flag, cases[i].flag, sizeof(flag) - 1);
        flag[sizeof(flag) - 1] = '\0';
        assert_int_equal(load(&values, &err, argv), -EINVAL);
        assert_string_equal(err.text, cases[i].text);
        cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_flag_beats_environment_beats_default),
        cmocka_unit_test(config_repeated_list_flags_join_and_replace_the_default),
        cmocka_unit_test(config_refuses_and_names_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
