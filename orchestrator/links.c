/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/links.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "common/renewals.h"
#include "common/tls_files.h"
#include "orchestrator/config.h"
#include "rpc/client.h"
#include "rpc/tokens.h"
#include "tls/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#define TOKEN_MAX 4096

struct agt_links {
    struct cr_tls_paths token_path; /* borrowed: the settings outlive the links; one of a kind */
    struct cr_tls_paths server_paths;
    struct cr_tls_paths sandbox_paths;
    struct cr_tls_paths sandbox_token_path; /* one of a kind, as token_path */
    uint64_t token_stamp;                   /* of the files that were read last */
    uint64_t server_stamp;
    uint64_t sandbox_stamp;
    uint64_t sandbox_token_stamp;
    struct rpc_tokens *tokens; /* NULL: none is asked for */
    struct tls_context *grpc;  /* NULL: plain text */
    struct tls_context *http;
    bool has_sandbox;
    struct cr_tls_material sandbox;
    char *sandbox_token;
    struct cr_renewals renewals;
};

static int read_files(const struct cr_tls_paths *paths, struct cr_tls_material *ret_material,
                      struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = cr_tls_files_open(paths, err);

    return fd < 0 ? fd : cr_tls_material_read(fd, ret_material, err);
}

/* Opens a file of secrets: a regular one that is closed to others. */
static int open_secret(const char *flag, const char *path, int *ret_fd, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;

    if (fd < 0 || fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "open --%s '%s'", flag, path);
    if (!S_ISREG(info.st_mode) || (info.st_mode & (S_IRWXO | S_IWGRP)))
        return cr_err_set(err, EPERM, "--%s '%s' is no file, or open to others: chmod 600 it", flag,
                          path);
    *ret_fd = cr_take_fd(&fd);
    return 0;
}

/* ---- callers ---- */

static int load_tokens(struct agt_links *links, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    int r;

    links->token_stamp = cr_tls_files_stamp(&links->token_path);
    r = open_secret("token-file", links->token_path.path[0], &fd, err);
    return r < 0 ? r : rpc_tokens_read(links->tokens, fd, err);
}

static int open_tokens(struct agt_links *links, const struct agt_config *config, struct cr_err *err)
{
    int r;

    if (!config->token_file || !config->token_file[0])
        return 0;
    links->token_path = (struct cr_tls_paths){{config->token_file}};
    links->tokens = rpc_tokens_new();
    if (!links->tokens)
        return cr_err_set(err, ENOMEM, "out of memory for tokens");
    r = load_tokens(links, err);
    return r < 0 ? cr_err_wrap(err, "--token-file") : 0;
}

static int load_server(struct agt_links *links, struct cr_err *err)
{
    struct cr_tls_material material = {{NULL}};
    char summary[TLS_SUMMARY_MAX];
    int r;

    links->server_stamp = cr_tls_files_stamp(&links->server_paths);
    r = read_files(&links->server_paths, &material, err);
    if (r == 0)
        r = tls_context_load(links->grpc, &material, err);
    if (r == 0)
        r = tls_context_load(links->http, &material, err);
    cr_renewals_set_end(&links->renewals, tls_context_end_s(links->grpc));
    cr_tls_material_done(&material);
    if (r < 0)
        return r;
    tls_context_describe(links->grpc, summary);
    cr_log_info("certificate in use %s", summary);
    return 0;
}

static int open_server(struct agt_links *links, const struct agt_config *config, struct cr_err *err)
{
    const struct tls_context_options grpc = {
        .protocol = "h2", .requires_protocol = true, .allowed_names = config->tls_clients};
    const struct tls_context_options http = {.protocol = "http/1.1",
                                             .allowed_names = config->tls_clients};
    int r;

    links->server_paths = (struct cr_tls_paths){
        {config->tls_certificate, config->tls_key, config->tls_client_authority}};
    if (!config->tls_certificate || !config->tls_certificate[0])
        return 0;
    r = tls_context_new(&grpc, &links->grpc, err);
    if (r == 0)
        r = tls_context_new(&http, &links->http, err);
    if (r == 0)
        r = load_server(links, err);
    return r < 0 ? cr_err_wrap(err, "--tls-cert, --tls-key, --tls-client-ca") : 0;
}

/* ---- sandboxd ---- */

static int load_sandbox(struct agt_links *links, struct cr_tls_material *ret_material,
                        struct cr_err *err)
{
    links->sandbox_stamp = cr_tls_files_stamp(&links->sandbox_paths);
    return read_files(&links->sandbox_paths, ret_material, err);
}

static int load_sandbox_token(struct agt_links *links, char **ret_token, struct cr_err *err)
{
    const char *path = links->sandbox_token_path.path[0];
    CR_AUTO_CLOSE int fd = -1;
    char text[TOKEN_MAX + 1];
    ssize_t size;
    int r;

    links->sandbox_token_stamp = cr_tls_files_stamp(&links->sandbox_token_path);
    r = open_secret("sandbox-token-file", path, &fd, err);
    if (r < 0)
        return r;
    size = read(fd, text, TOKEN_MAX);
    if (size <= 0)
        return cr_err_set(err, EINVAL, "--sandbox-token-file '%s' is empty", path);
    text[size] = '\0';
    *ret_token = strndup(text, strcspn(text, " \t\r\n"));
    explicit_bzero(text, sizeof(text));
    return *ret_token ? 0 : cr_err_set(err, ENOMEM, "out of memory for a token");
}

static char *free_token(char *token)
{
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
    return NULL;
}

