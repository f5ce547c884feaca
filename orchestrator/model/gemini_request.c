/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/gemini_request.h"

#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/model/model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const char VERSION[] = "/v1beta";
static const size_t MAX_MODEL = 128;

static bool ends_with(const char *text, size_t size, const char *end)
{
    size_t length = strlen(end);

    return size >= length && memcmp(text + size - length, end, length) == 0;
}

static bool has_collection(const char *model)
{
    return strncmp(model, "models/", 7) == 0 || strncmp(model, "tunedModels/", 12) == 0;
}

bool agt_gemini_model_is_valid(const char *model)
{
    const char *name = has_collection(model) ? strchr(model, '/') + 1 : model;

    if (!*name || strlen(model) > MAX_MODEL || strstr(name, ".."))
        return false;
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("._-@", *at))
            return false;
    }
    return true;
}

int agt_gemini_url(const char *base_url, const char *model, const char *action, char **ret_url)
{
    size_t size = strlen(base_url);
    const char *version = VERSION;
    char *url = NULL;

    while (size > 0 && base_url[size - 1] == '/')
        size--;
    if (ends_with(base_url, size, "/v1") || ends_with(base_url, size, "/v1beta"))
        version = "";
    if (asprintf(&url, "%.*s%s/%s%s%s", (int)size, base_url, version,
                 has_collection(model) ? "" : "models/", model, action) < 0)
        return -ENOMEM;
    *ret_url = url;
    return 0;
}

static int check_text(const char *text, const char *field, struct cr_err *err)
{
    if (!cr_utf8_is_valid(text, strlen(text)))
        return cr_err_set(err, EINVAL, "%s is not UTF-8", field);
    return 0;
}

/* {"role": role, "parts": [{"text": text}]}; NULL: no memory. */
static cJSON *new_content(const char *role, const char *text)
{
    cJSON *content = cJSON_CreateObject();
    cJSON *part;

    cJSON_AddStringToObject(content, "role", role);
    part = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(part, "text", text) ||
        !cJSON_AddItemToArray(cJSON_AddArrayToObject(content, "parts"), part)) {
        cJSON_Delete(part);
        cJSON_Delete(content);
        return NULL;
    }
    return content;
}

static bool add_content(cJSON *owner_array, cJSON *owner_object, const char *role, const char *text)
{
    cJSON *content = new_content(role, text);
    bool is_added = owner_array ? cJSON_AddItemToArray(owner_array, content)
                                : cJSON_AddItemToObject(owner_object, "systemInstruction", content);

    if (!is_added)
        cJSON_Delete(content);
    return is_added;
}

static bool fill_in(cJSON *root, const struct agt_model_request *request)
{
    if (!add_content(cJSON_AddArrayToObject(root, "contents"), NULL, "user", request->prompt))
        return false;
    if (request->system && *request->system && !add_content(NULL, root, "user", request->system))
        return false;
    if (request->max_output_tokens == 0)
        return true;
    return cJSON_AddNumberToObject(cJSON_AddObjectToObject(root, "generationConfig"),
                                   "maxOutputTokens", request->max_output_tokens) != NULL;
}

int agt_gemini_request_json(const struct agt_model_request *request, char **ret_json,
                            struct cr_err *err)
{
    cJSON *root;
    char *json = NULL;
    int r;

    if (!request->prompt || !*request->prompt)
        return cr_err_set(err, EINVAL, "the prompt is empty");
    r = check_text(request->prompt, "the prompt", err);
    if (r == 0 && request->system)
        r = check_text(request->system, "the system instruction", err);
    if (r < 0)
        return r;
    root = cJSON_CreateObject();
    if (fill_in(root, request))
        json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (!json)
        return cr_err_set(err, ENOMEM, "out of memory for a request to the model");
    *ret_json = json;
    return 0;
}

char *agt_gemini_request_vary(const char *json, uint32_t seed)
{
    cJSON *root = cJSON_Parse(json);
    cJSON *config = cJSON_GetObjectItemCaseSensitive(root, "generationConfig");
    char *varied = NULL;

    if (!config)
        config = cJSON_AddObjectToObject(root, "generationConfig");
    /* int32 on the wire. */
    if (cJSON_AddNumberToObject(config, "seed", seed & INT32_MAX))
        varied = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return varied;
}
