/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/settings.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int load(const char *const *flags, size_t count, struct sbx_settings *settings,
                struct cr_err *err)
{
    char *argv[17] = {cr_unconst("sandboxd")};

    for (size_t i = 0; i < count; i++)
        argv[1 + i] = cr_unconst(flags[i]);
    *settings = (struct sbx_settings){0};
    return sbx_settings_load((int)count + 1, argv, settings, err);
}

static bool has_arg(const struct sbx_child_args *args, const char *text)
{
    for (size_t i = 0; i < args->count; i++) {
        if (strcmp(args->list[i], text) == 0)
            return true;
    }
    return false;
}

static void settings_have_safe_defaults(void **state)
{
    struct sbx_child_args args = {0};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_settings settings;

    (void)state;
    assert_int_equal(load(NULL, 0, &settings, &err), 0);
    assert_string_equal(settings.socket, "/run/crisol/sandboxd.sock");
    assert_null(settings.listen);
    assert_int_not_equal(settings.front_user, 0);
    assert_string_equal(settings.metrics, "127.0.0.1:9102");
    assert_int_equal(sbx_front_args_make(&settings, 1, true, &args), 0);
    assert_true(has_arg(&args, "--with-metrics"));
    assert_true(has_arg(&args, "--user=64321"));
    assert_true(has_arg(&args, "--allow-uids=0,0"));
    assert_false(has_arg(&args, "--with-token"));
    sbx_child_args_done(&args);
    sbx_settings_done(&settings);
}

static void settings_refuse_tcp_without_a_token(void **state)
{
    static const char *const flags[] = {"--listen=127.0.0.1:0"};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_settings settings;

    (void)state;
    assert_int_equal(load(flags, 1, &settings, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--token-file"));
    sbx_settings_done(&settings);
}

static void settings_refuse_nonsense_by_name(void **state)
{
    static const char *const bad[] = {
        "--slots=many",      "--preload=yes",  "--front-user=0", "--log-level=loud",
        "--log-format=xml",  "--sockets=x",    "--grace-ms=-1",  "--backend=vm",
        "--docker-pull=yes", "--metrics=9102", "--listen=here",  "--health-listen=a:b"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad); i++) {
        struct cr_err err = CR_ERR_INIT;
        struct sbx_settings settings;
        char name[32];

        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(bad[i], "="), bad[i]);
        assert_int_equal(load(&bad[i], 1, &settings, &err), -EINVAL);
        if (!strstr(err.text, name))
            fail_msg("'%s' does not name %s", err.text, name);
        sbx_settings_done(&settings);
    }
}

static void settings_reach_the_children(void **state)
{
    static const char *const flags[] = {"--slots=3",
                                        "--max-wall-time-ms=5000",
                                        "--accept-gap=swap",
                                        "--accept-gap=ipc",
                                        "--allow-uid=1000",
                                        "--allow-uid=1001",
                                        "--socket-owner=1234",
                                        "--token-file=/t",
                                        "--log-level=debug",
                                        "--pool=0",
                                        "--pool=plain=3",
                                        "--runtimes-dir=/r",
                                        "--sandboxes=5",
                                        "--sandboxes-per-caller=2",
                                        "--sandbox-life-ms=9000",
                                        "--slow-host=7"};
    struct sbx_child_args native = {0};
    struct sbx_child_args front = {0};
    struct sbx_child_args docker = {0};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_settings settings;

    (void)state;
    assert_int_equal(load(flags, CR_ARRAY_SIZE(flags), &settings, &err), 0);
    assert_int_equal(sbx_native_args_make(&settings, &native), 0);
    assert_int_equal(sbx_front_args_make(&settings, 2, false, &front), 0);
    assert_int_equal(sbx_docker_args_make(&settings, false, &docker), 0);
    assert_true(has_arg(&native, "--slots=3"));
    assert_true(has_arg(&native, "--max-wall-time-ms=5000"));
    assert_true(has_arg(&native, "--accept-gap=swap,ipc"));
    assert_true(has_arg(&native, "--pool=0,plain=3"));
    assert_true(has_arg(&native, "--log-level=debug"));
    assert_true(has_arg(&native, "--with-runtimes"));
    assert_true(has_arg(&native, "--sessions=5"));
    assert_true(has_arg(&native, "--session-life-ms=9000"));
    assert_true(has_arg(&front, "--sandboxes-per-caller=2"));
    assert_true(has_arg(&front, "--with-runtimes"));
    assert_true(has_arg(&front, "--allow-uids=0,1234,1000,1001"));
    assert_true(has_arg(&front, "--listen-count=2"));
    assert_true(has_arg(&front, "--with-token"));
    assert_false(has_arg(&front, "--with-metrics"));
    assert_true(has_arg(&native, "--slow-host=7"));
    assert_true(has_arg(&docker, "--slow-host=7"));
    assert_true(has_arg(&front, "--slow-host=7"));
    assert_int_equal(cr_patience(), 7); /* of the supervisor itself */
    cr_patience_set(1);
    sbx_child_args_done(&docker);
    sbx_child_args_done(&native);
    sbx_child_args_done(&front);
    sbx_settings_done(&settings);
}

