/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/gemini_request.h"

#include "common/err.h"
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/model.h"
#include "orchestrator/model/request_json.h"

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
    if (ends_with(base_url, size, "/v1") || ends_with(base_url, size, "/v1beta") ||
        ends_with(base_url, size, "/publishers/google"))
        version = "";
    if (asprintf(&url, "%.*s%s/%s%s%s", (int)size, base_url, version,
                 has_collection(model) ? "" : "models/", model, action) < 0)
        return -ENOMEM;
    *ret_url = url;
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

static bool add_function(cJSON *list, const struct agt_model_function *function)
{
    cJSON *entry = cJSON_CreateObject();

    if (cJSON_AddStringToObject(entry, "name", function->name) &&
        cJSON_AddStringToObject(entry, "description", function->description) &&
        agt_request_add_json(entry, "parametersJsonSchema", function->parameters) &&
        cJSON_AddItemToArray(list, entry))
        return true;
    cJSON_Delete(entry);
    return false;
}

static const char *mode_of(const struct agt_model_request *request)
{
    if (request->may_not_call)
        return "NONE";
    return request->must_call ? "ANY" : "AUTO";
}

static bool add_allowed(cJSON *config, const struct agt_model_request *request)
{
    cJSON *list = cJSON_AddArrayToObject(config, "allowedFunctionNames");

    for (size_t i = 0; i < request->function_count; i++) {
        const char *name = request->functions[i].name;

        if (request->only && strcmp(request->only, name) != 0)
            continue;
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(name)))
            return false;
    }
    return true;
}

/* "ANY" is a must, and then the names are repeated; "AUTO" leaves it to the model. */
static bool add_functions(cJSON *root, const struct agt_model_request *request)
{
    cJSON *tools = cJSON_AddArrayToObject(root, "tools");
    cJSON *tool = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(tool, "functionDeclarations");
    cJSON *config = cJSON_AddObjectToObject(cJSON_AddObjectToObject(root, "toolConfig"),
                                            "functionCallingConfig");
    bool is_added = cJSON_AddItemToArray(tools, tool);

    if (!is_added)
        cJSON_Delete(tool);
    if (!is_added || !list || !cJSON_AddStringToObject(config, "mode", mode_of(request)))
        return false;
    for (size_t i = 0; i < request->function_count && is_added; i++)
        is_added = add_function(list, &request->functions[i]);
    if (!request->must_call)
        return is_added;
    return is_added && add_allowed(config, request);
}

/* A content without parts yet; *ret_parts is their list. */
static bool add_parts(cJSON *contents, const char *role, cJSON **ret_parts)
{
    cJSON *content = cJSON_CreateObject();

    cJSON_AddStringToObject(content, "role", role);
    *ret_parts = cJSON_AddArrayToObject(content, "parts");
    if (*ret_parts && cJSON_AddItemToArray(contents, content))
        return true;
    cJSON_Delete(content);
    return false;
}

/* A part {name: {…}}; *ret_inner is the innermost object, *ret_part its part. */
static bool add_part(cJSON *parts, const char *name, cJSON **ret_inner, cJSON **ret_part)
{
    cJSON *part = cJSON_CreateObject();

    *ret_inner = cJSON_AddObjectToObject(part, name);
    *ret_part = part;
    if (*ret_inner && cJSON_AddItemToArray(parts, part))
        return true;
    cJSON_Delete(part);
    return false;
}

static bool add_id(cJSON *object, const struct agt_model_turn *turn)
{
    return !turn->id[0] || cJSON_AddStringToObject(object, "id", turn->id);
}

/* The call goes back with its signature as it came: newer models refuse it otherwise. */
static bool add_call(cJSON *parts, const struct agt_model_turn *turn)
{
    cJSON *call;
    cJSON *part;

    return add_part(parts, "functionCall", &call, &part) && add_id(call, turn) &&
           cJSON_AddStringToObject(call, "name", turn->name) &&
           agt_request_add_json(call, "args", turn->arguments) &&
           (!turn->signature[0] ||
            cJSON_AddStringToObject(part, "thoughtSignature", turn->signature));
}

