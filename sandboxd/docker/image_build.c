/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/beside.h"
#include "common/err.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/read_all.h"
#include "sandboxd/backend/etc_files.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/image_parts.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/docker/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define REPOSITORY "crisol-sandbox"
#define PART_MAX (16U << 20)
#define TAR_MAX (SBX_IMAGE_PARTS * PART_MAX + (1U << 20))
#define ANSWER_MAX (4U << 20)

/* ---- what goes in ---- */

/* Files of this build, by their names in the context. */
static const char *const part_names[] = {"sandbox-init", "crisol-template.so"};

_Static_assert(CR_ARRAY_SIZE(part_names) == SBX_IMAGE_PARTS, "one buffer per part");

/* Beside them, for a root file system that may have none. */
static const struct {
    const char *name;
    const char *text;
} texts[] = {
    {"passwd", SBX_ETC_PASSWD},
    {"group", SBX_ETC_GROUP},
};

static int find_part(const char *init_path, size_t part, char path[PATH_MAX], struct cr_err *err)
{
    if (part == 0 && init_path && *init_path) {
        if (strlen(init_path) >= PATH_MAX)
            return cr_err_set(err, ENAMETOOLONG, "--init");
        memcpy(path, init_path, strlen(init_path) + 1);
        return 0;
    }
    return cr_beside_find(part_names[part], path, err);
}

static int read_file(const char *path, struct cr_buf *buf, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = fd < 0 ? -errno : cr_read_all(fd, buf);

    return r < 0 ? cr_err_sys(err, -r, "read '%s'", path) : 0;
}

static int read_parts(const char *init_path, struct sbx_image_inputs *inputs, struct cr_err *err)
{
    char path[PATH_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < SBX_IMAGE_PARTS; i++) {
        r = find_part(init_path, i, path, err);
        if (r == 0)
            r = read_file(path, &inputs->parts[i], err);
    }
    return r;
}

int sbx_image_inputs_load(const char *init_path, const char *base, const char *dockerfile,
                          struct sbx_image_inputs *inputs, struct cr_err *err)
{
    uint64_t all = CR_HASH_START;
    int r;

    inputs->base = base;
    inputs->dockerfile = dockerfile;
    for (size_t i = 0; i < SBX_IMAGE_PARTS; i++)
        cr_buf_init(&inputs->parts[i], PART_MAX);
    r = read_parts(init_path, inputs, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < SBX_IMAGE_PARTS; i++)
        all = cr_hash(all, inputs->parts[i].data, inputs->parts[i].size);
    (void)snprintf(inputs->init_digest, sizeof(inputs->init_digest), "%016" PRIx64, all);
    for (size_t i = 0; i < CR_ARRAY_SIZE(texts); i++)
        all = cr_hash(all, texts[i].text, strlen(texts[i].text));
    all = cr_hash(all, dockerfile, strlen(dockerfile));
    all = cr_hash(all, base, strlen(base));
    (void)snprintf(inputs->image_digest, sizeof(inputs->image_digest), "%016" PRIx64, all);
    return 0;
}

void sbx_image_inputs_done(struct sbx_image_inputs *inputs)
{
    for (size_t i = 0; i < SBX_IMAGE_PARTS; i++)
        cr_buf_done(&inputs->parts[i]);
}

void sbx_image_inputs_name(const struct sbx_image_inputs *inputs,
                           char ret_image[SBX_IMAGE_NAME_MAX])
{
    (void)snprintf(ret_image, SBX_IMAGE_NAME_MAX, REPOSITORY ":%s", inputs->image_digest);
}

int sbx_image_check_name(const char *name, struct cr_err *err)
{
    static const char legal[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:@_-";

    if (*name == '\0' || strlen(name) >= SBX_IMAGE_NAME_MAX || strspn(name, legal) != strlen(name))
        return cr_err_set(err, EINVAL, "'%.64s' is no name of an image", name);
    return 0;
}

/* ---- looking ---- */

int sbx_image_look(struct sbx_engine *engine, const char *name,
                   char ret_init[SBX_IMAGE_DIGEST_SIZE], struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_JSON cJSON *json = NULL;
    const char *label;
    char path[SBX_IMAGE_NAME_MAX + 32];
    struct sbx_engine_request request = {
        .method = "GET", .path = path, .deadline_ms = SBX_IMAGE_LOOK_MS};
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
        SBX_IMAGE_LABEL_INIT));
    (void)snprintf(ret_init, SBX_IMAGE_DIGEST_SIZE, "%s", label ? label : "");
    return 0;
}

int sbx_image_judge(const char *what, const struct cr_buf *answer, long status, struct cr_err *err)
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

/* ---- building ---- */

static int pack(const struct sbx_image_inputs *inputs, struct cr_buf *tar)
{
    int r = sbx_tar_add(tar, "Dockerfile.sandbox", 0644, inputs->dockerfile,
                        strlen(inputs->dockerfile));

    for (size_t i = 0; r == 0 && i < SBX_IMAGE_PARTS; i++)
        r = sbx_tar_add(tar, part_names[i], 0755, inputs->parts[i].data, inputs->parts[i].size);
    for (size_t i = 0; r == 0 && i < CR_ARRAY_SIZE(texts); i++)
        r = sbx_tar_add(tar, texts[i].name, 0644, texts[i].text, strlen(texts[i].text));
    return r == 0 ? sbx_tar_end(tar) : r;
}

int sbx_image_build(struct sbx_engine *engine, const struct sbx_image_inputs *inputs,
                    bool with_network, struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf tar;
    CR_AUTO_BUF struct cr_buf answer;
    char name[SBX_IMAGE_NAME_MAX];
    char path[1024];
    struct sbx_engine_request request = {.method = "POST",
                                         .path = path,
                                         .content_type = "application/x-tar",
                                         .deadline_ms = SBX_IMAGE_BUILD_MS};
    long status = 0;
    int r;

    cr_buf_init(&tar, TAR_MAX);
    cr_buf_init(&answer, ANSWER_MAX);
    r = pack(inputs, &tar);
    if (r < 0)
        return cr_err_sys(err, -r, "pack the build context");
    sbx_image_inputs_name(inputs, name);
    (void)snprintf(path, sizeof(path),
                   "/build?version=1&dockerfile=Dockerfile.sandbox&t=%s&rm=1&forcerm=1%s"
                   "&buildargs=%%7B%%22BASE%%22%%3A%%22%s%%22%%7D"
                   "&labels=%%7B%%22" SBX_IMAGE_LABEL
                   "%%22%%3A%%22%s%%22%%2C%%22" SBX_IMAGE_LABEL_INIT "%%22%%3A%%22%s%%22%%7D",
                   name, with_network ? "" : "&networkmode=none", inputs->base,
                   inputs->image_digest, inputs->init_digest);
    request.body = tar.data;
    request.body_size = tar.size;
    cr_log_info("building the image of the sandboxes image=%s base=%s network=%s", name,
                inputs->base, with_network ? "yes" : "no");
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    return r < 0 ? r
                 : sbx_image_judge("the docker engine cannot build Dockerfile.sandbox", &answer,
                                   status, err);
}
