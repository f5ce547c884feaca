/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/settings.h"

#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/supervisor/runtime_files.h"
#include "sandboxd/wire/maxima.h"

#include <string.h>
#include <unistd.h>

#define NUMBER(name, member, least, most, standard, text)                                          \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_UINT, .offset = offsetof(struct sbx_settings, member),  \
        .min = (least), .max = (most), .fallback = (standard), .help = (text)                      \
    }
#define TEXT(name, variable, member, standard, list, text)                                         \
    {                                                                                              \
        .flag = (name), .environment = (variable), .type = CR_SETTING_STRING,                      \
        .offset = offsetof(struct sbx_settings, member), .fallback = (standard),                   \
        .is_list = (list), .help = (text)                                                          \
    }
#define CHECK_CONFIG                                                                               \
    {                                                                                              \
        .flag = "check-config", .type = CR_SETTING_BOOL, .is_action = true,                        \
        .offset = offsetof(struct sbx_settings, must_check_config),                                \
        .help = "Print the settings that would be in force, say whether they are well formed, "    \
                "and end."                                                                         \
    }
#define EDGE_NUMBER(name, variable, member, least, most, standard, text)                           \
    {.flag = (name),                                                                               \
     .environment = "CRISOL_SANDBOXD_" variable,                                                   \
     .type = CR_SETTING_UINT,                                                                      \
     .offset = offsetof(struct sbx_settings, edge.member),                                         \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .fallback = (standard),                                                                       \
     .help = (text)},
#define EDGE_TEXT(name, variable, member, standard, text)                                          \
    TEXT(name, "CRISOL_SANDBOXD_" variable, edge.member, standard, false, text),
#define MAXIMUM(name, limit, most) NUMBER(name, maximum[limit], 0, most, NULL, SBX_MAXIMUM_HELP),

