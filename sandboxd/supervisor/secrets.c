/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/secrets.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "common/tls_files.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/supervisor/token.h"
#include "sandboxd/wire/lifeline.h"

#include <errno.h>
#include <string.h>

static struct cr_tls_paths tls_paths(const struct sbx_settings *settings)
{
    return (struct cr_tls_paths){{[CR_TLS_CERTIFICATE] = settings->tls_certificate,
                                  [CR_TLS_KEY] = settings->tls_key,
                                  [CR_TLS_AUTHORITY] = settings->tls_client_authority}};
}

/* The file of tokens alone, for its stamp. */
static struct cr_tls_paths token_path(const struct sbx_settings *settings)
{
    return (struct cr_tls_paths){{settings->token_file}};
}

static bool is_empty(const char *text)
{
    return !text || !*text;
}

int sbx_secrets_open(const struct sbx_settings *settings, struct sbx_secrets *secrets,
                     struct cr_err *err)
{
    const struct cr_tls_paths tls = tls_paths(settings);
    const struct cr_tls_paths token = token_path(settings);

    if (!is_empty(settings->token_file)) {
        secrets->token_stamp = cr_tls_files_stamp(&token);
        secrets->token_fd = sbx_token_open(settings->token_file, err);
        if (secrets->token_fd < 0)
            return secrets->token_fd;
    }
    if (is_empty(settings->tls_certificate))
        return 0;
    secrets->tls_stamp = cr_tls_files_stamp(&tls);
    secrets->tls_fd = cr_tls_files_open(&tls, err);
    return secrets->tls_fd < 0 ? cr_err_wrap(err, "--tls-cert, --tls-key, --tls-client-ca") : 0;
}

/* Takes the fd. What cannot be handed over is tried again at the next look: its stamp is none. */
static void hand_over(const struct sbx_child *front, enum sbx_lifeline_type type, int fd,
                      int *next_fd, uint64_t *stamp)
{
    int r;

    cr_close_fd(next_fd);
    *next_fd = fd;
    r = front->pid > 0 ? sbx_lifeline_send(front->lifeline_fd, type, 0, fd) : -ESRCH;
    if (r == 0)
        return;
    cr_log_warn("cannot hand the front what is new, trying again error=%s", strerrordesc_np(-r));
    *stamp = 0;
}

static void reload_tokens(const struct sbx_settings *settings, struct sbx_secrets *secrets,
                          const struct sbx_child *front)
{
    const struct cr_tls_paths path = token_path(settings);
    struct cr_err err = CR_ERR_INIT;
    int fd;

    secrets->token_stamp = cr_tls_files_stamp(&path);
    fd = sbx_token_open(settings->token_file, &err);
    if (fd < 0)
        cr_log_error("new tokens: %s; keeping the old ones", err.text);
    else
        hand_over(front, SBX_LIFELINE_TOKENS, fd, &secrets->next_token_fd, &secrets->token_stamp);
}

static void reload_tls(const struct sbx_settings *settings, struct sbx_secrets *secrets,
                       const struct sbx_child *front)
{
    const struct cr_tls_paths paths = tls_paths(settings);
    struct cr_err err = CR_ERR_INIT;
    int fd;

    secrets->tls_stamp = cr_tls_files_stamp(&paths);
    fd = cr_tls_files_open(&paths, &err);
    if (fd < 0)
        cr_log_error("new certificates: %s; keeping the old ones", err.text);
    else
        hand_over(front, SBX_LIFELINE_TLS, fd, &secrets->next_tls_fd, &secrets->tls_stamp);
}

/* What is missing for a moment has not changed. */
static bool has_changed(const struct cr_tls_paths *paths, uint64_t stamp)
{
    uint64_t now = cr_tls_files_stamp(paths);

    return now != 0 && now != stamp;
}

void sbx_secrets_reload(const struct sbx_settings *settings, struct sbx_secrets *secrets,
                        const struct sbx_child *front, bool is_forced)
{
    const struct cr_tls_paths tls = tls_paths(settings);
    const struct cr_tls_paths token = token_path(settings);

    if (secrets->tls_fd >= 0 && (is_forced || has_changed(&tls, secrets->tls_stamp)))
        reload_tls(settings, secrets, front);
    if (secrets->token_fd >= 0 && (is_forced || has_changed(&token, secrets->token_stamp)))
        reload_tokens(settings, secrets, front);
}

void sbx_secrets_front_ended(struct sbx_secrets *secrets)
{
    if (secrets->next_tls_fd >= 0)
        secrets->tls_stamp = 0;
    if (secrets->next_token_fd >= 0)
        secrets->token_stamp = 0;
}

void sbx_secrets_taken(struct sbx_secrets *secrets, uint32_t type)
{
    int *next_fd = type == SBX_LIFELINE_TLS ? &secrets->next_tls_fd : &secrets->next_token_fd;
    int *fd = type == SBX_LIFELINE_TLS ? &secrets->tls_fd : &secrets->token_fd;

    if (*next_fd < 0)
        return;
    cr_close_fd(fd);
    *fd = cr_take_fd(next_fd);
}

void sbx_secrets_done(struct sbx_secrets *secrets)
{
    cr_close_fd(&secrets->tls_fd);
    cr_close_fd(&secrets->token_fd);
    cr_close_fd(&secrets->next_tls_fd);
    cr_close_fd(&secrets->next_token_fd);
}
