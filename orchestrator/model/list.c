/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/list.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/model/call.h"
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/members.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const size_t MAX_PAGE = 4U << 20;
static const uint32_t MAX_PAGES = 10;
static const uint32_t CONNECT_MS = 10000;
static const size_t MAX_NAME = 256;

/* One list being asked for, page by page. Freed by the end of its last request. */
struct listing {
    struct agt_provider *provider; /* borrowed: outlives its requests */
    struct agt_key *key;           /* a reference */
    void (*on_list)(void *user, const struct agt_model_list *list);
    void *user;
    int64_t deadline_ns;
    uint32_t pages;
    char *url;
    struct cr_buf page;
    struct agt_names names;
};

void agt_names_done(struct agt_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct agt_names){0};
}

static int add_name(struct agt_names *names, const char *name)
{
    char **items;

    if (names->count == AGT_LIST_MAX || !*name || strlen(name) > MAX_NAME ||
        !cr_utf8_is_valid(name, strlen(name)))
        return 0;
    items = reallocarray(names->items, names->count + 1, sizeof(*items));
    if (!items)
        return -ENOMEM;
    names->items = items;
    items[names->count] = strdup(name);
    if (!items[names->count])
        return -ENOMEM;
    names->count++;
    return 0;
}

/* Models for embeddings, speech and the like are in the same list. */
static bool can_generate(const cJSON *entry)
{
    const cJSON *methods = agt_member_array(entry, "supportedGenerationMethods");
    const cJSON *method;

    cJSON_ArrayForEach(method, methods)
    {
        if (cJSON_IsString(method) && strcmp(method->valuestring, "generateContent") == 0)
            return true;
    }
    return !methods; /* Vertex AI does not say */
}

static int add_entry(struct agt_names *names, const cJSON *entry)
{
    const char *name = agt_member_text(entry, "name");
    const char *id = agt_member_text(entry, "id");
    const char *tail = name ? strstr(name, "models/") : NULL;

    if (id && !name)
        return add_name(names, id);
    if (!name || !can_generate(entry))
        return 0;
    /* "models/m" is asked for as "m"; tuned ones need their collection. */
    if (tail && strncmp(name, "tunedModels/", 12) != 0)
        name = tail + strlen("models/");
    return add_name(names, name);
}

int agt_names_parse(const void *json, size_t size, struct agt_names *names, char **ret_next)
{
    static const char *const members[] = {"models", "publisherModels", "data"};
    const struct agt_json_options options = {.max_size = MAX_PAGE};
    const cJSON *list = NULL;
    const cJSON *entry;
    const char *next;
    cJSON *root = NULL;
    int r = agt_json_parse(json, size, &options, &root, NULL, NULL);

    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    for (size_t i = 0; i < CR_ARRAY_SIZE(members) && !list; i++)
        list = agt_member_array(root, members[i]);
    if (!list && !cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "data")))
        r = -EBADMSG;
    cJSON_ArrayForEach(entry, list)
    {
        if (r == 0)
            r = add_entry(names, entry);
    }
    next = agt_member_text(root, "nextPageToken");
    *ret_next = r == 0 && next && *next ? strdup(next) : NULL;
    cJSON_Delete(root);
    return r;
}

static void listing_free(struct listing *listing)
{
    (void)agt_key_unref(listing->key);
    free(listing->url);
    cr_buf_done(&listing->page);
    agt_names_done(&listing->names);
    free(listing);
}

static void finish(struct listing *listing, enum agt_model_end end, const char *message)
{
    const struct agt_model_list list = {
        .end = end,
        .message = message,
        .names = (const char *const *)listing->names.items,
        .count = end == AGT_MODEL_OK ? listing->names.count : 0,
    };

    listing->on_list(listing->user, &list);
    listing_free(listing);
}

static enum agt_http_take on_data(void *user, const struct agt_http_head *head, const void *data,
                                  size_t size)
{
    struct listing *listing = user;

    (void)head;
    return cr_buf_add(&listing->page, data, size) < 0 ? AGT_HTTP_STOP : AGT_HTTP_PROGRESS;
}

