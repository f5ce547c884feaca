/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "common/tls_files.h"
#include "rpc/tokens.h"
#include "sandboxd/front/front.h"
#include "tls/context.h"

#include <errno.h>
#include <unistd.h>

int sbx_front_take_auth(struct sbx_front *front, struct cr_err *err)
{
    int r;

    if (sbx_auth_parse_uids(&front->auth, front->settings.allow_uids) < 0)
        return cr_err_set(err, EINVAL, "--allow-uids: '%s' is not a list of user ids",
                          front->settings.allow_uids);
    if (!front->settings.with_token)
        return 0;
    front->auth.tokens = rpc_tokens_new();
    if (!front->auth.tokens)
        return cr_err_set(err, ENOMEM, "out of memory for tokens");
    r = rpc_tokens_read(front->auth.tokens, SBX_FRONT_FD_TOKEN, err);
    (void)close(SBX_FRONT_FD_TOKEN);
    return r < 0 ? cr_err_wrap(err, "--token-file") : 0;
}

int sbx_front_on_tokens(void *user, int fd)
{
    struct sbx_front *front = user;
    struct cr_err err = CR_ERR_INIT;
    int r = front->auth.tokens ? rpc_tokens_read(front->auth.tokens, fd, &err) : -ENOTSUP;

    (void)close(fd);
    cr_renewals_note(&front->renewals, CR_RENEWAL_TOKEN, r >= 0);
    if (r < 0)
        cr_log_error("new tokens: %s; keeping the old ones", err.text);
    else
        cr_log_info("new tokens in use count=%zu", rpc_tokens_count(front->auth.tokens));
    return r;
}

/* Takes the fd. On failure what was there stays. */
static int load_tls(struct sbx_front *front, int fd, struct cr_err *err)
{
    struct cr_tls_material material = {{NULL}};
    char summary[TLS_SUMMARY_MAX];
    int r = cr_tls_material_read(fd, &material, err);

    (void)close(fd);
    if (r == 0)
        r = tls_context_load(front->tls, &material, err);
    cr_tls_material_done(&material);
    if (r < 0)
        return r;
    cr_renewals_set_end(&front->renewals, tls_context_end_s(front->tls));
    tls_context_describe(front->tls, summary);
    cr_log_info("certificate in use %s", summary);
    return 0;
}

int sbx_front_on_tls(void *user, int fd)
{
    struct sbx_front *front = user;
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (!front->tls) {
        (void)close(fd);
        return -ENOTSUP;
    }
    r = load_tls(front, fd, &err);
    cr_renewals_note(&front->renewals, CR_RENEWAL_CERTIFICATE, r >= 0);
    if (r < 0)
        cr_log_error("new certificates: %s; keeping the old ones", err.text);
    return r;
}

int sbx_front_take_tls(struct sbx_front *front, struct cr_err *err)
{
    const struct tls_context_options options = {
        .protocol = "h2", .requires_protocol = true, .allowed_names = front->settings.tls_clients};
    int r;

    if (!front->settings.with_tls)
        return 0;
    r = tls_context_new(&options, &front->tls, err);
    if (r == 0)
        r = load_tls(front, SBX_FRONT_FD_TLS, err);
    return r < 0 ? cr_err_wrap(err, "--tls-cert") : 0;
}
