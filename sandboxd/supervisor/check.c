/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/check.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/audit_file.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/choice.h"
#include "sandboxd/supervisor/open_files.h"
#include "sandboxd/supervisor/runtime_files.h"
#include "sandboxd/supervisor/secrets.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/supervisor/token.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK_MS 60000

/* Prints a line; returns 1 when the need is not met. */
static int print_line(const char *name, int r, const struct cr_err *err)
{
    (void)printf("%s  %s%s%s\n", r < 0 ? "FAIL" : "PASS", name, r < 0 ? ": " : "",
                 r < 0 ? err->text : "");
    (void)fflush(stdout);
    return r < 0;
}

static int check_programs(void)
{
    static const char *const names[] = {"sandboxd-native", "sandboxd-docker", "sandboxd-front",
                                        "sandbox-init"};
    int missing = 0;

    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        struct cr_err err = CR_ERR_INIT;
        char path[PATH_MAX];
        char line[64];

        (void)snprintf(line, sizeof(line), "program %s", names[i]);
        missing += print_line(line, cr_beside_find(names[i], path, &err), &err);
    }
    return missing;
}

static int check_open_files(void)
{
    struct cr_err err = CR_ERR_INIT;
    int r = sbx_open_files_raise(&err);

    return print_line("open files", r, &err);
}

/* Opens and closes: what a start does, and a folder or a port in use shows. */
static int check_address(const char *what, const char *address, uid_t owner)
{
    struct cr_listen listen = CR_LISTEN_INIT;
    struct cr_err err = CR_ERR_INIT;
    int r = cr_listen_open(address, owner, &listen, &err);

    cr_listen_close(&listen);
    return print_line(what, r, &err);
}

static int check_sockets(const struct sbx_settings *settings)
{
    char address[PATH_MAX];
    int missing = 0;

    if (settings->socket && *settings->socket) {
        (void)snprintf(address, sizeof(address), "unix:%s", settings->socket);
        missing += check_address("socket (--socket)", address, (uid_t)settings->socket_owner);
    }
    if (settings->listen && *settings->listen)
        missing += check_address("address (--listen)", settings->listen, (uid_t)-1);
    return missing;
}

static int check_token(const struct sbx_settings *settings)
{
    struct cr_err err = CR_ERR_INIT;
    int fd;

    if (!settings->token_file || !*settings->token_file)
        return 0;
    fd = sbx_token_open(settings->token_file, &err);
    if (fd >= 0)
        (void)close(fd);
    return print_line("token (--token-file)", fd, &err);
}

static int check_tls(const struct sbx_settings *settings)
{
    struct sbx_secrets secrets = SBX_SECRETS_INIT;
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!settings->tls_certificate || !*settings->tls_certificate)
        return 0;
    r = sbx_secrets_open(settings, &secrets, &err);
    sbx_secrets_done(&secrets);
    return print_line("certificates (--tls-cert, --tls-key, --tls-client-ca)", r, &err);
}

static int check_audit(const struct sbx_settings *settings)
{
    struct cr_err err = CR_ERR_INIT;
    int fd;

    if (!settings->audit_log || !*settings->audit_log)
        return 0;
    fd = sbx_audit_file_open(settings->audit_log, &err);
    if (fd >= 0)
        (void)close(fd);
    return print_line("audit log (--audit-log)", fd, &err);
}

static int check_runtimes(const struct sbx_settings *settings)
{
    struct cr_err err = CR_ERR_INIT;
    int fd;

    if (!sbx_settings_has_runtimes(settings))
        return 0;
    fd = sbx_runtime_files_open(settings->runtimes_dir, settings->state_dir, &err);
    if (fd >= 0)
        (void)close(fd);
    return print_line("runtimes (--runtimes-dir, --state-dir)", fd, &err);
}

/* With our own output. Returns 1 when the backend is not content. */
static int run_backend(const struct sbx_settings *settings, bool is_docker, const char *flag,
                       struct cr_err *err)
{
    struct sbx_child_args args = {0};
    int r = is_docker ? sbx_docker_args_make(settings, false, &args)
                      : sbx_native_args_make(settings, &args);

    if (r == 0)
        r = sbx_child_args_add(&args, flag);
    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of the backend")
              : sbx_child_run(is_docker ? "sandboxd-docker" : "sandboxd-native",
                              cr_unconst(args.list), true, cr_patience_ms(CHECK_MS), err);
    sbx_child_args_done(&args);
    return r > 0 ? 1 : r;
}

/* The backend checks the rest itself. */
static int check_backend(const struct sbx_settings *settings, struct cr_err *err)
{
    bool is_docker = false;
    int r = sbx_choice_make(settings, &is_docker, err);

    return r < 0 ? r : run_backend(settings, is_docker, "--check", err);
}

int sbx_check_config(const struct sbx_settings *settings, struct cr_err *err)
{
    static const struct {
        const char *not_of; /* --backend */
        bool is_docker;
    } backends[] = {{"docker", false}, {"native", true}};

    for (size_t i = 0; i < CR_ARRAY_SIZE(backends); i++) {
        int r = 0;

        if (strcmp(settings->backend, backends[i].not_of) != 0 &&
            !(settings->is_rootless && backends[i].is_docker))
            r = run_backend(settings, backends[i].is_docker, "--check-config", err);
        if (r < 0)
            return r;
        if (r > 0)
            return cr_err_set(err, EINVAL, "the backend refuses its settings: see the line above");
    }
    sbx_settings_print(settings);
    return 0;
}

int sbx_check_run(const struct sbx_settings *settings, struct cr_err *err)
{
    int missing = check_programs() + check_open_files() + check_token(settings) +
                  check_tls(settings) + check_audit(settings) + check_runtimes(settings) +
                  check_sockets(settings);
    int r = check_backend(settings, err);

    if (r < 0)
        return r;
    if (missing + r > 0)
        return cr_err_set(err, ENOTSUP, "sandboxd would not start here: see the lines above");
    (void)printf("sandboxd would start here\n");
    return 0;
}
