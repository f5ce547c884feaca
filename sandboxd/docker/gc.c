/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/patience.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LIST_MS 20000
#define REMOVE_MS 30000
#define ANSWER_MAX (4U << 20)
#define INSTANCE_MAX 64
#define YOUNG_S 60 /* a container that was made so recently may be about to start */

/* Another may have been faster. */
int sbx_docker_remove(struct sbx_engine *engine, const char *id, struct cr_err *err)
{
    char path[128];
    const struct sbx_engine_request request = {
        .method = "DELETE", .path = path, .deadline_ms = REMOVE_MS};
    CR_AUTO_BUF struct cr_buf answer;
    char text[256];
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(path, sizeof(path), "/containers/%.64s?force=1&v=1", id);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    if (status == 204 || status == 404 || status == 409)
        return 1;
    sbx_engine_message(cr_buf_str(&answer), text, sizeof(text));
    return cr_err_set(err, EIO, "remove container %.12s: %s", id, text);
}

/* `label`: "key" or "key%3Dvalue", as it stands in a URL. */
static int list(struct sbx_engine *engine, const char *label, cJSON **ret_list, struct cr_err *err)
{
    char path[256];
    const struct sbx_engine_request request = {
        .method = "GET", .path = path, .deadline_ms = LIST_MS};
    CR_AUTO_BUF struct cr_buf answer;
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(path, sizeof(path),
                   "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22%s%%22%%5D%%7D",
                   label);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    *ret_list = cJSON_Parse(cr_buf_str(&answer));
    if (status != 200 || !cJSON_IsArray(*ret_list))
        return cr_err_set(err, EPROTO, "the docker engine does not list its containers");
    return 0;
}

static const char *get(const cJSON *item, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, key));

    return text ? text : "";
}

int sbx_docker_sweep(struct sbx_engine *engine, const char *instance, struct cr_err *err)
{
    CR_AUTO_JSON cJSON *containers = NULL;
    const cJSON *container;
    char label[128];
    int count = 0;
    int r;

    (void)snprintf(label, sizeof(label), SBX_CONTAINER_LABEL "%%3D%.*s", INSTANCE_MAX, instance);
    r = list(engine, label, &containers, err);
    if (r < 0)
        return r;
    cJSON_ArrayForEach(container, containers)
    {
        r = sbx_docker_remove(engine, get(container, "Id"), err);
        if (r < 0)
            return r;
        count += r;
    }
    return count;
}

/*
 * A running container has an owner: sandbox-init ends with the connection of
 * the one that started it. What never ran or does not run any more, and is
 * not from this minute, was left behind.
 */
static bool is_orphan(const cJSON *container)
{
    const cJSON *created = cJSON_GetObjectItemCaseSensitive(container, "Created");
    const char *state = get(container, "State");

    return cJSON_IsNumber(created) &&
           created->valuedouble + YOUNG_S * cr_patience() < (double)time(NULL) &&
           (strcmp(state, "created") == 0 || strcmp(state, "exited") == 0 ||
            strcmp(state, "dead") == 0);
}

static int collect(struct sbx_engine *engine, const struct sbx_docker_settings *settings,
                   struct cr_err *err)
{
    const struct sbx_image_plan plan = sbx_docker_main_image(settings);
    CR_AUTO_JSON cJSON *containers = NULL;
    const cJSON *container;
    int removed = 0;
    int r = list(engine, SBX_CONTAINER_LABEL, &containers, err);

    if (r < 0)
        return r;
    cJSON_ArrayForEach(container, containers)
    {
        r = is_orphan(container) ? sbx_docker_remove(engine, get(container, "Id"), err) : 0;
        if (r < 0)
            return r;
        removed += r;
    }
    r = sbx_image_remove_stale(engine, &plan, settings->roots, err);
    if (r < 0)
        return r;
    (void)printf("removed %d containers and %d images\n", removed, r);
    return 0;
}

int sbx_docker_gc(const struct sbx_docker_settings *settings, struct cr_err *err)
{
    struct sbx_engine *engine = NULL;
    int r = sbx_engine_new(settings->socket, &engine, err);

    if (r == 0)
        r = sbx_engine_negotiate(engine, err);
    if (r == 0)
        r = collect(engine, settings, err);
    (void)sbx_engine_free(engine);
    return r;
}
