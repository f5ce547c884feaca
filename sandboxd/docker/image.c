/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/image.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/docker/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>

#define REPOSITORY "crisol-sandbox"
#define LABEL_IMAGE "crisol.image" /* the digest of all that went in */
#define LABEL_INIT "crisol.init"   /* the digest of our own parts alone */
#define PART_MAX (16U << 20)
#define TAR_MAX (PARTS * PART_MAX + (1U << 20))
#define ANSWER_MAX (4U << 20)
#define LOOK_MS 10000
#define PULL_MS 900000
#define BUILD_MS 900000
#define REMOVE_MS 60000

extern const char sbx_dockerfile[];

/* ---- what goes in ---- */

/* Files of this build, by their names in the context. */
static const char *const part_names[] = {"sandbox-init", "crisol-template.so"};

#define PARTS CR_ARRAY_SIZE(part_names)

struct inputs {
    struct cr_buf parts[PARTS];
    char init_digest[17];
    char image_digest[17];
};

static uint64_t hash(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        seed = (seed ^ bytes[i]) * UINT64_C(0x100000001b3);
    return seed;
}

static int find_part(const struct sbx_image_plan *plan, size_t part, char path[PATH_MAX],
                     struct cr_err *err)
{
    if (part == 0 && plan->init_path && *plan->init_path) {
        if (strlen(plan->init_path) >= PATH_MAX)
            return cr_err_set(err, ENAMETOOLONG, "--init");
        memcpy(path, plan->init_path, strlen(plan->init_path) + 1);
        return 0;
    }
    return cr_beside_find(part_names[part], path, err);
}

static int read_file(const char *path, struct cr_buf *buf, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char chunk[16384];

    if (fd < 0)
        return cr_err_sys(err, errno, "open '%s'", path);
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        int r;

        if (n < 0)
            return cr_err_sys(err, errno, "read '%s'", path);
        if (n == 0)
            return 0;
        r = cr_buf_add(buf, chunk, (size_t)n);
        if (r < 0)
            return cr_err_sys(err, -r, "read '%s'", path);
    }
}

static int load_inputs(const struct sbx_image_plan *plan, struct inputs *inputs, struct cr_err *err)
{
    uint64_t all = UINT64_C(0xcbf29ce484222325);
    char path[PATH_MAX];
    int r = 0;

    for (size_t i = 0; i < PARTS; i++)
        cr_buf_init(&inputs->parts[i], PART_MAX);
    for (size_t i = 0; r == 0 && i < PARTS; i++) {
        r = find_part(plan, i, path, err);
        if (r == 0)
            r = read_file(path, &inputs->parts[i], err);
        if (r == 0)
            all = hash(all, inputs->parts[i].data, inputs->parts[i].size);
    }
    if (r < 0)
        return r;
    (void)snprintf(inputs->init_digest, sizeof(inputs->init_digest), "%016" PRIx64, all);
    all = hash(all, sbx_dockerfile, strlen(sbx_dockerfile));
    all = hash(all, plan->base, strlen(plan->base));
    (void)snprintf(inputs->image_digest, sizeof(inputs->image_digest), "%016" PRIx64, all);
    return 0;
}

static void inputs_done(struct inputs *inputs)
{
    for (size_t i = 0; i < PARTS; i++)
        cr_buf_done(&inputs->parts[i]);
}

/* Names go into URLs: these characters need no escape there. */
static int check_name(const char *name, struct cr_err *err)
{
    static const char legal[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:@_-";

    if (*name == '\0' || strlen(name) >= SBX_IMAGE_NAME_MAX || strspn(name, legal) != strlen(name))
        return cr_err_set(err, EINVAL, "'%.64s' is no name of an image", name);
    return 0;
}

/* ---- looking ---- */

/* *ret_init is the label, "" without one. Returns 0, -ENOENT without an error text, or -errno. */
static int look(struct sbx_engine *engine, const char *name, char ret_init[17], struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_JSON cJSON *json = NULL;
    const char *label;
    char path[SBX_IMAGE_NAME_MAX + 32];
    struct sbx_engine_request request = {.method = "GET", .path = path, .deadline_ms = LOOK_MS};
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(path, sizeof(path), "/images/%s/json", name);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    if (status == 404)
        return -ENOENT;
    if (status != 200)
        return cr_err_set(err, EPROTO, "the docker engine does not tell about image '%s'", name);
    json = cJSON_Parse(cr_buf_str(&answer));
    label = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(json, "Config"),
                                         "Labels"),
        LABEL_INIT));
    (void)snprintf(ret_init, 17, "%s", label ? label : "");
    return 0;
}

