/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/image_parts.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/runtimes/table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX (4U << 20)
#define REMOVE_MS 60000
#define DIGEST_FILE "digest" /* in the folder of a registered runtime */

/* ---- what is needed ---- */

/* The root file systems that are registered. */
struct digests {
    char list[SBX_RUNTIMES_MAX][SBX_ROOT_DIGEST_SIZE];
    size_t count;
};

static void take_digest(int roots_fd, const char *name, struct digests *digests)
{
    char digest[SBX_ROOT_DIGEST_SIZE] = "";
    CR_AUTO_CLOSE int folder_fd =
        openat(roots_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    CR_AUTO_CLOSE int fd = -1;

    if (folder_fd < 0)
        return;
    fd = openat(folder_fd, DIGEST_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || read(fd, digest, sizeof(digest) - 1) < 0 || !sbx_root_digest_is_valid(digest))
        return;
    if (digests->count < SBX_RUNTIMES_MAX)
        memcpy(digests->list[digests->count++], digest, sizeof(digest));
}

static int is_registered(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Nobody registered any: that is no failure. */
static int read_digests(const char *roots, struct digests *digests, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    struct dirent **names = NULL;
    int count;

    digests->count = 0;
    if (!roots || !*roots)
        return 0;
    fd = openat(AT_FDCWD, roots, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : cr_err_sys(err, errno, "open '%s'", roots);
    count = scandirat(fd, ".", &names, is_registered, alphasort);
    if (count < 0)
        return cr_err_sys(err, errno, "read '%s'", roots);
    for (int i = 0; i < count; i++) {
        take_digest(fd, names[i]->d_name, digests);
        free(names[i]);
    }
    free((void *)names);
    return 0;
}

/* What is kept. */
struct needed {
    char built[SBX_IMAGE_NAME_MAX];
    const char *finished; /* NULL: none */
    const char *init_digest;
    struct digests digests;
};

static const char *label_of(const cJSON *image, const char *key)
{
    return cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(image, "Labels"), key));
}

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

/* That of a root file system, or one with this build's sandbox-init on top of it. */
static bool is_needed_root(const cJSON *image, const struct needed *needed)
{
    const char *root = label_of(image, SBX_IMAGE_LABEL_ROOT);
    const char *init = label_of(image, SBX_IMAGE_LABEL_INIT);

    for (size_t i = 0; root && i < needed->digests.count; i++) {
        if (strcmp(root, needed->digests.list[i]) == 0)
            return !init || strcmp(init, needed->init_digest) == 0;
    }
    return false;
}

static bool is_needed(const cJSON *image, const struct needed *needed)
{
    return has_name(image, needed->built) ||
           (needed->finished && has_name(image, needed->finished)) || is_needed_root(image, needed);
}

/* ---- removing ---- */

/* 409: a container uses it, or another image is made of it. Returns 1 when it is gone. */
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

/* All that have the label; those that others are made of come last. */
static int remove_labelled(struct sbx_engine *engine, const char *label,
                           const struct needed *needed, struct cr_err *err)
{
    char path[128];
    const struct sbx_engine_request request = {
        .method = "GET", .path = path, .deadline_ms = SBX_IMAGE_LOOK_MS};
    CR_AUTO_BUF struct cr_buf answer;
    CR_AUTO_JSON cJSON *json = NULL;
    const cJSON *image;
    long status = 0;
    int count = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(path, sizeof(path),
                   "/images/json?filters=%%7B%%22label%%22%%3A%%5B%%22%s%%22%%5D%%7D", label);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    json = cJSON_Parse(cr_buf_str(&answer));
    cJSON_ArrayForEach(image, json)
    {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(image, "Id"));

        r = !id || is_needed(image, needed) ? 0 : remove_image(engine, id, err);
        if (r < 0)
            return r;
        count += r;
    }
    return count;
}

static int remove_stale(struct sbx_engine *engine, const struct needed *needed, struct cr_err *err)
{
    int built = remove_labelled(engine, SBX_IMAGE_LABEL, needed, err);
    int roots = built < 0 ? built : remove_labelled(engine, SBX_IMAGE_LABEL_ROOT, needed, err);

    return roots < 0 ? roots : built + roots;
}

int sbx_image_remove_stale(struct sbx_engine *engine, const struct sbx_image_plan *plan,
                           const char *roots, struct cr_err *err)
{
    struct needed needed;
    struct sbx_image_inputs inputs;
    int r = sbx_image_inputs_load_plan(plan, &inputs, err);

    if (r == 0) {
        needed.finished = plan->image;
        needed.init_digest = inputs.init_digest;
        sbx_image_inputs_name(&inputs, needed.built);
        r = read_digests(roots, &needed.digests, err);
    }
    if (r == 0)
        r = remove_stale(engine, &needed, err);
    sbx_image_inputs_done(&inputs);
    return r;
}
