/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

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

/* ---- a program with a prefix and a file ---- */

static const struct cr_config_program program = {
    .settings = settings,
    .count = CR_ARRAY_SIZE(settings),
    .name = "test",
    .description = "A test.",
    .prefix = "TEST_",
};

/* A file that has `text`, by a path that is good while *ret_fd is open. */
static void write_file(const char *text, int *ret_fd, char path[32])
{
    *ret_fd = memfd_create("config", MFD_CLOEXEC);
    assert_true(*ret_fd >= 0);
    assert_int_equal(write(*ret_fd, text, strlen(text)), strlen(text));
    (void)snprintf(path, 32, "/proc/self/fd/%d", *ret_fd);
}

/* Loads with a file that has `text` and up to two more flags. */
static int load_with_file(const char *text, char *more, char *most, struct values *values,
                          struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    char flag[64] = "--config=";
    char *argv[] = {(char[]){"test"}, flag, more, most, NULL};

    write_file(text, &fd, flag + strlen(flag));
    *values = (struct values){0};
    return cr_config_load_program(&program, more ? (most ? 4 : 3) : 2, argv, values, err);
}

static void config_file_stands_between_default_and_environment(void **state)
{
    static const char text[] = "# comment\n\n runs = 7 \r\nlisten=a#1\nlisten = b = c\nfast=true";
    struct cr_err err = CR_ERR_INIT;
    struct values values;

    (void)state;
    assert_int_equal(load_with_file(text, NULL, NULL, &values, &err), 0);
    assert_int_equal(values.runs, 7);
    assert_string_equal(values.listen, "a#1,b = c");
    assert_true(values.is_fast);
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);

    assert_int_equal(setenv("TEST_RUNS", "8", 1), 0);
    assert_int_equal(setenv("TEST_FAST", "false", 1), 0); /* a name by the prefix */
    assert_int_equal(load_with_file(text, (char[]){"--listen=f"}, NULL, &values, &err), 0);
    assert_int_equal(unsetenv("TEST_RUNS"), 0);
    assert_int_equal(unsetenv("TEST_FAST"), 0);
    assert_int_equal(values.runs, 8);
    assert_string_equal(values.listen, "f");
    assert_false(values.is_fast);
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
}

static void config_file_is_refused_with_the_line_that_is_wrong(void **state)
{
    static const struct {
        const char *text;
        const char *problem;
    } cases[] = {
        {"\n\nspeed = 1", "line 3: there is no setting 'speed'"},
        {"runs = 0", "line 1: runs: '0' is not a whole number from 1 to 10"},
        {"runs", "line 1 is not 'name = value'"},
        {"= 4", "line 1 has no name of a setting"},
        {"runs = 4\nruns = 5", "line 2: runs is given twice"},
        {"listen = a\tb\001", "line 1 is too long or has a control character"},
        {"key = s", "line 1: key is a secret: put it into a file of its own and name that with "
                    "key-file"},
        {"key-file = /nowhere/at/all", "open '/nowhere/at/all'"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct values values;

        assert_true(load_with_file(cases[i].text, NULL, NULL, &values, &err) < 0);
        if (!strstr(err.text, cases[i].problem) || !strstr(err.text, "configuration file '"))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].problem);
        cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
    }
}

static void config_takes_secrets_from_files(void **state)
{
    CR_AUTO_CLOSE int fd = -1;
    struct cr_err err = CR_ERR_INIT;
    struct values values;
    char flag[64] = "--key-file=";
    char *path = flag + strlen(flag);

    (void)state;
    write_file("  se cret\nmore\n", &fd, path);
    assert_int_equal(load_with_file("", flag, NULL, &values, &err), 0);
    assert_string_equal(values.key, "se");
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);

    assert_int_equal(setenv("TEST_KEY_FILE", path, 1), 0);
    assert_int_equal(load_with_file("", NULL, NULL, &values, &err), 0);
    assert_string_equal(values.key, "se");
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);

    assert_int_equal(setenv("TEST_KEY", "direct", 1), 0);
    assert_int_equal(load_with_file("", NULL, NULL, &values, &err), -EINVAL);
    assert_string_equal(err.text, "TEST_KEY and TEST_KEY_FILE are both set; leave one of them out");
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
    assert_int_equal(unsetenv("TEST_KEY"), 0);
    assert_int_equal(unsetenv("TEST_KEY_FILE"), 0);
}

