/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/openapi.h"

#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/routes.h"
#include "orchestrator/http/schema.h"
#include "orchestrator/http/shapes.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <crisol/judge/v1/judge.pb-c.h>
#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define JSON "application/json"
#define EVENTS "text/event-stream"
#define PLAIN "text/plain"

#define SHAPE(shape)                                                                               \
    {                                                                                              \
        AGT_SCHEMA_SHAPE, &(shape)                                                                 \
    }
#define AGENT(name)                                                                                \
    {                                                                                              \
        AGT_SCHEMA_MESSAGE, &crisol__agent__v1__##name##__descriptor                               \
    }
#define SANDBOX(name)                                                                              \
    {                                                                                              \
        AGT_SCHEMA_MESSAGE, &crisol__sandbox__v1__##name##__descriptor                             \
    }

enum parameter {
    PARAMETER_PAGE = 1 << 0,
    PARAMETER_RUN = 1 << 1,
    PARAMETER_KEY = 1 << 2,
    PARAMETER_LAST_EVENT = 1 << 3,
};

/* What the table of routes does not say. */
struct operation {
    const char *id;
    const char *tag;
    struct agt_schema_type takes; /* NONE: no body */
    const char *required;         /* member that the body must have; NULL: none */
    const char *example;          /* body as JSON; NULL: none */
    struct agt_schema_type gives; /* as JSON; NONE: not JSON */
    const char *media;            /* beside, or in place of, JSON; NULL: none */
    unsigned parameters;
    int status;
};

#define TASK_EXAMPLE "{\"task\":\"Write an LRU cache in Python.\",\"max_iterations\":3}"

static const struct operation operations[AGT_ROUTE_COUNT] = {
    [AGT_ROUTE_INDEX] = {"routes", "service", .gives = SHAPE(agt_shape_routes), .status = 200},
    [AGT_ROUTE_LIVEZ] = {"livez", "service", .gives = SHAPE(agt_shape_ok), .status = 200},
    [AGT_ROUTE_READYZ] = {"readyz", "service", .gives = SHAPE(agt_shape_ok), .status = 200},
    [AGT_ROUTE_HEALTH] = {"health", "service", .gives = SHAPE(agt_shape_health), .status = 200},
    [AGT_ROUTE_METRICS] = {"metrics", "service", .media = PLAIN, .status = 200},
    [AGT_ROUTE_OPENAPI] = {"openapi", "service", .media = JSON, .status = 200},
    [AGT_ROUTE_DOCS] = {"docs", "service", .media = "text/html", .status = 200},
    [AGT_ROUTE_DOCS_SCRIPT] = {"docs_script", "service", .media = "text/javascript", .status = 200},
    [AGT_ROUTE_DOCS_STYLE] = {"docs_style", "service", .media = "text/css", .status = 200},
    [AGT_ROUTE_RUNTIMES] = {"runtimes", "sandbox", .gives = SANDBOX(list_runtimes_response),
                            .status = 200},
    [AGT_ROUTE_MODELS] = {"models", "runs", .gives = AGENT(list_models_response), .status = 200},
    [AGT_ROUTE_GENERATE] = {"generate", "runs", .takes = AGENT(generate_request),
                            .required = "task", .example = TASK_EXAMPLE,
                            .gives = SHAPE(agt_shape_run), .status = 200},
    [AGT_ROUTE_STREAM] = {"stream", "runs", .takes = AGENT(generate_request), .required = "task",
                          .example = TASK_EXAMPLE, .media = EVENTS, .status = 200},
    [AGT_ROUTE_EXECUTE] = {"execute", "sandbox", .takes = SANDBOX(execute_request),
                           .required = "runtime",
                           .example = "{\"runtime\":\"python\",\"code\":\"print(2 + 2)\"}",
                           .gives = SHAPE(agt_shape_execution), .media = EVENTS, .status = 200},
    [AGT_ROUTE_JUDGE_EXECUTE] = {"judge_execute", "judge",
                                 .takes = {AGT_SCHEMA_MESSAGE,
                                           &crisol__judge__v1__judge_request__descriptor},
                                 .required = "language",
                                 .example = "{\"language\":\"python\",\"version\":\"*\","
                                            "\"files\":[{\"content\":\"print(2 + 2)\"}]}",
                                 .gives = SHAPE(agt_shape_judge_answer), .status = 200},
    [AGT_ROUTE_JUDGE_RUNTIMES] = {"judge_runtimes", "judge",
                                  .gives = {AGT_SCHEMA_SHAPES, &agt_shape_judge_runtime},
                                  .status = 200},
    [AGT_ROUTE_JUDGE_PACKAGES] = {"judge_packages", "judge",
                                  .gives = {AGT_SCHEMA_SHAPES, &agt_shape_judge_package},
                                  .status = 200},
    [AGT_ROUTE_RUN_SUBMIT] = {"submit_run", "runs", .takes = AGENT(generate_request),
                              .required = "task", .example = TASK_EXAMPLE,
                              .gives = SHAPE(agt_shape_run_id), .parameters = PARAMETER_KEY,
                              .status = 202},
    [AGT_ROUTE_RUN_LIST] = {"list_runs", "runs", .gives = SHAPE(agt_shape_run_page),
                            .parameters = PARAMETER_PAGE, .status = 200},
    [AGT_ROUTE_RUN_GET] = {"get_run", "runs", .gives = SHAPE(agt_shape_run), .status = 200},
    [AGT_ROUTE_RUN_CANCEL] = {"cancel_run", "runs", .gives = SHAPE(agt_shape_cancelled),
                              .status = 200},
    [AGT_ROUTE_RUN_EVENTS] = {"watch_run", "runs", .media = EVENTS,
                              .parameters = PARAMETER_LAST_EVENT, .status = 200},
    [AGT_ROUTE_RUN_RESUME] = {"resume_run", "runs", .takes = SHAPE(agt_shape_resume),
                              .example = "{}", .gives = SHAPE(agt_shape_resumed), .status = 200},
    [AGT_ROUTE_RUN_FORK] = {"fork_run", "runs", .takes = SHAPE(agt_shape_fork),
                            .example = "{\"seq\":5}", .gives = SHAPE(agt_shape_run_id),
                            .status = 202},
    [AGT_ROUTE_RUN_FORGET] = {"forget_run", "runs", .takes = SHAPE(agt_shape_nothing),
                              .example = "{}", .gives = SHAPE(agt_shape_nothing), .status = 200},
    [AGT_ROUTE_RUN_EXPORT] = {"export_run", "runs", .media = "application/x-protobuf",
                              .status = 200},
    [AGT_ROUTE_RUN_RECEIPT] = {"get_receipt", "runs", .gives = AGENT(receipt), .status = 200},
    [AGT_ROUTE_GRAPH] = {"graph", "graph", .gives = AGENT(describe_graph_response),
                         .parameters = PARAMETER_RUN, .status = 200},
    [AGT_ROUTE_GRAPH_MERMAID] = {"graph_mermaid", "graph", .media = PLAIN,
                                 .parameters = PARAMETER_RUN, .status = 200},
    [AGT_ROUTE_GRAPH_DOT] = {"graph_dot", "graph", .media = PLAIN, .parameters = PARAMETER_RUN,
                             .status = 200},
};

