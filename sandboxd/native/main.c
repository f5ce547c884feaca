/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/userns.h"

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
#define MAXIMUM(name, limit, most)                                                                 \
    NUMBER(name, maximum[limit], 0, most, "highest value that a request may ask for; 0: built in")

static const struct cr_setting settings_table[] = {
    NUMBER("slots", slots, 0, SBX_SLOTS_MAX, "runs at one time; 0: by cores and memory"),
    {
        .flag = "uid-base",
        .type = CR_SETTING_UINT,
        .offset = offsetof(struct sbx_native_settings, uid_base),
        .fallback = "1879048192", /* SBX_USERNS_DEFAULT_BASE */
        .min = 65536,
        .max = UINT32_MAX - SBX_SLOTS_MAX * SBX_USERNS_RANGE,
        .help = "first host user id of the boxes; each slot takes 65,536",
    },
    TEXT("init", init_path, NULL, false, "the sandbox-init binary; default: beside this one"),
    TEXT("accept-gap", accept_gaps, NULL, true, "a control that may be missing on this host"),
    {
        .flag = "check",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_native_settings, is_check),
        .help = "print what this host has and lacks, and end",
    },
    TEXT("log-level", log_level, "info", false, "error, warn, info or debug"),
    TEXT("log-format", log_format, "text", false, "text or json"),
    MAXIMUM("max-wall-time-ms", SBX_LIMIT_WALL_TIME, 86400000),
    MAXIMUM("max-cpu-time-ms", SBX_LIMIT_CPU_TIME, 864000000),
    MAXIMUM("max-memory-bytes", SBX_LIMIT_MEMORY, UINT64_C(1) << 44),
    MAXIMUM("max-processes", SBX_LIMIT_PROCESSES, 1000000),
    MAXIMUM("max-cpu-millicores", SBX_LIMIT_CPU_MILLICORES, 1000000),
    MAXIMUM("max-open-files", SBX_LIMIT_OPEN_FILES, 1000000),
    MAXIMUM("max-file-size-bytes", SBX_LIMIT_FILE_SIZE, UINT64_C(1) << 44),
    MAXIMUM("max-workspace-bytes", SBX_LIMIT_WORKSPACE_BYTES, UINT64_C(1) << 44),
    MAXIMUM("max-workspace-inodes", SBX_LIMIT_WORKSPACE_INODES, UINT32_MAX / 2),
    MAXIMUM("max-stack-bytes", SBX_LIMIT_STACK, UINT64_C(1) << 40),
    MAXIMUM("max-output-bytes", SBX_LIMIT_OUTPUT, UINT64_C(1) << 40),
};

static int setup_log(const struct sbx_native_settings *settings, struct cr_err *err)
{
    enum cr_log_level level;
    bool is_json = strcmp(settings->log_format, "json") == 0;

    if (cr_log_level_parse(settings->log_level, &level) < 0)
        return cr_err_set(err, EINVAL, "--log-level: '%s' is no level", settings->log_level);
    if (!is_json && strcmp(settings->log_format, "text") != 0)
        return cr_err_set(err, EINVAL, "--log-format: '%s' is neither text nor json",
                          settings->log_format);
    cr_log_setup("sandboxd-native", level, is_json ? CR_LOG_JSON : CR_LOG_TEXT);
    return 0;
}

static int serve(const struct sbx_native_settings *settings, struct cr_err *err)
{
    static struct sbx_native native; /* large, and there is one */
    int r;

    if (settings->is_check)
        return sbx_native_check(settings, &native);
    r = sbx_native_start(settings, &native, err);
    if (r == 0)
        r = sbx_native_loop(&native, err);
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
    if (r == 0)
        r = setup_log(&settings, &err);
    if (r == 1) /* --help */
        return EXIT_SUCCESS;
    if (r == 0)
        r = serve(&settings, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_config_done(settings_table, CR_ARRAY_SIZE(settings_table), &settings);
    return r != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
