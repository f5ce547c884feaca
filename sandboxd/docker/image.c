/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/image.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/image_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX (4U << 20)
#define PULL_MS 900000

extern const char sbx_dockerfile[];

int sbx_image_inputs_load_plan(const struct sbx_image_plan *plan, struct sbx_image_inputs *inputs,
                               struct cr_err *err)
{
    return sbx_image_inputs_load(plan->init_path, plan->base, sbx_dockerfile, inputs, err);
}

/* ---- pulling ---- */

static bool has_tag(const char *name)
{
    const char *slash = strrchr(name, '/');

    return strchr(slash ? slash : name, ':') != NULL; /* "…@sha256:…" has one too */
}

static int pull(struct sbx_engine *engine, const char *name, struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf answer;
    char path[SBX_IMAGE_NAME_MAX + 64];
    struct sbx_engine_request request = {.method = "POST", .path = path, .deadline_ms = PULL_MS};
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(path, sizeof(path), "/images/create?fromImage=%s%s", name,
                   has_tag(name) ? "" : "&tag=latest");
    cr_log_info("pulling an image image=%s", name);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r == 0)
        r = sbx_image_judge("the docker engine cannot pull it", &answer, status, err);
    return r;
}

static int need(struct sbx_engine *engine, const struct sbx_image_plan *plan, const char *name,
                char ret_init[SBX_IMAGE_DIGEST_SIZE], struct cr_err *err)
{
    int r = sbx_image_check_name(name, err);

    if (r == 0)
        r = sbx_image_look(engine, name, ret_init, err);
    if (r != -ENOENT)
        return r;
    if (!plan->may_pull)
        return cr_err_set(err, ENOENT,
                          "image '%s' is missing and must not be pulled (--docker-pull=never): "
                          "load it, or make one without a registry with 'make image' and name it "
                          "with --docker-base=crisol-base:bookworm",
                          name);
    r = pull(engine, name, err);
    if (r < 0)
        return cr_err_wrap(err,
                           "image '%s' is missing (without a registry: 'make image', then "
                           "--docker-base=crisol-base:bookworm)",
                           name);
    r = sbx_image_look(engine, name, ret_init, err);
    return r == -ENOENT ? cr_err_set(err, ENOENT, "image '%s' is missing after a pull", name) : r;
}

static int ensure_built(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                        const struct sbx_image_inputs *inputs, const char *name, struct cr_err *err)
{
    char init[SBX_IMAGE_DIGEST_SIZE];
    int r = sbx_image_look(engine, name, init, err);

    if (r != -ENOENT)
        return r;
    r = sbx_image_check_name(plan->base, err);
    if (r == 0)
        r = need(engine, plan, plan->base, init, err);
    if (r < 0)
        return r;
    /* Only a base without pytest needs the network; a base that has it must not get one. */
    r = sbx_image_build(engine, inputs, false, err);
    if (r == -EIO)
        r = sbx_image_build(engine, inputs, true, err);
    if (r == 0)
        r = sbx_image_look(engine, name, init, err);
    return r == -ENOENT ? cr_err_set(err, ENOENT, "image '%s' is missing after its build", name)
                        : r;
}

static int ensure(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                  const struct sbx_image_inputs *inputs, char ret_image[SBX_IMAGE_NAME_MAX],
                  struct cr_err *err)
{
    char init[SBX_IMAGE_DIGEST_SIZE] = "";
    int r;

    if (!plan->image || !*plan->image) {
        sbx_image_inputs_name(inputs, ret_image);
        return ensure_built(engine, plan, inputs, ret_image, err);
    }
    r = need(engine, plan, plan->image, init, err);
    if (r < 0)
        return r;
    if (strcmp(init, inputs->init_digest) != 0)
        return cr_err_set(err, EINVAL,
                          "image '%s' does not hold the parts of this build: build it from "
                          "Dockerfile.sandbox with the label " SBX_IMAGE_LABEL_INIT
                          "=%s, or name its base "
                          "with --docker-base instead",
                          plan->image, inputs->init_digest);
    (void)snprintf(ret_image, SBX_IMAGE_NAME_MAX, "%s", plan->image);
    return 0;
}

int sbx_image_ensure(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                     char ret_image[SBX_IMAGE_NAME_MAX], struct cr_err *err)
{
    struct sbx_image_inputs inputs;
    int r = sbx_image_inputs_load_plan(plan, &inputs, err);

    if (r == 0)
        r = ensure(engine, plan, &inputs, ret_image, err);
    sbx_image_inputs_done(&inputs);
    return r;
}

static int check(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                 const struct sbx_image_inputs *inputs, struct cr_err *err)
{
    bool is_finished = plan->image && *plan->image;
    const char *needed = is_finished ? plan->image : plan->base;
    char built[SBX_IMAGE_NAME_MAX];
    char init[SBX_IMAGE_DIGEST_SIZE];
    int r = sbx_image_check_name(needed, err);

    sbx_image_inputs_name(inputs, built);
    if (r == 0)
        r = is_finished ? -ENOENT : sbx_image_look(engine, built, init, err);
    if (r == -ENOENT)
        r = sbx_image_look(engine, needed, init, err);
    if (r != -ENOENT)
        return r;
    return plan->may_pull ? 1
                          : cr_err_set(err, ENOENT,
                                       "'%s' is missing and must not be pulled: load it, or "
                                       "'make image' and --docker-base=crisol-base:bookworm",
                                       needed);
}

int sbx_image_check(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                    struct cr_err *err)
{
    struct sbx_image_inputs inputs;
    int r = sbx_image_inputs_load_plan(plan, &inputs, err);

    if (r == 0)
        r = check(engine, plan, &inputs, err);
    sbx_image_inputs_done(&inputs);
    return r;
}
