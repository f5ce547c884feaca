/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/image_root.h"
#include "sandboxd/runtimes/table.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define ROOT_FOLDER "root" /* in the folder of a registered runtime */

const char *sbx_docker_image_of(const struct sbx_docker *docker, uint32_t runtime)
{
    return docker->root_images[runtime][0] ? docker->root_images[runtime] : docker->image;
}

struct sbx_image_plan sbx_docker_main_image(const struct sbx_docker_settings *settings)
{
    return (struct sbx_image_plan){
        .image = settings->image,
        .base = settings->base,
        .may_pull = strcmp(settings->pull, "missing") == 0,
        .init_path = settings->init_path,
    };
}

static int ensure_main(struct sbx_docker *docker, struct cr_err *err)
{
    const struct sbx_image_plan plan = sbx_docker_main_image(docker->settings);

    return sbx_image_ensure(docker->engine, &plan, docker->image, err);
}

static int ensure_root(struct sbx_docker *docker, const struct sbx_runtime *runtime,
                       char ret_image[SBX_IMAGE_NAME_MAX], struct cr_err *err)
{
    const char *roots = docker->settings->roots;
    char folder[PATH_MAX];
    const struct sbx_image_root root = {
        .digest = runtime->root, .folder = folder, .init_path = docker->settings->init_path};
    int n =
        snprintf(folder, sizeof(folder), "%s/%s/" ROOT_FOLDER, roots ? roots : "", runtime->name);

    if (n < 0 || (size_t)n >= sizeof(folder))
        return cr_err_set(err, ENAMETOOLONG, "its folder has too long a path");
    return sbx_image_root_ensure(docker->engine, &root, ret_image, err);
}

/* One of its own root file system, or one of the many of the main image. */
static int add_runtime(struct sbx_docker *docker, uint32_t index, uint32_t *shared,
                       struct cr_err *err)
{
    size_t count;
    const struct sbx_runtime *runtime = &sbx_runtimes(&count)[index];
    const uint32_t bit = UINT32_C(1) << index;
    char *image = docker->root_images[index];
    uint32_t found = 0;
    int r;

    if (!runtime->root[0]) {
        *shared |= runtime->rootfs == SBX_ROOTFS_HOST ? bit : 0;
        return 0;
    }
    r = ensure_root(docker, runtime, image, err);
    if (r == 0)
        r = sbx_image_find_runtimes(docker->engine, image, docker->settings->instance, bit, &found,
                                    err);
    docker->base.runtimes |= found;
    return r < 0 ? cr_err_wrap(err, "root file system of runtime '%s'", runtime->name) : 0;
}

int sbx_docker_ensure_images(struct sbx_docker *docker, struct cr_err *err)
{
    uint32_t shared = 0;
    uint32_t found = 0;
    size_t count;
    int r = ensure_main(docker, err);

    (void)sbx_runtimes(&count);
    docker->base.runtimes = 0;
    for (uint32_t i = 0; r == 0 && i < count; i++)
        r = add_runtime(docker, i, &shared, err);
    if (r == 0)
        r = sbx_image_find_runtimes(docker->engine, docker->image, docker->settings->instance,
                                    shared, &found, err);
    docker->base.runtimes |= found;
    return r;
}