static const struct cr_setting table[] = {
    TEXT("socket", "CRISOL_SOCKET", socket, "/run/crisol/sandboxd.sock", false,
         "Unix socket to serve on; mode 0600."),
    NUMBER("socket-owner", socket_owner, 0, UINT32_MAX - 1, "0",
           "User id that owns the socket and may call, besides root."),
    TEXT("allow-uid", NULL, allow_uids, NULL, true,
         "Further user id that may call (the mode of the socket must let it in). Repeatable."),
    TEXT("listen", NULL, listen, NULL, false,
         "HOST:PORT to serve on by TCP as well; needs --token-file or --tls-client-ca."),
    TEXT(
        "health-listen", NULL, health_listen, NULL, false,
        "HOST:PORT for health checks alone (grpc.health.v1), in plain text and without a token, on "
        "threads of its own: for probes."),
    TEXT("token-file", NULL, token_file, NULL, false,
         "File with the tokens of TCP callers, a line 'NAME TOKEN' for each, or one TOKEN alone; "
         "readable by its owner only. Read again when it changes."),
    TEXT("tls-cert", NULL, tls_certificate, NULL, false,
         "PEM file with the certificate of --listen, which then speaks TLS only, and the ones "
         "behind it. Read again when it changes."),
    TEXT("tls-key", NULL, tls_key, NULL, false, "PEM file with its key; closed to others."),
    TEXT("tls-client-ca", NULL, tls_client_authority, NULL, false,
         "PEM file with the authority whose certificates TCP callers must show; then they need no "
         "token."),
    TEXT("tls-client", NULL, tls_clients, NULL, true,
         "Name (DNS or URI of subjectAltName) that a caller's certificate may have; without one, "
         "any of --tls-client-ca. Repeatable."),
    TEXT("metrics", NULL, metrics, SBX_METRICS_STANDARD, false,
         "HOST:PORT of the page /metrics (Prometheus), plain HTTP that asks for no password; empty "
         "for none. The standard one is left out when its port is taken."),
    NUMBER("front-user", front_user, 1, UINT32_MAX - 1, "64321",
           "User id of the unprivileged process that talks to callers; no other process should "
           "have it."),
    NUMBER("slots", slots, 0, 1024, "0", "Runs at one time; 0: by cores and memory."),
    NUMBER("uid-base", uid_base, 0, UINT32_MAX, "0",
           "First host user id of the sandboxes (65,536 for each slot); 0: built in."),
    NUMBER("sandboxes", sandboxes, 0, 64, "16",
           "Sandboxes that live over several calls, at one time; 0: none."),
    NUMBER("sandboxes-per-caller", sandboxes_per_caller, 1, 64, "8",
           "How many of them one caller may have."),
    NUMBER("sandbox-life-ms", sandbox_life_ms, 1000, UINT32_MAX, "3600000",
           "The longest that one of them may live."),
    NUMBER("queue", queue, 0, 4096, "64", "Runs that may wait for a slot."),
    NUMBER("caller-runs", caller_runs, 0, 100000, "0",
           "Runs of one caller at one time, waiting ones included; 0: no limit."),
    NUMBER("caller-runs-per-minute", caller_rate, 0, 1000000, "0",
           "Runs that one caller may begin in a minute; 0: no limit."),
    NUMBER(
        "drain-delay-ms", drain_delay_ms, 0, 600000, "0",
        "How long calls are still taken after SIGTERM, while health says NOT_SERVING: so long do "
        "callers need to see it."),
    NUMBER("grace-ms", grace_ms, 0, 3600000, "30000",
           "How long runs in flight may go on after SIGTERM."),
    TEXT("backend", "CRISOL_BACKEND", backend, "auto", false,
         "native, docker, or auto: docker where an engine answers and an image or a base is named, "
         "else native."),
    TEXT("docker-socket", NULL, docker_socket, "/var/run/docker.sock", false,
         "Path of the docker engine's unix socket, or tcp://ADDRESS:PORT of the loopback."),
    TEXT("docker-image", NULL, docker_image, NULL, false,
         "Finished image of the sandboxes; default: built from Dockerfile.sandbox on first use."),
    TEXT("docker-base", NULL, docker_base, NULL, false,
         "Image that Dockerfile.sandbox is built from; default: python:3.12-slim."),
    TEXT("docker-pull", NULL, docker_pull, "missing", false,
         "never or missing: whether the engine may fetch an image that it does not have."),
    TEXT("docker-runtime", NULL, docker_runtime, NULL, false,
         "Runtime of the engine, such as runsc or crun; default: the engine's own."),
    TEXT("docker-evidence", NULL, docker_evidence, "auto", false,
         "outside, inside or auto: where counters and files of a container are read; inside for an "
         "engine on another host (then every verdict says INFERRED)."),
    TEXT("preload", NULL, preload, "on", false,
         "on, caller or off: whether interpreters are started ahead, once, and forked for runs; "
         "caller: for each caller its own. On docker each run has its own in any case."),
    TEXT("rootfs", "CRISOL_ROOTFS", rootfs, NULL, false,
         "Folder whose usr, lib, etc, opt become the root file system of the native backend's "
         "sandboxes, read-only, such as an unpacked image (then nothing is preloaded). It must be "
         "root's and writable by root only. Default: the host's own /usr."),
    TEXT("runtimes-dir", "CRISOL_RUNTIMES_DIR", runtimes_dir, NULL, false,
         "Folder with files NAME.runtime: runtimes besides those that are built in. It and they "
         "must be root's and writable by root only."),
    TEXT("state-dir", "CRISOL_STATE_DIR", state_dir, "/var/lib/crisol", false,
         "Folder where 'sandboxd runtime build' registers runtimes with root file systems of their "
         "own. It must be root's and writable by root only."),
    {
        .flag = "rootless",
        .type = CR_SETTING_BOOL,
        .offset = offsetof(struct sbx_settings, is_rootless),
        .help = "Start as an ordinary user, with the native backend in a user namespace. What is "
                "lost against root is named, and must be accepted by --accept-gap; least is where "
                "/etc/subuid gives the user ids.",
    },
    TEXT("accept-gap", NULL, accept_gaps, NULL, true,
         "Name of a control that this host lacks, or that --rootless loses, and that you accept to "
         "be without. Repeatable."),
    TEXT("pool", NULL, pool, NULL, true,
         "KIND=N: sandboxes of a kind (plain, python, pytest, pytest-shallow) that are made ahead "
         "and wait; 0: none of any kind. Default plain=4 (of docker 2), python=1, pytest=6 (of "
         "docker 2), pytest-shallow=1 (of docker 0). One of an interpreter takes 10 MiB, of docker "
         "25. Repeatable."),
    TEXT("audit-log", NULL, audit_log, NULL, false,
         "File that gets a line for each run that ended or was refused; default: the log."),
    CR_SLOWNESS_SETTING(offsetof(struct sbx_settings, slow_host)),
    CHECK_CONFIG,
    TEXT("log-level", "CRISOL_LOG_LEVEL", log_level, "info", false, "error, warn, info or debug."),
    TEXT("log-format", "CRISOL_LOG_FORMAT", log_format, "text", false, "text or json."),
    CR_EDGE_SETTINGS_TABLE(EDGE_NUMBER, EDGE_TEXT) SBX_MAXIMA(MAXIMUM)};

