/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/child_args.h"

#include "common/auto.h"
#include "common/config.h"
#include "common/hash.h"
#include "sandboxd/supervisor/registered.h"
#include "sandboxd/supervisor/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who is started; sandboxd-docker is, besides as the backend, for a look and for tidying up. */
enum child {
    CHILD_NATIVE = 1U << 0,
    CHILD_DOCKER = 1U << 1,
    CHILD_DOCKER_PING = 1U << 2,
    CHILD_DOCKER_GC = 1U << 3,
    CHILD_FRONT = 1U << 4,
};

#define CHILDREN_BACKEND (CHILD_NATIVE | CHILD_DOCKER)
#define CHILDREN_DOCKER (CHILD_DOCKER | CHILD_DOCKER_PING | CHILD_DOCKER_GC)
#define CHILDREN_ALL (CHILD_NATIVE | CHILDREN_DOCKER | CHILD_FRONT)

enum form {
    FORM_TEXT,   /* --flag=TEXT, when there is one */
    FORM_NUMBER, /* --flag=N, when it is not 0 */
    FORM_ZERO,   /* --flag=N, also 0: the child's own default is another */
    FORM_BOOL,   /* --flag, when it is true */
    FORM_WITH,   /* --with-flag: the child has a descriptor for what the path names */
};

/* A setting of the service that a child gets: by the name that it has there. */
struct passing {
    const char *flag;
    enum form form;
    unsigned children;
    size_t offset;
};

#define PASS(name, member, how, who)                                                               \
    {                                                                                              \
        .flag = (name), .form = (how), .children = (who),                                          \
        .offset = offsetof(struct sbx_settings, member)                                            \
    }

static const struct passing passings[] = {
    PASS("log-level", log_level, FORM_TEXT, CHILDREN_ALL),
    PASS("log-format", log_format, FORM_TEXT, CHILDREN_ALL),
    PASS("slow-host", slow_host, FORM_NUMBER, CHILDREN_ALL),
    PASS("slots", slots, FORM_NUMBER, CHILDREN_BACKEND),
    PASS("preload", preload, FORM_TEXT, CHILDREN_BACKEND),
    PASS("accept-gap", accept_gaps, FORM_TEXT, CHILDREN_BACKEND),
    PASS("pool", pool, FORM_TEXT, CHILDREN_BACKEND),
    PASS("sessions", sandboxes, FORM_NUMBER, CHILDREN_BACKEND),
    PASS("session-life-ms", sandbox_life_ms, FORM_NUMBER, CHILDREN_BACKEND),
    PASS("uid-base", uid_base, FORM_NUMBER, CHILD_NATIVE),
    PASS("rootless", is_rootless, FORM_BOOL, CHILD_NATIVE),
    PASS("rootfs", rootfs, FORM_TEXT, CHILD_NATIVE),
    PASS("docker-socket", docker_socket, FORM_TEXT, CHILDREN_DOCKER),
    PASS("docker-evidence", docker_evidence, FORM_TEXT, CHILDREN_DOCKER),
    PASS("docker-base", docker_base, FORM_TEXT, CHILDREN_DOCKER),
    PASS("docker-image", docker_image, FORM_TEXT, CHILD_DOCKER | CHILD_DOCKER_GC),
    PASS("docker-pull", docker_pull, FORM_TEXT, CHILD_DOCKER),
    PASS("docker-runtime", docker_runtime, FORM_TEXT, CHILD_DOCKER),
    PASS("user", front_user, FORM_ZERO, CHILD_FRONT),
    PASS("queue", queue, FORM_ZERO, CHILD_FRONT),
    PASS("sandboxes-per-caller", sandboxes_per_caller, FORM_NUMBER, CHILD_FRONT),
    PASS("caller-runs", caller_runs, FORM_NUMBER, CHILD_FRONT),
    PASS("caller-runs-per-minute", caller_rate, FORM_NUMBER, CHILD_FRONT),
    PASS("grace-ms", grace_ms, FORM_ZERO, CHILD_FRONT),
    PASS("drain-delay-ms", drain_delay_ms, FORM_NUMBER, CHILD_FRONT),
    PASS("tls-clients", tls_clients, FORM_TEXT, CHILD_FRONT),
    PASS("health", health_listen, FORM_WITH, CHILD_FRONT),
    PASS("token", token_file, FORM_WITH, CHILD_FRONT),
    PASS("audit", audit_log, FORM_WITH, CHILD_FRONT),
    PASS("tls", tls_certificate, FORM_WITH, CHILD_FRONT),
};

