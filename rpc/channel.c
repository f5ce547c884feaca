/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/channel.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/tls_files.h"
#include "common/unconst.h"
#include "rpc/core.h"
#include "tls/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#define ARGS_MAX 24
#define TOKEN_MAX_BYTES 8192

struct args {
    grpc_arg list[ARGS_MAX];
    size_t count;
};

/* Core copies keys and strings. */
static void add_int(struct args *args, const char *key, int value)
{
    grpc_arg *arg = &args->list[args->count++];

    arg->type = GRPC_ARG_INTEGER;
    arg->key = cr_unconst(key);
    arg->value.integer = value;
}

static void add_string(struct args *args, const char *key, const char *value)
{
    grpc_arg *arg = &args->list[args->count++];

    arg->type = GRPC_ARG_STRING;
    arg->key = cr_unconst(key);
    arg->value.string = cr_unconst(value);
}

static void fill_args(struct args *args, const struct rpc_channel *channel)
{
    args->count = 0;
    add_int(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)channel->max_response_bytes);
    add_int(args, GRPC_ARG_MAX_METADATA_SIZE, 65536); /* details of a status come there */
    add_int(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
    /* A peer that vanished without a FIN; our servers allow pings every 10 s. */
    add_int(args, GRPC_ARG_KEEPALIVE_TIME_MS, 15000);
    add_int(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    /* A server that restarts is back in a second; core's own 1…120 s would outlast callers. */
    add_int(args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    add_int(args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
    add_int(args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
    /* A name is asked for anew when a connection ends; core's own 30 s would miss servers that come
     * and go. */
    add_int(args, GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2000);
    /* Neither the environment nor DNS may redirect or configure a channel. */
    add_int(args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    add_int(args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    add_int(args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    add_int(args, GRPC_ARG_ENABLE_CHANNELZ, 0);
    if (channel->service_config_json)
        add_string(args, GRPC_ARG_SERVICE_CONFIG, channel->service_config_json);
    if (channel->tls_name)
        add_string(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, channel->tls_name);
}

static bool is_port(const char *text)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && port > 0 && port <= UINT16_MAX;
}

int rpc_channel_check_target(const char *target, struct cr_err *err)
{
    static const char *const schemes[] = {"dns:", "ipv4:", "ipv6:", "unix-abstract:"};
    const char *colon = strrchr(target, ':');

    if (strncmp(target, "unix:", 5) == 0) {
        if (target[5] != '/')
            return cr_err_set(err, EINVAL, "address '%s' has no absolute path; write unix:/path",
                              target);
        return 0;
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(schemes); i++) {
        if (strncmp(target, schemes[i], strlen(schemes[i])) == 0)
            return 0;
    }
    if (!colon)
        return cr_err_set(err, EINVAL, "address '%s' has no port; write HOST:PORT or unix:/path",
                          target);
    if (colon == target || strchr(target, '/') || !is_port(colon + 1))
        return cr_err_set(err, EINVAL, "address '%s' is neither HOST:PORT nor unix:/path", target);
    if (memchr(target, ':', (size_t)(colon - target)) && (target[0] != '[' || colon[-1] != ']'))
        return cr_err_set(err, EINVAL, "address '%s' is ambiguous; write IPv6 as [::1]:PORT",
                          target);
    return 0;
}

/* Core says of certificates that it cannot use only that calls fail. */
static int check_tls(const struct cr_tls_material *tls, struct cr_err *err)
{
    if (!tls->part[CR_TLS_AUTHORITY])
        return cr_err_set(err, EINVAL,
                          "TLS needs the authority that signs the certificates of servers");
    if (!tls->part[CR_TLS_CERTIFICATE] != !tls->part[CR_TLS_KEY])
        return cr_err_set(err, EINVAL, "a certificate needs its key, and a key its certificate");
    return tls_pair_check(tls, err);
}

/* A line break in a token would be refused by core only when a call is made. */
static int check_token(const char *token, struct cr_err *err)
{
    if (!token[0] || strlen(token) > TOKEN_MAX_BYTES)
        return cr_err_set(err, EINVAL, "a token must have 1 to %d characters", TOKEN_MAX_BYTES);
    for (const char *c = token; *c; c++) {
        if (*c <= ' ' || *c > '~')
            return cr_err_set(err, EINVAL, "a token may hold visible ASCII characters only");
    }
    return 0;
}

static int check_options(const struct rpc_channel_options *options, struct cr_err *err)
{
    if (!options->target || !options->target[0])
        return cr_err_set(err, EINVAL, "the target of a channel is empty");
    if (options->tls) {
        int r = check_tls(options->tls, err);

        if (r < 0)
            return r;
    }
    return options->token ? check_token(options->token, err) : 0;
}

struct rpc_link *rpc_link_unref(struct rpc_link *link)
{
    if (!link || atomic_fetch_sub(&link->refs, 1) != 1)
        return NULL;
    grpc_channel_destroy(link->core);
    free(link);
    return NULL;
}

struct rpc_link *rpc_channel_link(struct rpc_channel *channel)
{
    struct rpc_link *link;

    (void)pthread_mutex_lock(&channel->lock);
    link = channel->link;
    (void)atomic_fetch_add(&link->refs, 1);
    (void)pthread_mutex_unlock(&channel->lock);
    return link;
}

bool rpc_channel_authorization(struct rpc_channel *channel, grpc_slice *ret_value)
{
    bool is_there;

    (void)pthread_mutex_lock(&channel->lock);
    is_there = channel->authorization != NULL;
    if (is_there)
        *ret_value = grpc_slice_from_copied_string(channel->authorization);
    (void)pthread_mutex_unlock(&channel->lock);
    return is_there;
}

static void free_authorization(char *authorization)
{
    if (authorization)
        explicit_bzero(authorization, strlen(authorization));
    free(authorization);
}

/* NULL without memory. */
static char *make_authorization(const char *token)
{
    char *authorization = NULL;

    return asprintf(&authorization, "Bearer %s", token) < 0 ? NULL : authorization;
}

int rpc_channel_set_token(struct rpc_channel *channel, const char *token, struct cr_err *err)
{
    int r = check_token(token, err);
    char *authorization;
    char *before;

    if (r < 0)
        return r;
    authorization = make_authorization(token);
    if (!authorization)
        return cr_err_set(err, ENOMEM, "out of memory for a token");
    (void)pthread_mutex_lock(&channel->lock);
    before = channel->authorization;
    channel->authorization = authorization;
    (void)pthread_mutex_unlock(&channel->lock);
    free_authorization(before);
    return 0;
}

struct rpc_channel *rpc_channel_free(struct rpc_channel *channel)
{
    if (!channel)
        return NULL;
    (void)rpc_link_unref(channel->link);
    free_authorization(channel->authorization);
    free(channel->target);
    free(channel->tls_name);
    free(channel->service_config_json);
    (void)pthread_mutex_destroy(&channel->lock);
    free(channel);
    return NULL;
}

/*
 * Core takes a service config that it cannot read, and makes a channel that is
 * dead from the start: each call would end as INVALID_ARGUMENT, as if its
 * request were at fault. A new channel that is alive is idle.
 */
static int check_alive(grpc_channel *core, struct cr_err *err)
{
    if (grpc_channel_check_connectivity_state(core, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE &&
        grpc_channel_check_connectivity_state(core, 0) != GRPC_CHANNEL_SHUTDOWN)
        return 0;
    return cr_err_set(err, EINVAL,
                      "gRPC makes no channel of these options; the log has its reason (a service "
                      "config must be JSON of the fields that gRPC knows)");
}

static grpc_channel_credentials *make_credentials(const struct cr_tls_material *tls)
{
    grpc_ssl_pem_key_cert_pair pair;

    if (!tls)
        return grpc_insecure_credentials_create();
    pair = (grpc_ssl_pem_key_cert_pair){.private_key = tls->part[CR_TLS_KEY],
                                        .cert_chain = tls->part[CR_TLS_CERTIFICATE]};
    return grpc_ssl_credentials_create(tls->part[CR_TLS_AUTHORITY], pair.private_key ? &pair : NULL,
                                       NULL, NULL);
}

/* fd is -1 for a channel that connects by itself. */
static int make_link(const struct rpc_channel *channel, int fd, const struct cr_tls_material *tls,
                     struct rpc_link **ret_link, struct cr_err *err)
{
    struct rpc_link *link = calloc(1, sizeof(*link));
    grpc_channel_credentials *credentials = make_credentials(tls);
    grpc_channel_args core_args;
    struct args args;
    int r = 0;

    if (!link || !credentials) {
        free(link);
        if (credentials)
            grpc_channel_credentials_release(credentials);
        return link ? cr_err_set(err, EINVAL, "gRPC takes none of these certificates")
                    : cr_err_set(err, ENOMEM, "out of memory for a channel");
    }
    fill_args(&args, channel);
    core_args = (grpc_channel_args){.num_args = args.count, .args = args.list};
    atomic_init(&link->refs, 1);
    link->core = fd < 0 ? grpc_channel_create(channel->target, credentials, &core_args)
                        : grpc_channel_create_from_fd(channel->target, fd, credentials, &core_args);
    grpc_channel_credentials_release(credentials);
    if (fd < 0) /* of the others core knows no state */
        r = check_alive(link->core, err);
    if (r < 0)
        (void)rpc_link_unref(link);
    else
        *ret_link = link;
    return r;
}

static int copy_options(struct rpc_channel *channel, const struct rpc_channel_options *options)
{
    channel->max_response_bytes =
        options->max_response_bytes > 0 ? options->max_response_bytes : 8U << 20;
    channel->has_tls = options->tls != NULL;
    if (options->token) {
        channel->authorization = make_authorization(options->token);
        if (!channel->authorization)
            return -ENOMEM;
    }
    channel->target = strdup(options->target);
    if (options->tls_name && options->tls_name[0])
        channel->tls_name = strdup(options->tls_name);
    if (options->service_config_json)
        channel->service_config_json = strdup(options->service_config_json);
    if (!channel->target || (options->tls_name && options->tls_name[0] && !channel->tls_name) ||
        (options->service_config_json && !channel->service_config_json))
        return -ENOMEM;
    return 0;
}

static int create(int fd, const struct rpc_channel_options *options,
                  struct rpc_channel **ret_channel, struct cr_err *err)
{
    struct rpc_channel *channel = calloc(1, sizeof(*channel));
    int r;

    if (!channel)
        return cr_err_set(err, ENOMEM, "out of memory for a channel");
    (void)pthread_mutex_init(&channel->lock, NULL); /* cannot fail with default attributes */
    r = copy_options(channel, options);
    if (r < 0)
        (void)cr_err_set(err, ENOMEM, "out of memory for a channel");
    else
        r = make_link(channel, fd, options->tls, &channel->link, err);
    if (r < 0) {
        (void)rpc_channel_free(channel);
        return r;
    }
    *ret_channel = channel;
    return 0;
}

int rpc_channel_renew(struct rpc_channel *channel, const struct cr_tls_material *tls,
                      struct cr_err *err)
{
    struct rpc_link *link = NULL;
    struct rpc_link *before;
    int r = check_tls(tls, err);

    if (r == 0 && !channel->has_tls)
        r = cr_err_set(err, EINVAL, "the channel was made without TLS");
    if (r == 0)
        r = make_link(channel, -1, tls, &link, err);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&channel->lock);
    before = channel->link;
    channel->link = link;
    (void)pthread_mutex_unlock(&channel->lock);
    (void)rpc_link_unref(before);
    return 0;
}

int rpc_channel_new(const struct rpc_channel_options *options, struct rpc_channel **ret_channel,
                    struct cr_err *err)
{
    int r = check_options(options, err);

    if (r == 0)
        r = rpc_channel_check_target(options->target, err);
    return r < 0 ? r : create(-1, options, ret_channel, err);
}

int rpc_channel_new_fd(int fd, const struct rpc_channel_options *options,
                       struct rpc_channel **ret_channel, struct cr_err *err)
{
    int flags = fcntl(fd, F_GETFL);
    int r = check_options(options, err);

    if (r < 0)
        return r;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return cr_err_sys(err, errno, "make connection %d non-blocking", fd);
    return create(fd, options, ret_channel, err);
}

struct rpc_counts *rpc_channel_counts(struct rpc_channel *channel, const char *path,
                                      enum rpc_kind kind)
{
    struct rpc_channel_method *method = channel->methods;
    const struct rpc_channel_method *last = &channel->methods[RPC_CHANNEL_METHODS_MAX - 1];

    (void)pthread_mutex_lock(&channel->lock);
    while (method < last && method->path && strcmp(method->path, path) != 0)
        method++;
    if (!method->path) {
        method->path = path;
        method->kind = kind;
    }
    (void)pthread_mutex_unlock(&channel->lock);
    return &method->counts;
}

void rpc_channel_write_metrics(struct rpc_channel *channel, struct cr_metrics *metrics)
{
    struct rpc_metered list[RPC_CHANNEL_METHODS_MAX];
    size_t count = 0;

    (void)pthread_mutex_lock(&channel->lock);
    for (; count < RPC_CHANNEL_METHODS_MAX && channel->methods[count].path; count++)
        list[count] =
            (struct rpc_metered){channel->methods[count].path, channel->methods[count].kind,
                                 &channel->methods[count].counts};
    (void)pthread_mutex_unlock(&channel->lock);
    rpc_meter_write(metrics, "client", list, count);
}

static bool wait_state(grpc_channel *core, grpc_completion_queue *queue, gpr_timespec deadline)
{
    for (;;) {
        grpc_connectivity_state now = grpc_channel_check_connectivity_state(core, 1);
        grpc_event event;

        if (now == GRPC_CHANNEL_READY)
            return true;
        if (now == GRPC_CHANNEL_SHUTDOWN)
            return false;
        grpc_channel_watch_connectivity_state(core, now, deadline, queue, core);
        event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type != GRPC_OP_COMPLETE || !event.success)
            return false;
    }
}

int rpc_channel_wait_ready(struct rpc_channel *channel, int timeout_ms)
{
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    gpr_timespec deadline = rpc_core_time(cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS);
    struct rpc_link *link = rpc_channel_link(channel);
    bool is_ready = wait_state(link->core, queue, deadline);

    grpc_completion_queue_shutdown(queue);
    while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(queue);
    (void)rpc_link_unref(link);
    return is_ready ? 0 : -ETIMEDOUT;
}
