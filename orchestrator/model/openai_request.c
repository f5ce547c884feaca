/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/openai_request.h"

#include "common/err.h"
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/request_json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

static const size_t MAX_MODEL = 128;

bool agt_openai_model_is_valid(const char *model)
{
    if (!*model || strlen(model) > MAX_MODEL || strstr(model, ".."))
        return false;
    for (const char *at = model; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("._-@:/+", *at))
            return false;
    }
    return true;
}

/* {"role": role, "content": text}, added to the list. NULL: no memory. */
static cJSON *add_message(cJSON *messages, const char *role, const char *text)
{
    cJSON *message = cJSON_CreateObject();

    if (cJSON_AddStringToObject(message, "role", role) &&
        cJSON_AddStringToObject(message, "content", text) &&
        cJSON_AddItemToArray(messages, message))
        return message;
    cJSON_Delete(message);
    return NULL;
}

/* Servers that give no id still want one. */
static void write_id(const struct agt_model_turn *turn, size_t number, char *id, size_t room)
{
    if (turn->id[0])
        (void)snprintf(id, room, "%s", turn->id);
    else
        (void)snprintf(id, room, "call_%zu", number);
}

static bool add_call(cJSON *calls, const struct agt_model_turn *turn, size_t number)
{
    cJSON *call = cJSON_CreateObject();
    cJSON *function;
    char id[128];

    write_id(turn, number, id, sizeof(id));
    if (!cJSON_AddItemToArray(calls, call)) {
        cJSON_Delete(call);
        return false;
    }
    if (!cJSON_AddStringToObject(call, "id", id) ||
        !cJSON_AddStringToObject(call, "type", "function"))
        return false;
    function = cJSON_AddObjectToObject(call, "function");
    /* The arguments are a text that holds JSON. */
    return cJSON_AddStringToObject(function, "name", turn->name) &&
           cJSON_AddStringToObject(function, "arguments", turn->arguments);
}

static bool add_output(cJSON *messages, const struct agt_model_turn *turn, size_t number)
{
    cJSON *message = add_message(messages, "tool", turn->output);
    char id[128];

    write_id(turn, number, id, sizeof(id));
    return cJSON_AddStringToObject(message, "tool_call_id", id) != NULL;
}

/* All calls of one turn, and then all that came of them. */
static bool add_turn(cJSON *messages, const struct agt_model_turn *turns, size_t count,
                     size_t number)
{
    cJSON *message = add_message(messages, "assistant", "");
    cJSON *calls = cJSON_AddArrayToObject(message, "tool_calls");

    for (size_t i = 0; i < count; i++) {
        if (!calls || !add_call(calls, &turns[i], number + i))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!add_output(messages, &turns[i], number + i))
            return false;
    }
    return true;
}

static bool add_messages(cJSON *root, const struct agt_model_request *request)
{
    cJSON *messages = cJSON_AddArrayToObject(root, "messages");
    size_t count;

    if (request->system && *request->system && !add_message(messages, "system", request->system))
        return false;
    if (!add_message(messages, "user", request->prompt))
        return false;
    for (size_t i = 0; i < request->turn_count; i += count) {
        count = agt_model_turn_size(request, i);
        if (!add_turn(messages, &request->turns[i], count, i))
            return false;
    }
    return true;
}

static bool add_function(cJSON *tools, const struct agt_model_function *function)
{
    cJSON *tool = cJSON_CreateObject();
    cJSON *inner;

    if (!cJSON_AddItemToArray(tools, tool)) {
        cJSON_Delete(tool);
        return false;
    }
    if (!cJSON_AddStringToObject(tool, "type", "function"))
        return false;
    inner = cJSON_AddObjectToObject(tool, "function");
    return cJSON_AddStringToObject(inner, "name", function->name) &&
           cJSON_AddStringToObject(inner, "description", function->description) &&
           agt_request_add_json(inner, "parameters", function->parameters);
}

static bool add_choice(cJSON *root, const struct agt_model_request *request)
{
    cJSON *choice;

    if (request->may_not_call)
        return cJSON_AddStringToObject(root, "tool_choice", "none") != NULL;
    if (!request->must_call || !request->only)
        return cJSON_AddStringToObject(root, "tool_choice",
                                       request->must_call ? "required" : "auto") != NULL;
    choice = cJSON_AddObjectToObject(root, "tool_choice");
    return cJSON_AddStringToObject(choice, "type", "function") &&
           cJSON_AddStringToObject(cJSON_AddObjectToObject(choice, "function"), "name",
                                   request->only);
}

static bool add_functions(cJSON *root, const struct agt_model_request *request)
{
    cJSON *tools;

    if (request->function_count == 0)
        return true;
    tools = cJSON_AddArrayToObject(root, "tools");
    for (size_t i = 0; i < request->function_count; i++) {
        if (!add_function(tools, &request->functions[i]))
            return false;
    }
    return add_choice(root, request);
}

static bool add_format(cJSON *root, const struct agt_model_request *request)
{
    cJSON *format;
    cJSON *schema;

    if (!request->schema)
        return true;
    format = cJSON_AddObjectToObject(root, "response_format");
    if (!cJSON_AddStringToObject(format, "type", "json_schema"))
        return false;
    schema = cJSON_AddObjectToObject(format, "json_schema");
    return cJSON_AddStringToObject(schema, "name", "answer") &&
           agt_request_add_json(schema, "schema", request->schema);
}

static bool fill_in(cJSON *root, const struct agt_model_request *request, const char *model)
{
    if (!cJSON_AddStringToObject(root, "model", model) || !add_messages(root, request) ||
        !cJSON_AddTrueToObject(root, "stream") ||
        !cJSON_AddTrueToObject(cJSON_AddObjectToObject(root, "stream_options"), "include_usage") ||
        !add_functions(root, request) || !add_format(root, request))
        return false;
    if (request->has_temperature &&
        !cJSON_AddNumberToObject(root, "temperature", request->temperature))
        return false;
    return request->max_output_tokens == 0 ||
           cJSON_AddNumberToObject(root, "max_tokens", request->max_output_tokens);
}

int agt_openai_request_json(const struct agt_model_request *request, const char *model,
                            char **ret_json, struct cr_err *err)
{
    cJSON *root;
    int r = agt_model_request_check(request, err);

    if (r < 0)
        return r;
    root = cJSON_CreateObject();
    return agt_request_take_body(root, fill_in(root, request, model), ret_json, err);
}

char *agt_openai_request_vary(const char *json, uint32_t seed)
{
    cJSON *root = cJSON_Parse(json);

    return agt_request_take_text(root, agt_request_set_seed(root, seed));
}
