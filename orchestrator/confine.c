/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/confine.h"

#include "common/auto.h"
#include "common/confine.h"
#include "common/err.h"
#include "orchestrator/config.h"
#include "orchestrator/store/store.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#define PATHS_MAX 48
#define PORTS_MAX 64
#define PORT_DNS 53
#define PORT_HTTP 80
#define PORT_HTTPS 443
#define STORE_SCHEME "sqlite:"
#define UNIX_SCHEME "unix:"

/* The policy while it is put together, and the text that it points to. */
struct plan {
    struct cr_confine_path paths[PATHS_MAX];
    size_t path_count;
    char texts[PATHS_MAX][PATH_MAX];
    uint16_t ports[PORTS_MAX];
    size_t port_count;
    bool is_full; /* there were more */
};

/* ---- files ---- */

static void add_path(struct plan *plan, const char *path, enum cr_confine_access access)
{
    char *text;

    if (plan->path_count == PATHS_MAX || strlen(path) >= PATH_MAX)
        return;
    text = plan->texts[plan->path_count];
    memcpy(text, path, strlen(path) + 1);
    plan->paths[plan->path_count++] = (struct cr_confine_path){text, access};
}

/* Cuts off the last component. "/a" becomes "/". */
static void to_folder(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');

    if (!slash)
        memcpy(path, ".", 2);
    else
        slash[slash == path ? 1 : 0] = '\0';
}

static void add_folder_of(struct plan *plan, const char *file, enum cr_confine_access access)
{
    char folder[PATH_MAX];

    if (strlen(file) >= sizeof(folder))
        return;
    memcpy(folder, file, strlen(file) + 1);
    to_folder(folder);
    add_path(plan, folder, access);
}

/* The folder of what is named, and of where links lead: both may be replaced while we run. */
static void add_linked(struct plan *plan, const char *file)
{
    char target[PATH_MAX];

    add_folder_of(plan, file, CR_CONFINE_READ);
    if (realpath(file, target))
        add_folder_of(plan, target, CR_CONFINE_READ);
}

static void add_system(struct plan *plan)
{
    static const char *const folders[] = {
        "/etc", /* resolver, hosts, names of services, certificates, time zone */
        "/usr", /* libraries for names (NSS), certificates, time zones */
        "/lib",
        "/lib64",
        "/proc",                   /* gRPC core and the C library read their own */
        "/sys/devices/system/cpu", /* number of processors */
    };
    static const char *const devices[] = {"/dev/urandom", "/dev/random", "/dev/null"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(folders); i++)
        add_path(plan, folders[i], CR_CONFINE_READ);
    for (size_t i = 0; i < CR_ARRAY_SIZE(devices); i++)
        add_path(plan, devices[i], CR_CONFINE_READ);
    /* Often a link into /run. */
    add_linked(plan, "/etc/resolv.conf");
}

/* The folder of a socket is made when it is missing; then its parent has to let that happen. */
static void add_socket(struct plan *plan, const char *address)
{
    char folder[PATH_MAX];
    struct stat info;

    if (!address || strncmp(address, UNIX_SCHEME, strlen(UNIX_SCHEME)) != 0)
        return;
    address += strlen(UNIX_SCHEME);
    if (strlen(address) >= sizeof(folder))
        return;
    memcpy(folder, address, strlen(address) + 1);
    to_folder(folder);
    if (stat(folder, &info) < 0)
        to_folder(folder);
    add_path(plan, folder, CR_CONFINE_SERVE);
}

/* Certificates and tokens are read again when they change. */
static void add_certificates(struct plan *plan, const struct agt_config *config)
{
    const char *const files[] = {config->token_file,        config->tls_certificate,
                                 config->tls_key,           config->tls_client_authority,
                                 config->sandbox_authority, config->sandbox_certificate,
                                 config->sandbox_key,       config->sandbox_token_file};

    for (size_t i = 0; i < CR_ARRAY_SIZE(files); i++) {
        if (files[i] && files[i][0])
            add_linked(plan, files[i]);
    }
}

