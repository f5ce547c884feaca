/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/handover.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/supervisor/audit_file.h"
#include "sandboxd/supervisor/runtime_files.h"
#include "sandboxd/supervisor/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Opens the file of a setting, when there is one. */
static int open_file(const char *path, int (*open_it)(const char *path, struct cr_err *err),
                     int *ret_fd, struct cr_err *err)
{
    int fd;

    if (!path || !*path)
        return 0;
    fd = open_it(path, err);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

int sbx_handover_open_files(const struct sbx_settings *settings, struct sbx_handover *handover,
                            struct cr_err *err)
{
    int r = sbx_secrets_open(settings, &handover->secrets, err);

    if (r == 0)
        r = open_file(settings->audit_log, sbx_audit_file_open, &handover->audit_fd, err);
    if (r < 0 || !sbx_settings_has_runtimes(settings))
        return r;
    r = sbx_runtime_files_open(settings->runtimes_dir, settings->state_dir, err);
    if (r < 0)
        return r;
    handover->runtimes_fd = r;
    return 0;
}

static int open_listens(const struct sbx_settings *settings, struct sbx_handover *handover,
                        struct cr_err *err)
{
    char address[256];
    int r = 0;

    if (settings->socket && *settings->socket) {
        (void)snprintf(address, sizeof(address), "unix:%s", settings->socket);
        r = cr_listen_open(address, (uid_t)settings->socket_owner,
                           &handover->listens[handover->listen_count], err);
        if (r < 0)
            return cr_err_wrap(err, "--socket");
        handover->listen_count++;
    }
    if (settings->listen && *settings->listen) {
        r = cr_listen_open(settings->listen, (uid_t)-1, &handover->listens[handover->listen_count],
                           err);
        if (r < 0)
            return cr_err_wrap(err, "--listen");
        handover->listen_count++;
    }
    if (settings->health_listen && *settings->health_listen) {
        r = cr_listen_open(settings->health_listen, (uid_t)-1, &handover->health, err);
        if (r < 0)
            return cr_err_wrap(err, "--health-listen");
    }
    return r;
}

/*
 * A second service on one host would else not start for want of a port that
 * nobody asked for; a port that was asked for is as binding as any other.
 */
static int open_metrics(const struct sbx_settings *settings, struct sbx_handover *handover,
                        struct cr_err *err)
{
    const char *address = settings->metrics;
    int r;

    if (!address || !*address)
        return 0;
    r = cr_listen_open(address, (uid_t)-1, &handover->metrics, err);
    if (r == -EADDRINUSE && strcmp(address, SBX_METRICS_STANDARD) == 0) {
        cr_log_warn("the port of the metrics is taken, going without them address=%s", address);
        return 0;
    }
    return r < 0 ? cr_err_wrap(err, "--metrics") : 0;
}

int sbx_handover_open_ports(const struct sbx_settings *settings, struct sbx_handover *handover,
                            struct cr_err *err)
{
    int r = open_listens(settings, handover, err);

    return r == 0 ? open_metrics(settings, handover, err) : r;
}

struct sbx_front_fds sbx_handover_front_fds(const struct sbx_handover *handover)
{
    struct sbx_front_fds fds = {.token = handover->secrets.token_fd,
                                .audit = handover->audit_fd,
                                .runtimes = handover->runtimes_fd,
                                .tls = handover->secrets.tls_fd,
                                .health = handover->health.fd,
                                .listen_count = handover->listen_count,
                                .metrics = handover->metrics.fd};

    for (size_t i = 0; i < handover->listen_count; i++)
        fds.listens[i] = handover->listens[i].fd;
    return fds;
}

void sbx_handover_done(struct sbx_handover *handover)
{
    for (size_t i = 0; i < handover->listen_count; i++)
        cr_listen_close(&handover->listens[i]);
    handover->listen_count = 0;
    cr_listen_close(&handover->health);
    cr_listen_close(&handover->metrics);
    sbx_secrets_done(&handover->secrets);
    cr_close_fd(&handover->audit_fd);
    cr_close_fd(&handover->runtimes_fd);
}
