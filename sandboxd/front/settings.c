/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/settings.h"

#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/patience.h"

#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct sbx_front_settings, member)
#define EDGE_NUMBER(name, variable, member, least, most, standard, text)                           \
    {.flag = (name),                                                                               \
     .type = CR_SETTING_UINT,                                                                      \
     .offset = AT(edge.member),                                                                    \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .fallback = (standard),                                                                       \
     .help = (text)},
#define EDGE_TEXT(name, variable, member, standard, text)                                          \
    {.flag = (name),                                                                               \
     .type = CR_SETTING_STRING,                                                                    \
     .offset = AT(edge.member),                                                                    \
     .fallback = (standard),                                                                       \
     .help = (text)},

/* Written by the supervisor, not by a person; sandboxd --help has the settings of the service. */
static const struct cr_setting table[] = {
    {.flag = "user",
     .type = CR_SETTING_UINT,
     .offset = AT(user),
     .max = UINT32_MAX - 1,
     .fallback = "0",
     .help = "User and group id to become."},
    {.flag = "listen-count",
     .type = CR_SETTING_UINT,
     .offset = AT(listen_count),
     .max = 64,
     .fallback = "0",
     .help = "Number of listening sockets, from descriptor 10 on."},
    {.flag = "allow-uids",
     .type = CR_SETTING_STRING,
     .offset = AT(allow_uids),
     .fallback = "0",
     .help = "User ids that may call over a unix socket, with commas."},
    {.flag = "with-token",
     .type = CR_SETTING_BOOL,
     .offset = AT(with_token),
     .help = "The token for TCP callers is on descriptor 5."},
    {.flag = "with-audit",
     .type = CR_SETTING_BOOL,
     .offset = AT(with_audit),
     .help = "The audit log is on descriptor 6."},
    {.flag = "with-runtimes",
     .type = CR_SETTING_BOOL,
     .offset = AT(with_runtimes),
     .help = "The operator's runtimes are on descriptor 7."},
    {.flag = "with-tls",
     .type = CR_SETTING_BOOL,
     .offset = AT(with_tls),
     .help = "Certificate, key and authority for TCP callers are on descriptor 8."},
    {.flag = "with-health",
     .type = CR_SETTING_BOOL,
     .offset = AT(with_health),
     .help = "The listening socket for health checks is on descriptor 9."},
    {.flag = "tls-clients",
     .type = CR_SETTING_STRING,
     .offset = AT(tls_clients),
     .help = "Names that a client's certificate must have one of, with commas."},
    {.flag = "with-metrics",
     .type = CR_SETTING_BOOL,
     .offset = AT(with_metrics),
     .help = "The listening socket of the metrics is behind the others."},
    {.flag = "queue",
     .type = CR_SETTING_UINT,
     .offset = AT(queue),
     .max = 4096,
     .fallback = "64",
     .help = "Runs that may wait for a slot."},
    {.flag = "caller-runs",
     .type = CR_SETTING_UINT,
     .offset = AT(caller_runs),
     .max = 100000,
     .fallback = "0",
     .help = "Runs of one caller at one time."},
    {.flag = "caller-runs-per-minute",
     .type = CR_SETTING_UINT,
     .offset = AT(caller_rate),
     .max = 1000000,
     .fallback = "0",
     .help = "Runs that one caller may begin in a minute."},
    {.flag = "sandboxes-per-caller",
     .type = CR_SETTING_UINT,
     .offset = AT(sandboxes_per_caller),
     .max = 64,
     .fallback = "8",
     .help = "Sandboxes that live on that one caller may have."},
    {.flag = "drain-delay-ms",
     .type = CR_SETTING_UINT,
     .offset = AT(drain_delay_ms),
     .max = 600000,
     .fallback = "0",
     .help = "How long calls are still taken after SIGTERM."},
    {.flag = "grace-ms",
     .type = CR_SETTING_UINT,
     .offset = AT(grace_ms),
     .max = 3600000,
     .fallback = "30000",
     .help = "How long runs in flight may go on after SIGTERM."},
    {.flag = "log-level",
     .type = CR_SETTING_STRING,
     .offset = AT(log_level),
     .fallback = "info",
     .help = "error, warn, info or debug."},
    {.flag = "log-format",
     .type = CR_SETTING_STRING,
     .offset = AT(log_format),
     .fallback = "text",
     .help = "text or json."},
    CR_SLOWNESS_SETTING(AT(slow_host)),
    CR_EDGE_SETTINGS_TABLE(EDGE_NUMBER, EDGE_TEXT)};

int sbx_front_settings_user(int argc, char *const *argv, uint32_t *ret_uid)
{
    static const char flag[] = "--user=";

    for (int i = 1; i < argc; i++) {
        const char *digits = argv[i] + sizeof(flag) - 1;
        unsigned long value;
        char *end;

        if (strncmp(argv[i], flag, sizeof(flag) - 1) != 0)
            continue;
        value = strtoul(digits, &end, 10);
        if (*digits < '0' || *digits > '9' || *end != '\0' || value >= UINT32_MAX)
            return -EINVAL;
        *ret_uid = (uint32_t)value;
        return 0;
    }
    return -EINVAL;
}

int sbx_front_settings_load(int argc, char **argv, struct sbx_front_settings *settings,
                            struct cr_err *err)
{
    int r = cr_config_load(table, CR_ARRAY_SIZE(table), "sandboxd-front",
                           "The unprivileged gRPC side of sandboxd; started by sandboxd.", argc,
                           argv, settings, err);

    return r == 0 ? cr_edge_parse(&settings->edge, &settings->limits, err) : r;
}

void sbx_front_settings_done(struct sbx_front_settings *settings)
{
    cr_config_done(table, CR_ARRAY_SIZE(table), settings);
}