static const struct cr_config_program program = {
    .settings = table,
    .count = CR_ARRAY_SIZE(table),
    .name = "sandboxd",
    .description = "Runs untrusted programs in throw-away sandboxes and serves them by "
                   "gRPC (crisol.sandbox.v1).\nMust be started as root.\n\n"
                   "sandboxd check [SETTING…]   prints what this host has and lacks, with the fix\n"
                   "sandboxd runtime --help     builds root file systems of runtimes\n"
                   "sandboxd selftest --help    attacks its own sandboxes and judges each control",
    .prefix = "CRISOL_SANDBOXD_",
};

static bool is_empty(const char *text)
{
    return !text || !*text;
}

static int check_words(const struct sbx_settings *settings, struct cr_err *err)
{
    static const struct {
        const char *flag;
        size_t offset;
        const char *words[4];
        const char *text;
    } rows[] = {
        {"backend",
         offsetof(struct sbx_settings, backend),
         {"native", "docker", "auto"},
         "native, docker or auto"},
        {"preload",
         offsetof(struct sbx_settings, preload),
         {"on", "caller", "off"},
         "on, caller or off"},
        {"docker-pull",
         offsetof(struct sbx_settings, docker_pull),
         {"never", "missing"},
         "never or missing"},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        const char *value = *(char *const *)(const void *)((const char *)settings + rows[i].offset);
        const char *const *word = rows[i].words;

        while (*word && strcmp(value, *word) != 0)
            word++;
        if (!*word)
            return cr_err_set(err, EINVAL, "--%s: '%s' is not %s", rows[i].flag, value,
                              rows[i].text);
    }
    return 0;
}

static int check_tls(const struct sbx_settings *settings, struct cr_err *err)
{
    if (is_empty(settings->tls_certificate) != is_empty(settings->tls_key))
        return cr_err_set(err, EINVAL, "--tls-cert and --tls-key: one is of no use alone");
    if (!is_empty(settings->tls_client_authority) && is_empty(settings->tls_certificate))
        return cr_err_set(err, EINVAL, "--tls-client-ca: needs --tls-cert and --tls-key");
    if (!is_empty(settings->tls_clients) && is_empty(settings->tls_client_authority))
        return cr_err_set(err, EINVAL, "--tls-client: needs --tls-client-ca");
    return 0;
}

static int check_listened(const char *flag, const char *address, struct cr_err *err)
{
    if (is_empty(address) || cr_listen_check(address, err) == 0)
        return 0;
    return cr_err_wrap(err, "--%s", flag);
}

