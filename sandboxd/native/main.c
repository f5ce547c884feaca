/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/gaps.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/native.h"
#include "sandboxd/wire/maxima.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER(name, member, least, most, text)                                                    \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_UINT,                                                   \
        .offset = offsetof(struct sbx_native_settings, member), .min = (least), .max = (most),     \
        .help = (text)                                                                             \
    }
#define TEXT(name, member, standard, list, text)                                                   \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_STRING,                                                 \
        .offset = offsetof(struct sbx_native_settings, member), .fallback = (standard),            \
        .is_list = (list), .help = (text)                                                          \
    }
#define MAXIMUM(name, limit, most) NUMBER(name, maximum[limit], 0, most, SBX_MAXIMUM_HELP),

static const struct cr_setting settings_table[] = {
    NUMBER("slots", slots, 0, SBX_SLOTS_MAX, "Runs at one time; 0: by cores and memory."),
    {
        .flag = "uid-base",
        .type = CR_SETTING_UINT,
        .offset = offsetof(struct sbx_native_settings, uid_base),
        .fallback = "1879048192", /* SBX_USERNS_DEFAULT_BASE */
        .min = 131072,
        .max = UINT32_MAX - SBX_PLACES_MAX * SBX_USERNS_RANGE,
        .help = "First host user id of the boxes; each takes 65,536, templates the one before.",
    },
    NUMBER("sessions", sessions, 0, SBX_SESSIONS_MAX, "Sandboxes that live on, at one time."),
    NUMBER("session-life-ms", session_life_ms, 0, UINT32_MAX, "The longest that one may live."),
    TEXT("init", init_path, NULL, false,
         "The sandbox-init binary; empty: the one beside this binary."),
    TEXT("rootfs", rootfs, NULL, false,
         "Folder of the root file system of the boxes; empty: the host's /usr."),
    TEXT("roots", roots, NULL, false,
         "Folder where 'sandboxd runtime build' registers root file systems of runtimes."),
    TEXT("pool", pool, NULL, true,
         "KIND=N: boxes of a kind that wait for runs; 0: none of any kind. Repeatable."),
    TEXT("preload", preload, "off", false,
         "on, caller or off: whether interpreters are started once and forked for runs; caller: "
         "for each caller its own."),
    TEXT("accept-gap", accept_gaps, NULL, true,
         "A control that may be missing on this host. Repeatable."),
    {
        .flag = "rootless",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_native_settings, is_rootless),
        .help = "The user namespace that this is started in has one id.",
    },
    {
        .flag = "check",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_native_settings, is_check),
        .help = "Print what this host has and lacks, and end.",
    },
    {
        .flag = "check-config",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_native_settings, is_check_config),
        .help = "Say what a start would refuse of the settings, and end.",
    },
    {
        .flag = "with-runtimes",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_native_settings, with_runtimes),
        .help = "The operator's runtimes are on descriptor 5.",
    },
    TEXT("weaken", weaken.control, NULL, false,
         "A control to leave out; only together with --selftest."),
    {
        .flag = "selftest",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_native_settings, weaken.is_selftest),
        .help = "Started by sandboxd-selftest, which attacks this.",
    },
    TEXT("log-level", log_level, "info", false, "error, warn, info or debug."),
    TEXT("log-format", log_format, "text", false, "text or json."),
    CR_SLOWNESS_SETTING(offsetof(struct sbx_native_settings, slow_host)),
    SBX_MAXIMA(MAXIMUM)};

/* What a start refuses before it looks at the host. */
static int check_settings(const struct sbx_native_settings *settings, struct cr_err *err)
{
    static struct sbx_pool pool; /* large */
    int r = sbx_gaps_check_names(settings->accept_gaps, err);

    return r == 0 ? sbx_native_size_pool(settings, &pool, err) : r;
}

static int serve(const struct sbx_native_settings *settings, struct cr_err *err)
{
    static struct sbx_native native; /* large, and there is one */
    int r;

    if (settings->is_check_config)
        return check_settings(settings, err);
    if (settings->is_check)
        return sbx_native_check(settings, &native);
    r = sbx_native_start(settings, &native, err);
    if (r == 0)
        r = sbx_backend_loop(&native.base, err);
    sbx_native_stop(&native);
    return r;
}

int main(int argc, char **argv)
{
    struct sbx_native_settings settings = {0};
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("sandboxd-native", CR_LOG_INFO, CR_LOG_TEXT);
    r = cr_config_load(settings_table, CR_ARRAY_SIZE(settings_table), "sandboxd-native",
                       "Runs programs in boxes of namespaces, control groups and seccomp.\n"
                       "Started by sandboxd.",
                       argc, argv, &settings, &err);
    cr_patience_set(settings.slow_host);
    if (r == 0)
        r = cr_log_setup_by_name("sandboxd-native", settings.log_level, settings.log_format, &err);
    if (r == 1) /* --help */
        return EXIT_SUCCESS;
    if (r == 0 && strcmp(settings.preload, "on") != 0 && strcmp(settings.preload, "caller") != 0 &&
        strcmp(settings.preload, "off") != 0)
        r = cr_err_set(&err, EINVAL, "--preload: '%s' is not on, caller or off", settings.preload);
    if (r == 0)
        r = serve(&settings, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_config_done(settings_table, CR_ARRAY_SIZE(settings_table), &settings);
    return r != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