static bool add_response(cJSON *parts, const struct agt_model_turn *turn)
{
    cJSON *response;
    cJSON *part;

    return add_part(parts, "functionResponse", &response, &part) && add_id(response, turn) &&
           cJSON_AddStringToObject(response, "name", turn->name) &&
           cJSON_AddStringToObject(cJSON_AddObjectToObject(response, "response"), "output",
                                   turn->output);
}

/* All calls of one turn, and then all that came of them, in the same order. */
static bool add_turn(cJSON *contents, const struct agt_model_turn *turns, size_t count)
{
    cJSON *parts;

    if (!add_parts(contents, "model", &parts))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!add_call(parts, &turns[i]))
            return false;
    }
    if (!add_parts(contents, "user", &parts))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!add_response(parts, &turns[i]))
            return false;
    }
    return true;
}

static bool add_turns(cJSON *contents, const struct agt_model_request *request)
{
    size_t count;

    for (size_t i = 0; i < request->turn_count; i += count) {
        count = agt_model_turn_size(request, i);
        if (!add_turn(contents, &request->turns[i], count))
            return false;
    }
    return true;
}

static bool add_config(cJSON *root, const struct agt_model_request *request)
{
    cJSON *config;

    if (request->max_output_tokens == 0 && !request->schema && !request->has_temperature &&
        !request->has_thinking)
        return true;
    config = cJSON_AddObjectToObject(root, "generationConfig");
    if (request->has_temperature &&
        !cJSON_AddNumberToObject(config, "temperature", request->temperature))
        return false;
    if (request->has_thinking &&
        !cJSON_AddNumberToObject(cJSON_AddObjectToObject(config, "thinkingConfig"),
                                 "thinkingBudget", request->thinking_budget))
        return false;
    if (request->max_output_tokens != 0 &&
        !cJSON_AddNumberToObject(config, "maxOutputTokens", request->max_output_tokens))
        return false;
    return !request->schema ||
           (cJSON_AddStringToObject(config, "responseMimeType", "application/json") &&
            agt_request_add_json(config, "responseJsonSchema", request->schema));
}

static bool fill_in(cJSON *root, const struct agt_model_request *request)
{
    cJSON *contents = cJSON_AddArrayToObject(root, "contents");

    if (!add_content(contents, NULL, "user", request->prompt))
        return false;
    if (!add_turns(contents, request))
        return false;
    if (request->system && *request->system && !add_content(NULL, root, "user", request->system))
        return false;
    if (request->function_count > 0 && !add_functions(root, request))
        return false;
    return add_config(root, request);
}

int agt_gemini_request_json(const struct agt_model_request *request, const char *model,
                            char **ret_json, struct cr_err *err)
{
    cJSON *root;
    int r = agt_model_request_check(request, err);

    (void)model;
    if (r < 0)
        return r;
    root = cJSON_CreateObject();
    return agt_request_take_body(root, fill_in(root, request), ret_json, err);
}

/* NULL: no memory. */
static cJSON *get_config(cJSON *root)
{
    cJSON *config = cJSON_GetObjectItemCaseSensitive(root, "generationConfig");

    return config ? config : cJSON_AddObjectToObject(root, "generationConfig");
}

char *agt_gemini_request_vary(const char *json, uint32_t seed)
{
    cJSON *root = cJSON_Parse(json);

    return agt_request_take_text(root, agt_request_set_seed(get_config(root), seed));
}

/* Models before 3 count thinking in tokens, with a least number of them; later ones have levels. */
static bool set_least_thinking(cJSON *config, const char *model)
{
    const char *name = has_collection(model) ? strchr(model, '/') + 1 : model;
    cJSON *thinking;

    cJSON_DeleteItemFromObjectCaseSensitive(config, "thinkingConfig");
    thinking = cJSON_AddObjectToObject(config, "thinkingConfig");
    if (strncmp(name, "gemini-2", 8) != 0 && strncmp(name, "gemini-", 7) == 0)
        return cJSON_AddStringToObject(thinking, "thinkingLevel", "LOW") != NULL;
    return cJSON_AddNumberToObject(thinking, "thinkingBudget",
                                   strstr(name, "flash-lite") ? 512 : 128) != NULL;
}

char *agt_gemini_request_relax(const char *json, const char *model)
{
    cJSON *root = cJSON_Parse(json);

    return agt_request_take_text(root, set_least_thinking(get_config(root), model));
}