static const struct {
    const char *name;
    const char *help;
} tags[] = {
    {"runs", "Tasks that become code."},
    {"sandbox", "Programs in a sandbox, without a model."},
    {"judge", "The same programs in the shape of the Piston judge, for clients that speak it."},
    {"graph", "What a run goes through."},
    {"service", "The service itself."},
};

static bool has_id(const struct agt_route *route)
{
    return strstr(route->path, "{id}") != NULL;
}

/* ---- parameters ---- */

struct parameter_type {
    const char *name;
    const char *pattern; /* NULL: any */
    int64_t max;         /* of a number; 0: it is none */
};

static const struct parameter_type run_id = {.name = "string", .pattern = "^[0-9a-f]{32}$"};
static const struct parameter_type text = {.name = "string"};
static const struct parameter_type page_size = {.name = "integer", .max = 100};
static const struct parameter_type page_token = {.name = "string", .pattern = "^[0-9]{0,19}$"};
static const struct parameter_type event_id = {.name = "integer", .max = UINT32_MAX - 1};

static void write_parameter(struct agt_json *json, const char *name, const char *place,
                            const char *help, const struct parameter_type *type)
{
    agt_json_open(json, NULL, '{');
    agt_json_str(json, "name", name);
    agt_json_str(json, "in", place);
    agt_json_str(json, "description", help);
    if (strcmp(place, "path") == 0)
        agt_json_bool(json, "required", true);
    agt_json_open(json, "schema", '{');
    agt_json_str(json, "type", type->name);
    if (type->pattern)
        agt_json_str(json, "pattern", type->pattern);
    if (type->max > 0) {
        agt_json_int(json, "minimum", 0);
        agt_json_int(json, "maximum", type->max);
    }
    agt_json_close(json, '}');
    agt_json_close(json, '}');
}