/* An answer of 200 says nothing: a failure is a line of the stream. Logs the last one. */
static int judge_stream(const char *what, const struct cr_buf *answer, long status,
                        struct cr_err *err)
{
    static const char key[] = "\"errorDetail\"";
    const char *at = strstr(cr_buf_str(answer), key);
    char text[256] = "";

    if (status >= 400) {
        sbx_engine_message(cr_buf_str(answer), text, sizeof(text));
        return cr_err_set(err, EIO, "%s: %s", what, text);
    }
    if (!at)
        return 0;
    at = strstr(at, "\"message\":\"");
    if (at)
        (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(at + 11, "\""), at + 11);
    return cr_err_set(err, EIO, "%s: %s", what, text);
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
        r = judge_stream("the docker engine cannot pull it", &answer, status, err);
    return r;
}

static int need(struct sbx_engine *engine, const struct sbx_image_plan *plan, const char *name,
                char ret_init[17], struct cr_err *err)
{
    int r = check_name(name, err);

    if (r == 0)
        r = look(engine, name, ret_init, err);
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
    r = look(engine, name, ret_init, err);
    return r == -ENOENT ? cr_err_set(err, ENOENT, "image '%s' is missing after a pull", name) : r;
}

/* ---- building ---- */

static int build(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                 const struct inputs *inputs, const char *name, bool with_network,
                 struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf tar;
    CR_AUTO_BUF struct cr_buf answer;
    char path[1024];
    struct sbx_engine_request request = {.method = "POST",
                                         .path = path,
                                         .content_type = "application/x-tar",
                                         .deadline_ms = BUILD_MS};
    long status = 0;
    int r;

    cr_buf_init(&tar, TAR_MAX);
    cr_buf_init(&answer, ANSWER_MAX);
    r = sbx_tar_add(&tar, "Dockerfile.sandbox", 0644, sbx_dockerfile, strlen(sbx_dockerfile));
    for (size_t i = 0; r == 0 && i < PARTS; i++)
        r = sbx_tar_add(&tar, part_names[i], 0755, inputs->parts[i].data, inputs->parts[i].size);
    if (r == 0)
        r = sbx_tar_end(&tar);
    if (r < 0)
        return cr_err_sys(err, -r, "pack the build context");
    (void)snprintf(path, sizeof(path),
                   "/build?version=1&dockerfile=Dockerfile.sandbox&t=%s&rm=1&forcerm=1%s"
                   "&buildargs=%%7B%%22BASE%%22%%3A%%22%s%%22%%7D"
                   "&labels=%%7B%%22" LABEL_IMAGE "%%22%%3A%%22%s%%22%%2C%%22" LABEL_INIT
                   "%%22%%3A%%22%s%%22%%7D",
                   name, with_network ? "" : "&networkmode=none", plan->base, inputs->image_digest,
                   inputs->init_digest);
    request.body = tar.data;
    request.body_size = tar.size;
    cr_log_info("building the image of the sandboxes image=%s base=%s network=%s", name, plan->base,
                with_network ? "yes" : "no");
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    return r < 0 ? r
                 : judge_stream("the docker engine cannot build Dockerfile.sandbox", &answer,
                                status, err);
}

static int ensure_built(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                        const struct inputs *inputs, const char *name, struct cr_err *err)
{
    char init[17];
    int r = look(engine, name, init, err);

    if (r != -ENOENT)
        return r;
    r = check_name(plan->base, err);
    if (r == 0)
        r = need(engine, plan, plan->base, init, err);
    if (r < 0)
        return r;
    /* Only a base without pytest needs the network; a base that has it must not get one. */
    r = build(engine, plan, inputs, name, false, err);
    if (r == -EIO)
        r = build(engine, plan, inputs, name, true, err);
    if (r == 0)
        r = look(engine, name, init, err);
    return r == -ENOENT ? cr_err_set(err, ENOENT, "image '%s' is missing after its build", name)
                        : r;
}

