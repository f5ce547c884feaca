/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/config.h"
#include "common/edge.h"
#include "common/err.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define NUMBER(name, variable, member, least, most, standard, text)                                \
    {.flag = (name),                                                                               \
     .type = CR_SETTING_UINT,                                                                      \
     .offset = offsetof(struct cr_edge_settings, member),                                          \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .fallback = (standard),                                                                       \
     .help = (text)},
#define TEXT(name, variable, member, standard, text)                                               \
    {.flag = (name),                                                                               \
     .type = CR_SETTING_STRING,                                                                    \
     .offset = offsetof(struct cr_edge_settings, member),                                          \
     .fallback = (standard),                                                                       \
     .help = (text)},

static const struct cr_setting table[] = {CR_EDGE_SETTINGS_TABLE(NUMBER, TEXT)};

/* With at most one flag. Returns what the table or the numbers say. */
static int load(char *flag, struct cr_edge *ret_edge, struct cr_err *err)
{
    struct cr_edge_settings settings = {0};
    char program[] = "test";
    char *argv[] = {program, flag, NULL};
    int r =
        cr_config_load(table, CR_ARRAY_SIZE(table), "test", "", flag ? 2 : 1, argv, &settings, err);

    if (r == 0)
        r = cr_edge_parse(&settings, ret_edge, err);
    cr_config_done(table, CR_ARRAY_SIZE(table), &settings);
    return r;
}

static void edge_defaults_let_a_busy_user_through(void **state)
{
    struct cr_edge edge;

    (void)state;
    cr_edge_defaults(&edge);
    assert_true(edge.max_user_connections >= 256);
    assert_true(edge.user_accepts.per_s >= 200);
    assert_int_equal(edge.max_streams, 256);
    assert_int_equal(edge.frames[CR_EDGE_RESET].connection.per_s, 50);
    assert_int_equal(edge.frames[CR_EDGE_RESET].peer.burst, 640);
    assert_int_equal(edge.frames[CR_EDGE_OTHER].peer.per_s, 500);
    /* Every open call may be given up at once. */
    assert_true(edge.frames[CR_EDGE_RESET].connection.burst >= edge.max_streams + 64);
}

static void edge_settings_without_flags_are_the_defaults(void **state)
{
    struct cr_edge loaded;
    struct cr_edge defaults;

    (void)state;
    memset(&loaded, 0, sizeof(loaded));
    memset(&defaults, 0, sizeof(defaults));
    assert_int_equal(load(NULL, &loaded, NULL), 0);
    cr_edge_defaults(&defaults);
    assert_memory_equal(&loaded, &defaults, sizeof(loaded));
}

static void edge_rates_go_to_the_kind_that_is_named(void **state)
{
    static const struct {
        const char *flag;
        enum cr_edge_kind kind;
    } kinds[] = {
        {"settings", CR_EDGE_SETTINGS},     {"ping", CR_EDGE_PING},
        {"priority", CR_EDGE_PRIORITY},     {"reset", CR_EDGE_RESET},
        {"late-reset", CR_EDGE_LATE_RESET}, {"window", CR_EDGE_WINDOW},
        {"empty-data", CR_EDGE_EMPTY_DATA}, {"small-data", CR_EDGE_SMALL_DATA},
        {"other", CR_EDGE_OTHER},
    };

    (void)state;
    assert_int_equal(CR_ARRAY_SIZE(kinds), CR_EDGE_KIND_COUNT);
    for (size_t i = 0; i < CR_ARRAY_SIZE(kinds); i++) {
        struct cr_edge edge;
        char flag[64];

        (void)snprintf(flag, sizeof(flag), "--grpc-rate-%s=7/8,9/10", kinds[i].flag);
        assert_int_equal(load(flag, &edge, NULL), 0);
        assert_int_equal(edge.frames[kinds[i].kind].connection.per_s, 7);
        assert_int_equal(edge.frames[kinds[i].kind].connection.burst, 8);
        assert_int_equal(edge.frames[kinds[i].kind].peer.per_s, 9);
        assert_int_equal(edge.frames[kinds[i].kind].peer.burst, 10);
    }
}

static void edge_settings_that_make_no_sense_are_named(void **state)
{
    static const char *const bad[] = {
        "--grpc-user-accepts=",
        "--grpc-user-accepts=0/1",
        "--grpc-user-accepts=1/0",
        "--grpc-user-accepts=1",
        "--grpc-user-accepts=1/2/3",
        "--grpc-user-accepts=1/2,3/4",
        "--grpc-user-accepts=-1/2",
        "--grpc-user-accepts= 1/2",
        "--grpc-address-accepts=1000001/2",
        "--grpc-address-accepts=1/99999999999999999999",
        "--grpc-rate-ping=1/2",
        "--grpc-rate-ping=1/2,",
        "--grpc-rate-ping=1/2,3/4,5/6",
        "--grpc-rate-ping=1/2;3/4",
        "--grpc-rate-other=1/2,3/4x",
        "--grpc-streams=961",
        "--grpc-streams=0",
        "--grpc-connections=0",
        "--grpc-header-frames=1001",
        "--grpc-frame-ms=9",
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct cr_edge edge;
        char flag[64];

        (void)snprintf(flag, sizeof(flag), "%s", bad[i]);
        if (load(flag, &edge, &err) != -EINVAL)
            fail_msg("%s is taken", flag);
        *strchr(flag, '=') = '\0';
        assert_non_null(strstr(err.text, flag));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edge_defaults_let_a_busy_user_through),
        cmocka_unit_test(edge_settings_without_flags_are_the_defaults),
        cmocka_unit_test(edge_rates_go_to_the_kind_that_is_named),
        cmocka_unit_test(edge_settings_that_make_no_sense_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