static void write_parameters(struct agt_json *json, const struct agt_route *route,
                             const struct operation *operation)
{
    unsigned which = operation->parameters;

    if (!has_id(route) && which == 0)
        return;
    agt_json_open(json, "parameters", '[');
    if (has_id(route))
        write_parameter(json, "id", "path", "run_id of the run.", &run_id);
    if (which & PARAMETER_PAGE) {
        write_parameter(json, "page_size", "query", "Runs on a page; 0 or none: 100, the most.",
                        &page_size);
        write_parameter(json, "page_token", "query", "next_page_token of the page before.",
                        &page_token);
    }
    if (which & PARAMETER_RUN)
        write_parameter(json, "run_id", "query", "Marks the path of this run.", &run_id);
    if (which & PARAMETER_KEY)
        write_parameter(json, "Idempotency-Key", "header",
                        "The same key starts the run once; at most 128 bytes.", &text);
    if (which & PARAMETER_LAST_EVENT)
        write_parameter(json, "Last-Event-ID", "header",
                        "Number of the last state event that is known; events from behind it on.",
                        &event_id);
    agt_json_close(json, ']');
}

/* ---- bodies ---- */

static void write_body(struct agt_schemas *schemas, const struct operation *operation)
{
    struct agt_json *json = schemas->json;

    if (operation->takes.kind == AGT_SCHEMA_NONE)
        return;
    agt_json_open(json, "requestBody", '{');
    agt_json_bool(json, "required", true);
    agt_json_open(json, "content", '{');
    agt_json_open(json, JSON, '{');
    if (operation->required) {
        agt_json_open(json, "schema", '{');
        agt_json_open(json, "allOf", '[');
        agt_schema_write(schemas, NULL, operation->takes, false);
        agt_json_close(json, ']');
        agt_json_open(json, "required", '[');
        agt_json_str(json, NULL, operation->required);
        agt_json_close(json, ']');
        agt_json_close(json, '}');
    } else {
        agt_schema_write(schemas, "schema", operation->takes, false);
    }
    if (operation->example)
        agt_json_raw(json, "example", operation->example);
    agt_json_close(json, '}');
    agt_json_close(json, '}');
    agt_json_close(json, '}');
}

/* ---- answers ---- */

/* {"description":…,"content":{…; what is in "content" follows, then close_response(). */
static void open_response(struct agt_json *json, const char *status, const char *help)
{
    agt_json_open(json, status, '{');
    agt_json_str(json, "description", help);
    agt_json_open(json, "content", '{');
}

static void close_response(struct agt_json *json)
{
    agt_json_close(json, '}');
    agt_json_close(json, '}');
}

static void write_json_content(struct agt_schemas *schemas, struct agt_schema_type type)
{
    agt_json_open(schemas->json, JSON, '{');
    agt_schema_write(schemas, "schema", type, false);
    agt_json_close(schemas->json, '}');
}

static void write_error(struct agt_schemas *schemas, const char *status, const char *help,
                        const struct agt_schema_shape *shape)
{
    open_response(schemas->json, status, help);
    write_json_content(schemas, (struct agt_schema_type){AGT_SCHEMA_SHAPE, shape});
    close_response(schemas->json);
}

static void write_media(struct agt_json *json, const char *media)
{
    agt_json_open(json, media, '{');
    agt_json_open(json, "schema", '{'); /* of the whole, so events and bytes have none */
    if (strcmp(media, JSON) == 0)
        agt_json_str(json, "type", "object");
    else if (strcmp(media, "application/x-protobuf") != 0 && strcmp(media, EVENTS) != 0)
        agt_json_str(json, "type", "string");
    agt_json_close(json, '}');
    agt_json_close(json, '}');
}

static void write_success(struct agt_schemas *schemas, const struct agt_route *route,
                          const struct operation *operation)
{
    char status[16];

    (void)snprintf(status, sizeof(status), "%d", operation->status);
    open_response(schemas->json, status, route->help);
    if (operation->gives.kind != AGT_SCHEMA_NONE)
        write_json_content(schemas, operation->gives);
    if (operation->media)
        write_media(schemas->json, operation->media);
    close_response(schemas->json);
}

static void write_responses(struct agt_schemas *schemas, const struct agt_route *route,
                            const struct operation *operation)
{
    const bool is_judge = agt_route_is_judge(route->path);
    const struct agt_schema_shape *error = is_judge ? &agt_shape_judge_refusal : &agt_shape_error;

    agt_json_open(schemas->json, "responses", '{');
    write_success(schemas, route, operation);
    if (is_judge && operation->takes.kind != AGT_SCHEMA_NONE)
        write_error(schemas, "400", "The program was not run.", error);
    else if (!is_judge && (!route->query || operation->parameters))
        write_error(schemas, "422", "The request can be read but not used.", &agt_shape_invalid);
    if (has_id(route) || operation->parameters & PARAMETER_RUN)
        write_error(schemas, "404", "The caller has no such run.", &agt_shape_error);
    if (!route->is_open)
        write_error(schemas, "429", "Too much at one time; Retry-After says when to ask again.",
                    error);
    if (!route->is_open || route->id == AGT_ROUTE_READYZ)
        write_error(schemas, "503", "It cannot be done now, or something is not set up.", error);
    write_error(schemas, "default", "Something else; docs/agent.md has the table.", error);
    agt_json_close(schemas->json, '}');
}