static int open_sandbox(struct agt_links *links, const struct agt_config *config,
                        struct cr_err *err)
{
    int r = 0;

    links->sandbox_paths = (struct cr_tls_paths){
        {config->sandbox_certificate, config->sandbox_key, config->sandbox_authority}};
    links->has_sandbox = config->sandbox_authority && config->sandbox_authority[0];
    if (links->has_sandbox)
        r = load_sandbox(links, &links->sandbox, err);
    if (r < 0)
        return cr_err_wrap(err, "--sandbox-tls-ca, --sandbox-tls-cert, --sandbox-tls-key");
    if (config->sandbox_token_file && config->sandbox_token_file[0]) {
        links->sandbox_token_path = (struct cr_tls_paths){{config->sandbox_token_file}};
        r = load_sandbox_token(links, &links->sandbox_token, err);
    }
    return r;
}

/* ---- life ---- */

int agt_links_open(const struct agt_config *config, struct agt_links **ret_links,
                   struct cr_err *err)
{
    struct agt_links *links = calloc(1, sizeof(*links));
    int r;

    if (!links)
        return cr_err_set(err, ENOMEM, "out of memory for the links");
    r = open_tokens(links, config, err);
    if (r == 0)
        r = open_server(links, config, err);
    if (r == 0)
        r = open_sandbox(links, config, err);
    if (r < 0)
        (void)agt_links_free(links);
    else
        *ret_links = links;
    return r;
}

struct agt_links *agt_links_free(struct agt_links *links)
{
    if (!links)
        return NULL;
    (void)rpc_tokens_free(links->tokens);
    (void)tls_context_free(links->grpc);
    (void)tls_context_free(links->http);
    cr_tls_material_done(&links->sandbox);
    links->sandbox_token = free_token(links->sandbox_token);
    free(links);
    return NULL;
}

const struct cr_renewals *agt_links_renewals(const struct agt_links *links)
{
    return &links->renewals;
}

struct rpc_tokens *agt_links_tokens(const struct agt_links *links)
{
    return links->tokens;
}

struct tls_context *agt_links_grpc(const struct agt_links *links)
{
    return links->grpc;
}

struct tls_context *agt_links_http(const struct agt_links *links)
{
    return links->http;
}

const struct cr_tls_material *agt_links_sandbox(const struct agt_links *links)
{
    return links->has_sandbox ? &links->sandbox : NULL;
}

const char *agt_links_sandbox_token(const struct agt_links *links)
{
    return links->sandbox_token;
}

/* A file that is missing for a moment is not a change. */
static bool has_changed(const struct cr_tls_paths *paths, uint64_t stamp)
{
    uint64_t now = cr_tls_files_stamp(paths);

    return now != 0 && now != stamp;
}

static void renew_tokens(struct agt_links *links)
{
    struct cr_err err = CR_ERR_INIT;
    int r = load_tokens(links, &err);

    cr_renewals_note(&links->renewals, CR_RENEWAL_TOKEN, r >= 0);
    if (r < 0)
        cr_log_error("new tokens: %s; keeping the old ones", err.text);
    else
        cr_log_info("new tokens in use count=%zu", rpc_tokens_count(links->tokens));
}

static void renew_sandbox(struct agt_links *links, struct rpc_channel *channel)
{
    struct cr_tls_material material = {{NULL}};
    struct cr_err err = CR_ERR_INIT;
    int r = load_sandbox(links, &material, &err);

    if (r == 0)
        r = rpc_channel_renew(channel, &material, &err);
    cr_renewals_note(&links->renewals, CR_RENEWAL_CERTIFICATE, r >= 0);
    if (r < 0) {
        cr_tls_material_done(&material);
        cr_log_error("new certificates for sandboxd: %s; keeping the old ones", err.text);
        return;
    }
    cr_tls_material_done(&links->sandbox);
    links->sandbox = material;
    cr_log_info("new certificates for sandboxd in use");
}

static void renew_sandbox_token(struct agt_links *links, struct rpc_channel *channel)
{
    struct cr_err err = CR_ERR_INIT;
    char *token = NULL;
    int r = load_sandbox_token(links, &token, &err);

    if (r == 0)
        r = rpc_channel_set_token(channel, token, &err);
    (void)free_token(token);
    cr_renewals_note(&links->renewals, CR_RENEWAL_TOKEN, r >= 0);
    if (r < 0)
        cr_log_error("new token for sandboxd: %s; keeping the old one", err.text);
    else
        cr_log_info("new token for sandboxd in use");
}

static void renew_server(struct agt_links *links)
{
    struct cr_err err = CR_ERR_INIT;
    int r = load_server(links, &err);

    cr_renewals_note(&links->renewals, CR_RENEWAL_CERTIFICATE, r >= 0);
    if (r < 0)
        cr_log_error("new certificates: %s; keeping the old ones", err.text);
}

void agt_links_refresh(struct agt_links *links, struct rpc_channel *channel, bool is_forced)
{
    if (links->tokens && (is_forced || has_changed(&links->token_path, links->token_stamp)))
        renew_tokens(links);
    if (links->grpc && (is_forced || has_changed(&links->server_paths, links->server_stamp)))
        renew_server(links);
    if (links->has_sandbox &&
        (is_forced || has_changed(&links->sandbox_paths, links->sandbox_stamp)))
        renew_sandbox(links, channel);
    if (links->sandbox_token &&
        (is_forced || has_changed(&links->sandbox_token_path, links->sandbox_token_stamp)))
        renew_sandbox_token(links, channel);
}
