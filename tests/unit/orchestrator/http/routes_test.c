/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/http/routes.h"
#include "tests/harness/test.h"

#include <string.h>

#include <cjson/cJSON.h>

static void every_route_is_found_by_its_path(void **state)
{
    (void)state;
    for (int id = 0; id < AGT_ROUTE_COUNT; id++) {
        const struct agt_route *route = agt_route_get((enum agt_route_id)id);

        assert_int_equal(route->id, id);
        assert_ptr_equal(agt_route_find(route->path, strlen(route->path), route->method), route);
        assert_non_null(strstr(route->allow, route->method));
    }
}

static void other_paths_are_not_found(void **state)
{
    (void)state;
    assert_null(agt_route_find("", 0, "GET"));
    assert_null(agt_route_find("/livezz", 7, "GET"));
    assert_null(agt_route_find("/live", 5, "GET"));
    assert_null(agt_route_find("/API/V1/HEALTH", 14, "GET"));
}

static void an_id_is_one_segment(void **state)
{
    static const char events[] = "/api/v1/runs/0af3/events?x=/y";
    const struct agt_route *route = agt_route_find(events, strcspn(events, "?"), "GET");
    size_t size = 0;
    const char *id;

    (void)state;
    assert_int_equal(route->id, AGT_ROUTE_RUN_EVENTS);
    id = agt_route_id(route, events, &size);
    assert_int_equal(size, 4);
    assert_memory_equal(id, "0af3", 4);
    assert_null(agt_route_find("/api/v1/runs/", 13, "GET"));
    assert_null(agt_route_find("/api/v1/runs//events", 20, "GET"));
    assert_null(agt_route_find("/api/v1/runs/a/b", 16, "GET"));
    assert_null(agt_route_find("/api/v1/runs/a/events/", 22, "GET"));
}

static void the_method_chooses_among_the_rows_of_a_path(void **state)
{
    (void)state;
    assert_int_equal(agt_route_find("/api/v1/runs", 12, "POST")->id, AGT_ROUTE_RUN_SUBMIT);
    assert_int_equal(agt_route_find("/api/v1/runs", 12, "HEAD")->id, AGT_ROUTE_RUN_LIST);
    assert_int_equal(agt_route_find("/api/v1/runs/a", 14, "DELETE")->id, AGT_ROUTE_RUN_CANCEL);
    assert_false(agt_route_allows(agt_route_find("/api/v1/runs/a", 14, "PUT"), "PUT"));
}

static void methods_follow_the_table(void **state)
{
    const struct agt_route *get = agt_route_get(AGT_ROUTE_HEALTH);
    const struct agt_route *post = agt_route_get(AGT_ROUTE_EXECUTE);

    (void)state;
    assert_true(agt_route_allows(get, "GET"));
    assert_true(agt_route_allows(get, "HEAD"));
    assert_true(agt_route_allows(get, "OPTIONS"));
    assert_false(agt_route_allows(get, "POST"));
    assert_false(agt_route_allows(get, "get"));
    assert_true(agt_route_allows(post, "POST"));
    assert_false(agt_route_allows(post, "HEAD"));
    assert_false(agt_route_allows(post, "DELETE"));
}

static void the_index_lists_every_route(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;
    cJSON *root;

    (void)state;
    cr_buf_init(&buf, 65536);
    assert_int_equal(agt_routes_write(&buf), 0);
    root = cJSON_Parse(cr_buf_str(&buf));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "routes")), AGT_ROUTE_COUNT);
    cJSON_Delete(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_found_by_its_path),
        cmocka_unit_test(other_paths_are_not_found),
        cmocka_unit_test(an_id_is_one_segment),
        cmocka_unit_test(the_method_chooses_among_the_rows_of_a_path),
        cmocka_unit_test(methods_follow_the_table),
        cmocka_unit_test(the_index_lists_every_route),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
