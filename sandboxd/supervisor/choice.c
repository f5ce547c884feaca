/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/choice.h"

#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/settings.h"

#include <errno.h>
#include <string.h>

#define CHECK_MS 8000

static bool is_named(const char *text)
{
    return text && *text;
}

/* Returns 1 when the engine answers, 0 when not (its own line says why), or -errno. */
static int ask_engine(const struct sbx_settings *settings, struct cr_err *err)
{
    struct sbx_child_args args = {0};
    int r = sbx_docker_ping_args_make(settings, &args);

    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of sandboxd-docker")
              : sbx_child_run("sandboxd-docker", cr_unconst(args.list), false,
                              cr_patience_ms(CHECK_MS), err);
    sbx_child_args_done(&args);
    return r < 0 && r != -ETIMEDOUT ? r : r == 0;
}

int sbx_choice_make(const struct sbx_settings *settings, bool *ret_is_docker, struct cr_err *err)
{
    int r;

    if (strcmp(settings->backend, "auto") != 0 || settings->is_rootless) {
        *ret_is_docker = strcmp(settings->backend, "docker") == 0;
        return 0;
    }
    if (!is_named(settings->docker_image) && !is_named(settings->docker_base)) {
        cr_log_info("backend chosen backend=native why=\"no --docker-image and no --docker-base\"");
        *ret_is_docker = false;
        return 0;
    }
    r = ask_engine(settings, err);
    if (r < 0)
        return r;
    cr_log_info("backend chosen backend=%s why=\"%s\"", r ? "docker" : "native",
                r ? "an engine answers and an image is named" : "no engine answers");
    *ret_is_docker = r > 0;
    return 0;
}