static int add(struct sbx_child_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int add(struct sbx_child_args *args, const char *format, ...)
{
    va_list values;
    int n;

    if (args->count == SBX_CHILD_ARGS_MAX)
        return -ENOMEM;
    va_start(values, format);
    n = vasprintf(&args->list[args->count], format, values);
    va_end(values);
    if (n < 0) {
        args->list[args->count] = NULL;
        return -ENOMEM;
    }
    args->count++;
    return 0;
}

static int add_number(struct sbx_child_args *args, const char *flag, uint64_t value)
{
    return add(args, "--%s=%" PRIu64, flag, value);
}

static int add_text(struct sbx_child_args *args, const char *flag, const char *value)
{
    return value && *value ? add(args, "--%s=%s", flag, value) : 0;
}

static int pass(const struct passing *row, const struct sbx_settings *settings,
                struct sbx_child_args *args)
{
    const void *value = (const char *)settings + row->offset;
    const uint64_t *number = value;
    char *const *text = value;

    switch (row->form) {
    case FORM_TEXT:
        return add_text(args, row->flag, *text);
    case FORM_NUMBER:
        return *number > 0 ? add_number(args, row->flag, *number) : 0;
    case FORM_ZERO:
        return add_number(args, row->flag, *number);
    case FORM_BOOL:
        return *(const bool *)value ? add(args, "--%s", row->flag) : 0;
    case FORM_WITH:
        return *text && **text ? add(args, "--with-%s", row->flag) : 0;
    }
    return 0;
}

/* The program's name, and what the table passes to this child. */
static int begin(struct sbx_child_args *args, enum child child, const char *program,
                 const struct sbx_settings *settings)
{
    int r = add(args, "%s", program);

    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(passings); i++) {
        if (passings[i].children & child)
            r = pass(&passings[i], settings, args);
    }
    return r;
}

/*
 * The settings whose flags begin like this have the same ones in the child, and
 * the same defaults. A stack of the self-test sets none of them: 0 and NULL,
 * which no setting of the limits of callers can have.
 */
static int add_alike(const char *prefix, const struct sbx_settings *settings,
                     struct sbx_child_args *args)
{
    size_t count;
    const struct cr_setting *table = sbx_settings_table(&count);
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct passing row = {
            .flag = table[i].flag,
            .form = table[i].type == CR_SETTING_UINT ? FORM_NUMBER : FORM_TEXT,
            .offset = table[i].offset,
        };

        if (strncmp(row.flag, prefix, strlen(prefix)) == 0)
            r = pass(&row, settings, args);
    }
    return r;
}

static int add_runtimes(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    return sbx_settings_has_runtimes(settings) ? add(args, "--with-runtimes") : 0;
}

static int add_roots(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    return settings->state_dir && *settings->state_dir
               ? add(args, "--roots=%s/" SBX_REGISTERED_FOLDER, settings->state_dir)
               : 0;
}

/* What the two backends have in common. */
static int end_backend(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    int r = add_roots(settings, args);

    if (r == 0)
        r = add_runtimes(settings, args);
    return r == 0 ? add_alike("max-", settings, args) : r;
}

int sbx_native_args_make(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    int r = begin(args, CHILD_NATIVE, "sandboxd-native", settings);

    return r == 0 ? end_backend(settings, args) : r;
}

/* Containers are known as ours by where we serve: two services on one engine do not mix. */
static int add_instance(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    static const uint8_t end = 0xff; /* stands in neither */
    uint64_t hash = CR_HASH_START;
    const char *const parts[] = {settings->socket, settings->listen};

    for (size_t i = 0; i < CR_ARRAY_SIZE(parts); i++) {
        hash = cr_hash(hash, parts[i], parts[i] ? strlen(parts[i]) : 0);
        hash = cr_hash(hash, &end, 1);
    }
    return add(args, "--instance=%016" PRIx64, hash);
}

int sbx_docker_args_make(const struct sbx_settings *settings, bool is_restart,
                         struct sbx_child_args *args)
{
    int r = begin(args, CHILD_DOCKER, "sandboxd-docker", settings);

    if (r == 0)
        r = add_instance(settings, args);
    if (r == 0 && is_restart)
        r = add(args, "--wait-for-engine");
    return r == 0 ? end_backend(settings, args) : r;
}

int sbx_docker_ping_args_make(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    int r = begin(args, CHILD_DOCKER_PING, "sandboxd-docker", settings);

    return r == 0 ? add(args, "--ping") : r;
}

int sbx_docker_gc_args_make(const struct sbx_settings *settings, struct sbx_child_args *args)
{
    int r = begin(args, CHILD_DOCKER_GC, "sandboxd-docker", settings);

    if (r == 0)
        r = add_roots(settings, args);
    return r == 0 ? add(args, "--gc") : r;
}

int sbx_front_args_make(const struct sbx_settings *settings, size_t listen_count, bool has_metrics,
                        struct sbx_child_args *args)
{
    const bool has_more = settings->allow_uids && *settings->allow_uids;
    int r = begin(args, CHILD_FRONT, "sandboxd-front", settings);

    if (r == 0)
        r = add(args, "--listen-count=%zu", listen_count);
    if (r == 0)
        r = add(args, "--allow-uids=0,%" PRIu64 "%s%s", settings->socket_owner, has_more ? "," : "",
                has_more ? settings->allow_uids : "");
    if (r == 0 && has_metrics)
        r = add(args, "--with-metrics");
    if (r == 0)
        r = add_runtimes(settings, args);
    return r == 0 ? add_alike(CR_EDGE_FLAG_PREFIX, settings, args) : r;
}

int sbx_child_args_add(struct sbx_child_args *args, const char *text)
{
    return add(args, "%s", text);
}

void sbx_child_args_done(struct sbx_child_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        free(args->list[i]);
    *args = (struct sbx_child_args){0};
}