static int ensure(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                  const struct inputs *inputs, char ret_image[SBX_IMAGE_NAME_MAX],
                  struct cr_err *err)
{
    char init[17] = "";
    int r;

    if (!plan->image || !*plan->image) {
        (void)snprintf(ret_image, SBX_IMAGE_NAME_MAX, REPOSITORY ":%s", inputs->image_digest);
        return ensure_built(engine, plan, inputs, ret_image, err);
    }
    r = need(engine, plan, plan->image, init, err);
    if (r < 0)
        return r;
    if (strcmp(init, inputs->init_digest) != 0)
        return cr_err_set(err, EINVAL,
                          "image '%s' does not hold the parts of this build: build it from "
                          "Dockerfile.sandbox with the label " LABEL_INIT "=%s, or name its base "
                          "with --docker-base instead",
                          plan->image, inputs->init_digest);
    (void)snprintf(ret_image, SBX_IMAGE_NAME_MAX, "%s", plan->image);
    return 0;
}

int sbx_image_ensure(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                     char ret_image[SBX_IMAGE_NAME_MAX], struct cr_err *err)
{
    struct inputs inputs;
    int r = load_inputs(plan, &inputs, err);

    if (r == 0)
        r = ensure(engine, plan, &inputs, ret_image, err);
    inputs_done(&inputs);
    return r;
}

static int check(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                 const struct inputs *inputs, struct cr_err *err)
{
    bool is_finished = plan->image && *plan->image;
    const char *needed = is_finished ? plan->image : plan->base;
    char built[SBX_IMAGE_NAME_MAX];
    char init[17];
    int r = check_name(needed, err);

    (void)snprintf(built, sizeof(built), REPOSITORY ":%s", inputs->image_digest);
    if (r == 0)
        r = is_finished ? -ENOENT : look(engine, built, init, err);
    if (r == -ENOENT)
        r = look(engine, needed, init, err);
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
    struct inputs inputs;
    int r = load_inputs(plan, &inputs, err);

    if (r == 0)
        r = check(engine, plan, &inputs, err);
    inputs_done(&inputs);
    return r;
}

int sbx_image_built_name(const struct sbx_image_plan *plan, char ret_image[SBX_IMAGE_NAME_MAX],
                         struct cr_err *err)
{
    struct inputs inputs;
    int r = load_inputs(plan, &inputs, err);

    if (r == 0)
        (void)snprintf(ret_image, SBX_IMAGE_NAME_MAX, REPOSITORY ":%s", inputs.image_digest);
    inputs_done(&inputs);
    return r;
}

/* ---- removing ---- */

static bool has_name(const cJSON *image, const char *name)
{
    const cJSON *tag;

    cJSON_ArrayForEach(tag, cJSON_GetObjectItemCaseSensitive(image, "RepoTags"))
    {
        if (cJSON_IsString(tag) && strcmp(tag->valuestring, name) == 0)
            return true;
    }
    return false;
}

/* 409: a container uses it. Returns 1 when it is gone. */
static int remove_image(struct sbx_engine *engine, const char *id, struct cr_err *err)
{
    char path[SBX_IMAGE_NAME_MAX + 16];
    struct sbx_engine_request request = {
        .method = "DELETE", .path = path, .deadline_ms = REMOVE_MS};
    long status = 0;
    int r;

    if (strlen(id) >= SBX_IMAGE_NAME_MAX)
        return 0;
    (void)snprintf(path, sizeof(path), "/images/%s", id);
    r = sbx_engine_ask(engine, &request, NULL, &status, err);
    return r < 0 ? r : status == 200;
}

int sbx_image_remove_stale(struct sbx_engine *engine, const char *keep, const char *finished,
                           struct cr_err *err)
{
    const struct sbx_engine_request request = {
        .method = "GET",
        .path = "/images/json?filters=%7B%22label%22%3A%5B%22" LABEL_IMAGE "%22%5D%7D",
        .deadline_ms = LOOK_MS};
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_JSON cJSON *json = NULL;
    const cJSON *image;
    long status = 0;
    int count = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    json = cJSON_Parse(cr_buf_str(&answer));
    cJSON_ArrayForEach(image, json)
    {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(image, "Id"));

        r = !id || has_name(image, keep) || (finished && has_name(image, finished))
                ? 0
                : remove_image(engine, id, err);
        if (r < 0)
            return r;
        count += r;
    }
    return count;
}