static void add_files(struct plan *plan, const struct agt_config *config)
{
    add_system(plan);
    add_certificates(plan, config);
    if (config->ca_file)
        add_linked(plan, config->ca_file);
    if (config->key_file && config->key_file[0]) /* read again when it changes */
        add_linked(plan, config->key_file);
    if (strncmp(config->store, STORE_SCHEME, strlen(STORE_SCHEME)) == 0)
        add_folder_of(plan, config->store + strlen(STORE_SCHEME), CR_CONFINE_WRITE);
    add_socket(plan, config->listen);
}

/* ---- ports ---- */

static void add_port(struct plan *plan, unsigned long port)
{
    if (port == 0 || port > UINT16_MAX)
        return;
    for (size_t i = 0; i < plan->port_count; i++) {
        if (plan->ports[i] == port)
            return;
    }
    if (plan->port_count < PORTS_MAX)
        plan->ports[plan->port_count++] = (uint16_t)port;
    else
        plan->is_full = true;
}

/* The number behind the last ':' of "host:port", or `fallback`; "[::1]" has none. */
static unsigned long port_of(const char *authority, size_t size, unsigned long fallback)
{
    const char *colon = memrchr(authority, ':', size);
    char digits[8];
    size_t length;

    if (!colon || memchr(colon, ']', (size_t)(authority + size - colon)))
        return fallback;
    length = (size_t)(authority + size - colon) - 1;
    if (length == 0 || length >= sizeof(digits) || strspn(colon + 1, "0123456789") < length)
        return fallback;
    memcpy(digits, colon + 1, length);
    digits[length] = '\0';
    return strtoul(digits, NULL, 10);
}

/* The port of an http(s) address; NULL: that of HTTPS. */
static void add_url_port(struct plan *plan, const char *base_url)
{
    const char *authority = base_url ? strstr(base_url, "://") : NULL;
    bool is_plain = base_url && strncmp(base_url, "http://", 7) == 0;

    if (!authority) {
        add_port(plan, PORT_HTTPS);
        return;
    }
    authority += 3;
    add_port(plan,
             port_of(authority, strcspn(authority, "/?#"), is_plain ? PORT_HTTP : PORT_HTTPS));
}

/* A target of gRPC: unix:…, host:port, dns:///host:port, ipv4:1.2.3.4:5,6.7.8.9:10. */
static void add_sandbox_ports(struct plan *plan, const char *target)
{
    if (strncmp(target, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0)
        return;
    while (*target) {
        size_t size = strcspn(target, ",");

        add_port(plan, port_of(target, size, PORT_HTTPS));
        target += size;
        target += strspn(target, ",");
    }
}

static void on_store_port(void *user, unsigned long port)
{
    add_port(user, port);
}

static void on_store_file(void *user, const char *path)
{
    add_linked(user, path);
}

/* The server of the journal and the files that its client reads; none with another store. */
static int add_store(struct plan *plan, const struct agt_config *config, struct cr_err *err)
{
    const struct agt_postgres_needs needs = {on_store_port, on_store_file, plan};

    if (!agt_config_is_postgres(config->store))
        return 0;
    return agt_store_postgres_needs(config->store, &needs, err);
}

int agt_confine(const struct agt_config *config, int *ret_landlock_abi, struct cr_err *err)
{
    struct plan *plan = calloc(1, sizeof(*plan));
    struct cr_confine_policy policy = {
        .sockets = CR_CONFINE_UNIX | CR_CONFINE_INET | CR_CONFINE_ROUTE,
        .may_connect = true,
        .may_bind_tcp = true,
        .has_ports = true,
    };
    int r;

    if (!plan)
        return cr_err_set(err, ENOMEM, "out of memory for the confinement");
    add_files(plan, config);
    add_url_port(plan, agt_config_model_url(config));
    if (config->otlp_endpoint && config->otlp_endpoint[0])
        add_url_port(plan, config->otlp_endpoint);
    add_sandbox_ports(plan, config->sandbox);
    add_port(plan, PORT_DNS); /* answers that do not fit into a datagram */
    r = add_store(plan, config, err);
    if (r == 0 && plan->is_full)
        r = cr_err_set(err, E2BIG, "the settings name more than %d ports to connect to", PORTS_MAX);
    policy.paths = plan->paths;
    policy.path_count = plan->path_count;
    policy.ports = plan->ports;
    policy.port_count = plan->port_count;
    if (r == 0)
        r = cr_confine(&policy, ret_landlock_abi, err);
    free(plan);
    return r;
}
