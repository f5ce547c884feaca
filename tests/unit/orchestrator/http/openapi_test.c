/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/openapi.h"
#include "orchestrator/http/routes.h"
#include "proto/descriptor_set.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <cjson/cJSON.h>

static cJSON *document;

static int start(void **state)
{
    const struct rpc_comments comments = {
        crisol_descriptor_set, (size_t)(crisol_descriptor_set_end - crisol_descriptor_set)};
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 1 << 20);
    assert_int_equal(agt_openapi_write("1.2.3", &comments, &buf), 0);
    document = cJSON_Parse(cr_buf_str(&buf));
    return document ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    cJSON_Delete(document);
    return 0;
}

static const cJSON *get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static void every_route_has_an_operation(void **state)
{
    const cJSON *paths = get(document, "paths");

    (void)state;
    for (int id = 0; id < AGT_ROUTE_COUNT; id++) {
        const struct agt_route *route = agt_route_get((enum agt_route_id)id);
        /* Names of members without regard to case: GET is "get" there. */
        const cJSON *operation = cJSON_GetObjectItem(get(paths, route->path), route->method);

        assert_non_null(operation);
        assert_string_equal(get(operation, "summary")->valuestring, route->help);
        assert_non_null(get(get(operation, "responses"), "default"));
        assert_int_equal(get(operation, "requestBody") != NULL, route->body_cap > 0);
        assert_int_equal(get(operation, "security") != NULL, route->is_open);
    }
}

static void operations_have_names_of_their_own(void **state)
{
    const char *seen[AGT_ROUTE_COUNT] = {0};
    size_t count = 0;
    const cJSON *path;
    const cJSON *operation;

    (void)state;
    cJSON_ArrayForEach(path, get(document, "paths"))
    {
        cJSON_ArrayForEach(operation, path)
        {
            const char *id = get(operation, "operationId")->valuestring;

            for (size_t i = 0; i < count; i++)
                assert_string_not_equal(seen[i], id);
            seen[count++] = id;
        }
    }
    assert_int_equal(count, AGT_ROUTE_COUNT);
}

static size_t check_refs(const cJSON *value)
{
    static const char prefix[] = "#/components/schemas/";
    const cJSON *schemas = get(get(document, "components"), "schemas");
    const cJSON *ref = cJSON_IsObject(value) ? get(value, "$ref") : NULL;
    size_t count = 0;
    const cJSON *item;

    if (ref) {
        assert_int_equal(strncmp(ref->valuestring, prefix, sizeof(prefix) - 1), 0);
        assert_non_null(get(schemas, ref->valuestring + sizeof(prefix) - 1));
        count++;
    }
    cJSON_ArrayForEach(item, value) count += check_refs(item);
    return count;
}

static void every_reference_leads_to_a_schema(void **state)
{
    (void)state;
    assert_true(check_refs(document) > 100);
}

static void schemas_have_the_comments_of_the_protos(void **state)
{
    const cJSON *schemas = get(get(document, "components"), "schemas");
    const cJSON *limits = get(get(schemas, "sandbox.v1.Limits"), "properties");
    const cJSON *status = get(schemas, "agent.v1.RunStatus");

    (void)state;
    assert_string_equal(get(get(limits, "processes"), "description")->valuestring,
                        "Processes and threads at one time. Default 64; 1 to 512.");
    assert_string_equal(cJSON_GetArrayItem(get(status, "enum"), 2)->valuestring, "SUCCESS");
}

static void too_little_room_is_told(void **state)
{
    const struct rpc_comments none = {0};
    CR_AUTO_BUF struct cr_buf buf;

    (void)state;
    cr_buf_init(&buf, 20000);
    assert_int_equal(agt_openapi_write("1.2.3", &none, &buf), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_has_an_operation),
        cmocka_unit_test(operations_have_names_of_their_own),
        cmocka_unit_test(every_reference_leads_to_a_schema),
        cmocka_unit_test(schemas_have_the_comments_of_the_protos),
        cmocka_unit_test(too_little_room_is_told),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