static void config_refuses_an_empty_or_a_huge_secret(void **state)
{
    CR_AUTO_CLOSE int fd = -1;
    struct cr_err err = CR_ERR_INIT;
    char *secret = NULL;
    char path[32];

    (void)state;
    write_file("\nsecond line", &fd, path);
    assert_int_equal(cr_config_read_secret(path, &secret, &err), -EINVAL);
    assert_non_null(strstr(err.text, "the first line of "));
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(cr_config_read_secret(path, &secret, &err), -EFBIG);
    assert_null(secret);
}

/* What is printed on stdout. */
static void capture_print(char *more, char *text, size_t size)
{
    CR_AUTO_CLOSE int file = memfd_create("stdout", MFD_CLOEXEC);
    CR_AUTO_CLOSE int old = dup(STDOUT_FILENO);
    struct cr_err err = CR_ERR_INIT;
    struct values values;
    ssize_t n;
    int r;

    assert_true(file >= 0 && old >= 0);
    (void)fflush(stdout);
    assert_int_equal(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
    r = load_with_file("runs = 7\nlisten = x\nlisten = y\n", more, NULL, &values, &err);
    (void)fflush(stdout);
    assert_int_equal(dup2(old, STDOUT_FILENO), STDOUT_FILENO);
    assert_int_equal(r, 1);
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
    n = pread(file, text, size - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
}

static void config_prints_what_can_be_read_again(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct values values;
    char text[4096];

    (void)state;
    assert_int_equal(setenv("TEST_KEY", "hush", 1), 0);
    capture_print((char[]){"--print-config"}, text, sizeof(text));
    assert_int_equal(unsetenv("TEST_KEY"), 0);
    assert_string_equal(text, "listen = x,y\n# key = (set)\nruns = 7\nfast = false\n");

    assert_int_equal(load_with_file(text, NULL, NULL, &values, &err), 0);
    assert_string_equal(values.listen, "x,y");
    assert_int_equal(values.runs, 7);
    cr_config_done(settings, CR_ARRAY_SIZE(settings), &values);
}

static void config_has_an_example_and_a_table(void **state)
{
    char text[4096];

    (void)state;
    capture_print((char[]){"--help=conf"}, text, sizeof(text));
    assert_non_null(strstr(text, "\n# h\n# From 1 to 10.\n#runs = 3\n"));
    assert_non_null(strstr(text, "\n#key-file =\n"));
    capture_print((char[]){"--help=markdown"}, text, sizeof(text));
    assert_non_null(strstr(text, "\n| `runs` | `TEST_RUNS` | `3` | h 1…10. |\n"));
    assert_non_null(strstr(text, "\n| `key-file` | `TEST_KEY_FILE`, `TEST_KEY` | | h |\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_flag_beats_environment_beats_default),
        cmocka_unit_test(config_repeated_list_flags_join_and_replace_the_default),
        cmocka_unit_test(config_refuses_and_names_what_is_wrong),
        cmocka_unit_test(config_file_stands_between_default_and_environment),
        cmocka_unit_test(config_file_is_refused_with_the_line_that_is_wrong),
        cmocka_unit_test(config_takes_secrets_from_files),
        cmocka_unit_test(config_refuses_an_empty_or_a_huge_secret),
        cmocka_unit_test(config_prints_what_can_be_read_again),
        cmocka_unit_test(config_has_an_example_and_a_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