/* ---- the document ---- */

static void write_operation(struct agt_schemas *schemas, const struct agt_route *route)
{
    const struct operation *operation = &operations[route->id];
    struct agt_json *json = schemas->json;
    char method[8] = "";

    for (size_t i = 0; i + 1 < sizeof(method) && route->method[i]; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    agt_json_open(json, method, '{');
    agt_json_str(json, "operationId", operation->id);
    agt_json_open(json, "tags", '[');
    agt_json_str(json, NULL, operation->tag);
    agt_json_close(json, ']');
    agt_json_str(json, "summary", route->help);
    write_parameters(json, route, operation);
    write_body(schemas, operation);
    write_responses(schemas, route, operation);
    if (route->is_open) {
        agt_json_open(json, "security", '[');
        agt_json_close(json, ']');
    }
    agt_json_close(json, '}');
}

static bool is_first_of_path(int id)
{
    for (int i = 0; i < id; i++) {
        if (strcmp(agt_route_get((enum agt_route_id)i)->path,
                   agt_route_get((enum agt_route_id)id)->path) == 0)
            return false;
    }
    return true;
}

static void write_paths(struct agt_schemas *schemas)
{
    struct agt_json *json = schemas->json;

    agt_json_open(json, "paths", '{');
    for (int id = 0; id < AGT_ROUTE_COUNT; id++) {
        const struct agt_route *first = agt_route_get((enum agt_route_id)id);

        if (!is_first_of_path(id))
            continue;
        agt_json_open(json, first->path, '{');
        for (int other = id; other < AGT_ROUTE_COUNT; other++) {
            const struct agt_route *route = agt_route_get((enum agt_route_id)other);

            if (strcmp(route->path, first->path) == 0)
                write_operation(schemas, route);
        }
        agt_json_close(json, '}');
    }
    agt_json_close(json, '}');
}

static void write_info(struct agt_json *json, const char *version)
{
    agt_json_open(json, "info", '{');
    agt_json_str(json, "title", "Crisol");
    agt_json_str(json, "version", version);
    agt_json_str(
        json, "description",
        "Turns a task into code that passed its tests in a sandbox. A run that fails is an "
        "answer, with 200 and a cause.");
    agt_json_open(json, "license", '{');
    agt_json_str(json, "name", "Apache-2.0");
    agt_json_str(json, "identifier", "Apache-2.0");
    agt_json_close(json, '}');
    agt_json_close(json, '}');
}

static void write_tags(struct agt_json *json)
{
    agt_json_open(json, "tags", '[');
    for (size_t i = 0; i < CR_ARRAY_SIZE(tags); i++) {
        agt_json_open(json, NULL, '{');
        agt_json_str(json, "name", tags[i].name);
        agt_json_str(json, "description", tags[i].help);
        agt_json_close(json, '}');
    }
    agt_json_close(json, ']');
}

/* Asked for only where the service was given a token. */
static void write_security(struct agt_json *json)
{
    agt_json_open(json, "securitySchemes", '{');
    agt_json_open(json, "token", '{');
    agt_json_str(json, "type", "http");
    agt_json_str(json, "scheme", "bearer");
    agt_json_close(json, '}');
    agt_json_close(json, '}');
}

static void write_default_security(struct agt_json *json)
{
    agt_json_open(json, "security", '[');
    agt_json_open(json, NULL, '{');
    agt_json_close(json, '}');
    agt_json_open(json, NULL, '{');
    agt_json_open(json, "token", '[');
    agt_json_close(json, ']');
    agt_json_close(json, '}');
    agt_json_close(json, ']');
}

int agt_openapi_write(const char *version, const struct rpc_comments *comments, struct cr_buf *buf)
{
    struct agt_json json;
    struct agt_schemas schemas = {.json = &json, .comments = comments};

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    agt_json_str(&json, "openapi", "3.1.0");
    write_info(&json, version);
    write_tags(&json);
    write_default_security(&json);
    write_paths(&schemas);
    agt_json_open(&json, "components", '{');
    write_security(&json);
    agt_json_open(&json, "schemas", '{');
    agt_schemas_write_components(&schemas);
    agt_json_close(&json, '}');
    agt_json_close(&json, '}');
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}