/* The engine is named to all three uses of sandboxd-docker, what only runs need to one. */
static void settings_reach_the_uses_of_docker(void **state)
{
    static const char *const flags[] = {"--slots=3", "--docker-socket=/s", "--docker-image=i",
                                        "--docker-pull=never", "--max-wall-time-ms=5000"};
    struct sbx_child_args serve = {0};
    struct sbx_child_args ping = {0};
    struct sbx_child_args gc = {0};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_settings settings;

    (void)state;
    assert_int_equal(load(flags, CR_ARRAY_SIZE(flags), &settings, &err), 0);
    assert_int_equal(sbx_docker_args_make(&settings, true, &serve), 0);
    assert_int_equal(sbx_docker_ping_args_make(&settings, &ping), 0);
    assert_int_equal(sbx_docker_gc_args_make(&settings, &gc), 0);
    assert_true(has_arg(&serve, "--docker-socket=/s") && has_arg(&ping, "--docker-socket=/s") &&
                has_arg(&gc, "--docker-socket=/s"));
    assert_true(has_arg(&serve, "--slots=3") && has_arg(&serve, "--docker-pull=never"));
    assert_true(has_arg(&serve, "--wait-for-engine"));
    assert_true(has_arg(&serve, "--max-wall-time-ms=5000"));
    assert_true(has_arg(&serve, "--docker-image=i") && has_arg(&gc, "--docker-image=i"));
    assert_false(has_arg(&ping, "--docker-image=i") || has_arg(&ping, "--slots=3"));
    assert_true(has_arg(&ping, "--ping") && has_arg(&gc, "--gc"));
    assert_true(has_arg(&serve, "--roots=/var/lib/crisol/runtimes") &&
                has_arg(&gc, "--roots=/var/lib/crisol/runtimes"));
    sbx_child_args_done(&serve);
    sbx_child_args_done(&ping);
    sbx_child_args_done(&gc);
    sbx_settings_done(&settings);
}

/* Every row and a last line; the caller is told to end, or what is wrong. */
static void settings_are_printed_and_checked_on_demand(void **state)
{
    static const char *const good[] = {"--check-config", "--grpc-streams=7"};
    static const char *const bad[] = {"--check-config", "--grpc-rate-reset=7"};
    static const char *const no_folder[] = {"--check-config", "--runtimes-dir=/nowhere"};
    struct cr_err err = CR_ERR_INIT;
    struct sbx_child_args front = {0};
    struct sbx_settings settings;

    (void)state;
    assert_int_equal(setenv("CRISOL_SANDBOXD_GRPC_USER_CONNECTIONS", "300", 1), 0);
    assert_int_equal(load(good, 2, &settings, &err), 1);
    assert_int_equal(unsetenv("CRISOL_SANDBOXD_GRPC_USER_CONNECTIONS"), 0);
    assert_int_equal(sbx_front_args_make(&settings, 1, false, &front), 0);
    assert_true(has_arg(&front, "--grpc-streams=7"));
    assert_true(has_arg(&front, "--grpc-user-connections=300"));
    assert_true(has_arg(&front, "--grpc-rate-reset=50/320,200/640"));
    sbx_child_args_done(&front);
    sbx_settings_done(&settings);
    assert_int_equal(load(bad, 2, &settings, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--grpc-rate-reset"));
    sbx_settings_done(&settings);
    assert_int_equal(load(no_folder, 2, &settings, &err), -ENOENT);
    assert_non_null(strstr(err.text, "--runtimes-dir '/nowhere': open it"));
    sbx_settings_done(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_have_safe_defaults),
        cmocka_unit_test(settings_refuse_tcp_without_a_token),
        cmocka_unit_test(settings_refuse_nonsense_by_name),
        cmocka_unit_test(settings_reach_the_children),
        cmocka_unit_test(settings_reach_the_uses_of_docker),
        cmocka_unit_test(settings_are_printed_and_checked_on_demand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