static int check_addresses(const struct sbx_settings *settings, struct cr_err *err)
{
    int r = check_listened("listen", settings->listen, err);

    if (r == 0)
        r = check_listened("health-listen", settings->health_listen, err);
    if (r == 0)
        r = check_listened("metrics", settings->metrics, err);
    if (r < 0)
        return r;
    if (is_empty(settings->socket) && is_empty(settings->listen))
        return cr_err_set(err, EINVAL, "--socket: is empty, and there is no --listen either");
    if (!is_empty(settings->listen) && is_empty(settings->token_file) &&
        is_empty(settings->tls_client_authority))
        return cr_err_set(err, EINVAL,
                          "--listen: TCP callers need a token, on loopback too; write one line of "
                          "16 or more random characters to a file of mode 0600 and name it with "
                          "--token-file, or ask for certificates with --tls-client-ca");
    /* Before anything is logged; sandboxd-docker looks at the rest. */
    if (strchr(settings->docker_socket, '@'))
        return cr_err_set(err, EINVAL, "--docker-socket: takes no user and no password");
    return 0;
}

static int check_folder(const char *flag, const char *path, struct cr_err *err)
{
    if (is_empty(path) || path[0] == '/')
        return 0;
    return cr_err_set(err, EINVAL, "--%s: must be an absolute path", flag);
}

/* What one row of the table cannot say. */
static int check_together(const struct sbx_settings *settings, struct cr_err *err)
{
    struct cr_edge limits; /* only to see that they can be read */
    int r = check_addresses(settings, err);

    if (r == 0)
        r = check_tls(settings, err);
    if (r == 0)
        r = check_folder("rootfs", settings->rootfs, err);
    if (r == 0)
        r = check_folder("state-dir", settings->state_dir, err);
    if (r == 0)
        r = check_words(settings, err);
    if (r == 0 && settings->is_rootless && strcmp(settings->backend, "docker") == 0)
        r = cr_err_set(err, EINVAL, "--rootless: is for the native backend");
    return r == 0 ? cr_edge_parse(&settings->edge, &limits, err) : r;
}

bool sbx_settings_has_runtimes(const struct sbx_settings *settings)
{
    return !is_empty(settings->runtimes_dir) || !is_empty(settings->state_dir);
}

static int check_runtimes(const struct sbx_settings *settings, struct cr_err *err)
{
    int fd;

    if (!sbx_settings_has_runtimes(settings))
        return 0;
    fd = sbx_runtime_files_open(settings->runtimes_dir, settings->state_dir, err);
    if (fd < 0)
        return fd;
    (void)close(fd);
    return 0;
}

int sbx_settings_load(int argc, char **argv, struct sbx_settings *settings, struct cr_err *err)
{
    int r = cr_config_load_program(&program, argc, argv, settings, err);

    if (r != 0)
        return r;
    cr_patience_set(settings->slow_host);
    r = check_together(settings, err);
    if (r == 0)
        r = cr_log_setup_by_name("sandboxd", settings->log_level, settings->log_format, err);
    if (r < 0 || !settings->must_check_config)
        return r;
    r = check_runtimes(settings, err); /* a start reads them itself, once */
    return r < 0 ? r : 1;
}

void sbx_settings_print(const struct sbx_settings *settings)
{
    cr_config_print(table, CR_ARRAY_SIZE(table), settings);
}

void sbx_settings_log(const struct sbx_settings *settings)
{
    cr_config_log(table, CR_ARRAY_SIZE(table), settings);
}

void sbx_settings_done(struct sbx_settings *settings)
{
    cr_config_done(table, CR_ARRAY_SIZE(table), settings);
}

const struct cr_setting *sbx_settings_table(size_t *ret_count)
{
    *ret_count = CR_ARRAY_SIZE(table);
    return table;
}
