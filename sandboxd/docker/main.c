/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/gaps.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/wire/maxima.h"

#include <stdlib.h>
#include <string.h>

#define RELAY_USER 64322 /* nobody else should have it */

#define NUMBER(name, member, least, most, text)                                                    \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_UINT,                                                   \
        .offset = offsetof(struct sbx_docker_settings, member), .min = (least), .max = (most),     \
        .help = (text)                                                                             \
    }
#define TEXT(name, member, standard, list, text)                                                   \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_STRING,                                                 \
        .offset = offsetof(struct sbx_docker_settings, member), .fallback = (standard),            \
        .is_list = (list), .help = (text)                                                          \
    }
#define BOOL(name, member, text)                                                                   \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_BOOL,                                                   \
        .offset = offsetof(struct sbx_docker_settings, member), .help = (text)                     \
    }
#define MAXIMUM(name, limit, most) NUMBER(name, maximum[limit], 0, most, SBX_MAXIMUM_HELP),

static const struct cr_setting settings_table[] = {
    NUMBER("slots", slots, 0, SBX_SLOTS_MAX, "Runs at one time; 0: by cores and memory."),
    TEXT("docker-socket", socket, "/var/run/docker.sock", false,
         "Path of the engine's unix socket, or tcp://ADDRESS:PORT of the loopback."),
    TEXT("docker-image", image, NULL, false,
         "A finished image of Dockerfile.sandbox; empty: built on first use."),
    TEXT("docker-base", base, "python:3.12-slim", false, "What Dockerfile.sandbox is built from."),
    TEXT("docker-pull", pull, "missing", false, "never or missing."),
    TEXT("docker-runtime", runtime, NULL, false,
         "The engine's runtime: runc, crun, runsc; empty: its default."),
    TEXT("docker-evidence", evidence, "auto", false,
         "outside, inside or auto: where counters and files of a container are read."),
    TEXT("instance", instance, "default", false, "Label of this service's containers."),
    TEXT("pool", pool, NULL, true,
         "KIND=N: containers that are started ahead and wait; kinds are plain, python, pytest, "
         "pytest-shallow; 0: none of any kind."),
    TEXT("preload", preload, "off", false,
         "on, caller or off: whether interpreters wait in them; each serves one run, so that on "
         "and caller are the same."),
    NUMBER("sessions", sessions, 0, SBX_SESSIONS_MAX, "Sandboxes that live on, at one time."),
    NUMBER("session-life-ms", session_life_ms, 0, UINT32_MAX, "The longest that one may live."),
    NUMBER("relay-user", relay_user, 1, UINT32_MAX - 1, "User id of the relays."),
    BOOL("wait-for-engine", must_wait, "Wait for an engine that does not answer."),
    BOOL("gc", is_gc, "Remove what was left behind, and end."),
    BOOL("ping", is_ping, "End with 0 when the engine answers."),
    BOOL("check", is_check, "Say what a start needs and lacks, and end."),
    BOOL("check-config", is_check_config,
         "Say what a start would refuse of the settings, and end."),
    BOOL("with-runtimes", with_runtimes, "The operator's runtimes are on descriptor 5."),
    TEXT("init", init_path, NULL, false,
         "The sandbox-init binary; empty: the one beside this binary."),
    TEXT("roots", roots, NULL, false, "The folder of the registered runtimes; empty: none."),
    TEXT("accept-gap", accept_gaps, NULL, true,
         "A control that may be missing on this host. Repeatable."),
    BOOL("selftest", weaken.is_selftest, "Started by sandboxd-selftest, which attacks this."),
    TEXT("weaken", weaken.control, NULL, false,
         "A control to leave out; only together with --selftest."),
    TEXT("log-level", log_level, "info", false, "error, warn, info or debug."),
    TEXT("log-format", log_format, "text", false, "text or json."),
    CR_SLOWNESS_SETTING(offsetof(struct sbx_docker_settings, slow_host)),
    SBX_MAXIMA(MAXIMUM)};

static int check_settings(struct sbx_docker_settings *settings, struct cr_err *err)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    if (strcmp(settings->pull, "never") != 0 && strcmp(settings->pull, "missing") != 0)
        return cr_err_set(err, EINVAL, "--docker-pull: '%s' is neither never nor missing",
                          settings->pull);
    if (strcmp(settings->evidence, "auto") != 0 && strcmp(settings->evidence, "outside") != 0 &&
        strcmp(settings->evidence, "inside") != 0)
        return cr_err_set(err, EINVAL, "--docker-evidence: '%s' is none of auto, outside, inside",
                          settings->evidence);
    if (strcmp(settings->preload, "on") != 0 && strcmp(settings->preload, "caller") != 0 &&
        strcmp(settings->preload, "off") != 0)
        return cr_err_set(err, EINVAL, "--preload: '%s' is not on, caller or off",
                          settings->preload);
    if (strspn(settings->instance, legal) != strlen(settings->instance) ||
        strlen(settings->instance) > 64)
        return cr_err_set(err, EINVAL, "--instance: '%s' is no label", settings->instance);
    if (settings->relay_user == 0)
        settings->relay_user = RELAY_USER;
    return 0;
}

/* What a start refuses, beside these, before it looks at the engine. */
static int check_more_settings(const struct sbx_docker_settings *settings, struct cr_err *err)
{
    static struct sbx_docker_pool pool; /* large */
    int r = sbx_gaps_check_names(settings->accept_gaps, err);

    return r == 0 ? sbx_docker_pool_init(&pool, settings->pool,
                                         strcmp(settings->preload, "off") != 0, err)
                  : r;
}

/* Whether there is an engine at all, for --backend=auto. */
static int ping_engine(const struct sbx_docker_settings *settings, struct cr_err *err)
{
    struct sbx_engine *engine = NULL;
    int r = sbx_engine_new(settings->socket, &engine, err);

    if (r == 0)
        r = sbx_engine_negotiate(engine, err);
    (void)sbx_engine_free(engine);
    return r;
}

static int serve(const struct sbx_docker_settings *settings, struct cr_err *err)
{
    static struct sbx_docker docker; /* large, and there is one */
    int r = sbx_docker_start(settings, &docker, err);

    if (r == 0)
        r = sbx_backend_loop(&docker.base, err);
    sbx_docker_stop(&docker);
    return r;
}

static int run(const struct sbx_docker_settings *settings, struct cr_err *err)
{
    if (settings->is_check_config)
        return check_more_settings(settings, err);
    if (settings->is_ping)
        return ping_engine(settings, err);
    if (settings->is_check)
        return sbx_docker_check(settings, err);
    if (settings->is_gc)
        return sbx_docker_gc(settings, err);
    return serve(settings, err);
}

int main(int argc, char **argv)
{
    struct sbx_docker_settings settings = {0};
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("sandboxd-docker", CR_LOG_INFO, CR_LOG_TEXT);
    r = cr_config_load(settings_table, CR_ARRAY_SIZE(settings_table), "sandboxd-docker",
                       "Runs programs in containers of a docker engine.\n"
                       "Started by sandboxd.",
                       argc, argv, &settings, &err);
    cr_patience_set(settings.slow_host);
    if (r == 0)
        r = cr_log_setup_by_name("sandboxd-docker", settings.log_level, settings.log_format, &err);
    if (r == 0)
        r = check_settings(&settings, &err);
    if (r == 0)
        r = run(&settings, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_config_done(settings_table, CR_ARRAY_SIZE(settings_table), &settings);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