/* What failed, in the words of a call that failed so. */
static void fail(struct listing *listing, const struct agt_http_result *result)
{
    const struct agt_provider *provider = listing->provider;
    struct agt_reply_error error = AGT_REPLY_ERROR_INIT;
    struct agt_verdict verdict;
    struct agt_reply reply;
    const struct agt_model_attempt attempt = {.names = provider->dialect->names,
                                              .reply = &reply,
                                              .http = result,
                                              .error = &error,
                                              .model = "",
                                              .host = provider->host};

    agt_key_redact(listing->key, (char *)listing->page.data, listing->page.size);
    (void)agt_reply_error_parse(cr_buf_str(&listing->page), listing->page.size, &error);
    agt_key_redact(listing->key, error.message, strlen(error.message));
    agt_reply_init(&reply, provider->dialect->read, NULL, NULL);
    agt_verdict_judge(&attempt, &verdict);
    agt_reply_done(&reply);
    if (verdict.end == AGT_MODEL_GONE || verdict.end == AGT_MODEL_OK)
        verdict.end = AGT_MODEL_BAD_ANSWER;
    agt_key_redact(listing->key, verdict.message, strlen(verdict.message));
    finish(listing, verdict.end, verdict.message);
}

static int ask(struct listing *listing, const char *token, struct cr_err *err);

static void on_end(void *user, const struct agt_http_result *result)
{
    struct listing *listing = user;
    CR_AUTO_FREE char *next = NULL;
    int r;

    if (result->end != AGT_HTTP_DONE || result->head.status != 200) {
        fail(listing, result);
        return;
    }
    r = agt_names_parse(cr_buf_str(&listing->page), listing->page.size, &listing->names, &next);
    for (size_t i = 0; i < listing->names.count; i++)
        agt_key_redact(listing->key, listing->names.items[i], strlen(listing->names.items[i]));
    if (r < 0) {
        finish(listing, AGT_MODEL_BAD_ANSWER, "the provider's list of models is not understood");
        return;
    }
    if (next && listing->pages < MAX_PAGES && listing->names.count < AGT_LIST_MAX &&
        ask(listing, next, NULL) == 0)
        return;
    finish(listing, AGT_MODEL_OK, "");
}

/* A token is the provider's and could be anything; in a URL it must not be. */
static int add_token(struct cr_buf *url, const char *token)
{
    int r = cr_buf_add_str(url, "&pageToken=");

    for (const char *at = token; *at && r == 0; at++) {
        if (isalnum((unsigned char)*at) || strchr("-._~", *at))
            r = cr_buf_add_char(url, *at);
        else
            r = cr_buf_printf(url, "%%%02X", (unsigned char)*at);
    }
    return r;
}

static int make_url(struct listing *listing, const char *token)
{
    const struct agt_dialect *dialect = listing->provider->dialect;
    CR_AUTO_FREE char *base = NULL;
    CR_AUTO_BUF struct cr_buf url;
    int r;

    cr_buf_init(&url, 16384);
    r = dialect->url(listing->provider->base_url, "", AGT_TARGET_LIST, &base);
    if (r == 0)
        r = cr_buf_add_str(&url, base);
    if (r == 0 && dialect->has_entries)
        r = cr_buf_add_str(&url, "?pageSize=1000");
    if (r == 0 && token)
        r = add_token(&url, token);
    if (r < 0)
        return r;
    free(listing->url);
    listing->url = cr_buf_take_str(&url);
    return listing->url ? 0 : -ENOMEM;
}

static int ask(struct listing *listing, const char *token, struct cr_err *err)
{
    struct agt_http_spec spec = {
        .headers = listing->key->headers,
        .deadline_ns = listing->deadline_ns,
        .connect_timeout_ms = CONNECT_MS,
        .max_body = MAX_PAGE,
        .on_data = on_data,
        .on_end = on_end,
        .user = listing,
    };

    if (make_url(listing, token) < 0)
        return cr_err_set(err, ENOMEM, "out of memory for a list of models");
    spec.url = listing->url;
    listing->pages++;
    cr_buf_clear(&listing->page);
    return agt_http_client_start(listing->provider->http, &spec, NULL, err);
}

int agt_provider_list(struct agt_provider *provider, int64_t deadline_ns,
                      void (*on_list)(void *user, const struct agt_model_list *list), void *user,
                      struct cr_err *err)
{
    struct listing *listing = calloc(1, sizeof(*listing));
    int r;

    if (!listing)
        return cr_err_set(err, ENOMEM, "out of memory for a list of models");
    listing->provider = provider;
    listing->key = agt_keyring_get(&provider->keyring);
    listing->on_list = on_list;
    listing->user = user;
    listing->deadline_ns = deadline_ns;
    cr_buf_init(&listing->page, MAX_PAGE);
    r = ask(listing, NULL, err);
    if (r < 0)
        listing_free(listing);
    return r;
}
