/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"

#include <errno.h>
#include <stdio.h>

/* Returns 1 when the need is not met. */
static int print_line(const char *name, int r, const char *text)
{
    (void)printf("%s  %s%s%s\n", r < 0 ? "FAIL" : "PASS", name, *text ? ": " : "", text);
    (void)fflush(stdout);
    return r < 0;
}

static int check_image(const struct sbx_docker *docker)
{
    const struct sbx_image_plan plan = sbx_docker_main_image(docker->settings);
    struct cr_err err = CR_ERR_INIT;
    int r = sbx_image_check(docker->engine, &plan, &err);

    return print_line("image (--docker-image, --docker-base)", r,
                      r > 0 ? "missing; the first start pulls it" : err.text);
}

/* Nobody has to accept it: see sbx_sessions_judge(). */
static void check_freezer(struct sbx_docker *docker)
{
    struct sbx_cgroup_host *host = &docker->base.cgroups;
    struct cr_err err = CR_ERR_INIT;
    int r;

    if (docker->base.is_inferring || docker->settings->sessions == 0)
        return;
    r = sbx_cgroup_host_find(host, &err);
    if (r == 0)
        sbx_cgroup_host_observe(host);
    if (r == 0 && sbx_cgroup_can_freeze(host))
        (void)print_line("control groups: freezer", 0, "");
    else
        (void)printf("GAP   control groups: freezer: none for us: an interpreter of a sandbox that "
                     "lives on is stopped between two calls, but can have itself woken\n");
    sbx_cgroup_host_close(host);
}

/* The engine is what the others are asked of. */
static int check_needs(struct sbx_docker *docker)
{
    struct cr_err err = CR_ERR_INIT;
    int r = sbx_engine_new(docker->settings->socket, &docker->engine, &err);

    if (r == 0)
        r = sbx_engine_negotiate(docker->engine, &err);
    if (print_line("docker engine (--docker-socket)", r, err.text))
        return 1;
    r = sbx_docker_ask_info(docker, &err);
    if (r == 0) {
        (void)print_line("evidence (--docker-evidence)", 0,
                         docker->base.is_inferring ? "inside; every verdict says INFERRED"
                                                   : "outside");
        check_freezer(docker);
    }
    return print_line("controls of the engine's host", r, r < 0 ? err.text : "") +
           check_image(docker);
}

int sbx_docker_check(const struct sbx_docker_settings *settings, struct cr_err *err)
{
    static struct sbx_docker docker; /* large */
    int failed;

    docker.settings = settings;
    docker.base.weakened = SBX_WEAKEN_NOTHING;
    failed = check_needs(&docker);
    docker.engine = sbx_engine_free(docker.engine);
    return failed ? cr_err_set(err, ENOTSUP, "the docker backend would not start here") : 0;
}
