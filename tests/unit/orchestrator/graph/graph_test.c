/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/graph.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#define BIT(name) AGT_OUTCOME_BIT(AGT_OUTCOME_##name)

static void agent_graph_is_sound(void **state)
{
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(agt_graph_check(&agt_agent_graph, &err), 0);
}

static void nodes_are_numbered_as_in_the_contract(void **state)
{
    (void)state;
    assert_int_equal(AGT_NODE_PLANNER, CRISOL__AGENT__V1__NODE__NODE_PLANNER);
    assert_int_equal(AGT_NODE_GENERATOR, CRISOL__AGENT__V1__NODE__NODE_GENERATOR);
    assert_int_equal(AGT_NODE_SANDBOX, CRISOL__AGENT__V1__NODE__NODE_SANDBOX);
    assert_int_equal(AGT_NODE_EVALUATOR, CRISOL__AGENT__V1__NODE__NODE_EVALUATOR);
    assert_int_equal(AGT_NODE_SUCCESS, CRISOL__AGENT__V1__NODE__NODE_SUCCESS);
    assert_int_equal(AGT_NODE_FAILED, CRISOL__AGENT__V1__NODE__NODE_FAILED);
}

/* Whichever edge is taken away: the check names the outcome that has lost it. */
static void every_missing_edge_is_found(void **state)
{
    struct agt_graph_edge edges[64];

    (void)state;
    assert_true(agt_agent_graph.edge_count <= CR_ARRAY_SIZE(edges));
    for (size_t gone = 0; gone < agt_agent_graph.edge_count; gone++) {
        struct agt_graph graph = agt_agent_graph;
        struct cr_err err = CR_ERR_INIT;
        size_t count = 0;

        for (size_t i = 0; i < agt_agent_graph.edge_count; i++) {
            if (i != gone)
                edges[count++] = agt_agent_graph.edges[i];
        }
        graph.edges = edges;
        graph.edge_count = count;

        assert_int_equal(agt_graph_check(&graph, &err), -EINVAL);
        assert_non_null(strstr(err.text, "has no edge"));
        assert_non_null(strstr(err.text, agt_outcome_name(agt_agent_graph.edges[gone].outcome)));
    }
}

struct bad_graph {
    struct agt_graph_node nodes[3];
    size_t node_count;
    struct agt_graph_edge edges[3];
    size_t edge_count;
    const char *problem;
};

static const struct bad_graph bad_graphs[] = {
    {.node_count = 0, .problem = "no node"},
    {{{AGT_NODE_NONE, "none", "", 0, {0, 0}}}, 1, {{0}}, 0, "is no node"},
    {{{AGT_NODE_COUNT, "many", "", 0, {0, 0}}}, 1, {{0}}, 0, "is no node"},
    {{{AGT_NODE_FAILED, "a", "", 0, {0, 0}}, {AGT_NODE_FAILED, "b", "", 0, {0, 0}}},
     2,
     {{0}},
     0,
     "listed twice"},
    {{{AGT_NODE_FAILED, "a", "", AGT_OUTCOME_BIT(AGT_OUTCOME_COUNT), {9, 0}}},
     1,
     {{0}},
     0,
     "unknown outcome"},
    {{{AGT_NODE_PLANNER, "a", "", BIT(DONE), {9, 0}}},
     1,
     {{AGT_NODE_PLANNER, AGT_OUTCOME_DONE, AGT_NODE_FAILED}},
     1,
     "no node"},
    {{{AGT_NODE_PLANNER, "a", "", BIT(DONE), {9, 0}}, {AGT_NODE_FAILED, "b", "", 0, {0, 0}}},
     2,
     {{AGT_NODE_PLANNER, AGT_OUTCOME_REPAIR, AGT_NODE_FAILED}},
     1,
     "never ends with 'repair'"},
    {{{AGT_NODE_PLANNER, "a", "", BIT(DONE), {9, 0}}, {AGT_NODE_FAILED, "b", "", 0, {0, 0}}},
     2,
     {{AGT_NODE_PLANNER, AGT_OUTCOME_DONE, AGT_NODE_FAILED},
      {AGT_NODE_PLANNER, AGT_OUTCOME_DONE, AGT_NODE_PLANNER}},
     2,
     "two edges"},
    {{{AGT_NODE_PLANNER, "a", "", 0, {0, 0}}, {AGT_NODE_FAILED, "b", "", 0, {0, 0}}},
     2,
     {{0}},
     0,
     "cannot be reached"},
    {{{AGT_NODE_PLANNER, "a", "", BIT(DONE), {9, 0}}},
     1,
     {{AGT_NODE_PLANNER, AGT_OUTCOME_DONE, AGT_NODE_PLANNER}},
     1,
     "reaches no end"},
    {{{AGT_NODE_PLANNER, "a", "", BIT(DONE), {0, 0}}, {AGT_NODE_FAILED, "b", "", 0, {0, 0}}},
     2,
     {{AGT_NODE_PLANNER, AGT_OUTCOME_DONE, AGT_NODE_FAILED}},
     1,
     "needs a time-out"},
};

static void every_fault_of_a_graph_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(bad_graphs); i++) {
        const struct bad_graph *bad = &bad_graphs[i];
        struct agt_graph graph = {bad->nodes, bad->node_count, bad->edges, bad->edge_count};
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(agt_graph_check(&graph, &err), -EINVAL);
        if (!strstr(err.text, bad->problem))
            fail_msg("'%s' does not say '%s'", err.text, bad->problem);
    }
}

static void drawing_has_every_node_and_edge(void **state)
{
    CR_AUTO_BUF struct cr_buf mermaid = {0};
    CR_AUTO_BUF struct cr_buf dot = {0};

    (void)state;
    cr_buf_init(&mermaid, 65536);
    cr_buf_init(&dot, 65536);
    assert_int_equal(agt_graph_draw_mermaid(&agt_agent_graph, NULL, &mermaid), 0);
    assert_int_equal(agt_graph_draw_dot(&agt_agent_graph, NULL, &dot), 0);

    assert_non_null(strstr(cr_buf_str(&mermaid), "flowchart TD\n"));
    assert_non_null(strstr(cr_buf_str(&mermaid), "    evaluator -->|repair| generator\n"));
    assert_non_null(strstr(cr_buf_str(&mermaid), "    success([\"success\"])\n"));
    assert_null(strstr(cr_buf_str(&mermaid), "visited"));
    assert_non_null(strstr(cr_buf_str(&dot), "    evaluator -> generator [label=\"repair\"];\n"));
    for (size_t i = 0; i < agt_agent_graph.node_count; i++) {
        assert_non_null(strstr(cr_buf_str(&mermaid), agt_agent_graph.nodes[i].name));
        assert_non_null(strstr(cr_buf_str(&dot), agt_agent_graph.nodes[i].name));
    }
}

static void drawing_in_the_documentation_is_the_graph(void **state)
{
    CR_AUTO_FCLOSE FILE *file = fopen(CRISOL_SOURCE_DIR "/docs/agent.md", "re");
    CR_AUTO_BUF struct cr_buf page = {0};
    CR_AUTO_BUF struct cr_buf drawing = {0};
    char piece[4096];

    (void)state;
    cr_buf_init(&page, 1 << 20);
    cr_buf_init(&drawing, 65536);
    assert_non_null(file);
    for (size_t size = fread(piece, 1, sizeof(piece), file); size > 0;
         size = fread(piece, 1, sizeof(piece), file))
        assert_int_equal(cr_buf_add(&page, piece, size), 0);
    assert_int_equal(agt_graph_draw_mermaid(&agt_agent_graph, NULL, &drawing), 0);

    if (!strstr(cr_buf_str(&page), cr_buf_str(&drawing)))
        fail_msg("docs/agent.md should have:\n%s", cr_buf_str(&drawing));
}

static void drawing_marks_the_path_of_a_run(void **state)
{
    CR_AUTO_BUF struct cr_buf mermaid = {0};
    CR_AUTO_BUF struct cr_buf dot = {0};
    uint32_t crossings[64] = {0};
    struct agt_graph_path path = {.crossings = crossings};
    int repair = agt_graph_find_edge(&agt_agent_graph, AGT_NODE_EVALUATOR, AGT_OUTCOME_REPAIR);

    (void)state;
    assert_true(repair >= 0);
    crossings[repair] = 2;
    path.visits[AGT_NODE_GENERATOR] = 3;
    cr_buf_init(&mermaid, 65536);
    cr_buf_init(&dot, 65536);
    assert_int_equal(agt_graph_draw_mermaid(&agt_agent_graph, &path, &mermaid), 0);
    assert_int_equal(agt_graph_draw_dot(&agt_agent_graph, &path, &dot), 0);

    assert_non_null(strstr(cr_buf_str(&mermaid), "generator[\"generator ×3\"]:::visited\n"));
    assert_non_null(strstr(cr_buf_str(&mermaid), "evaluator ==>|repair ×2| generator\n"));
    assert_non_null(strstr(cr_buf_str(&dot), "[label=\"repair ×2\", penwidth=3];\n"));
}

static void drawing_into_a_full_buffer_fails(void **state)
{
    (void)state;
    for (size_t cap = 0; cap < 400; cap += 7) {
        CR_AUTO_BUF struct cr_buf buf = {0};

        cr_buf_init(&buf, cap);
        assert_int_equal(agt_graph_draw_mermaid(&agt_agent_graph, NULL, &buf), -ENOSPC);
        cr_buf_clear(&buf);
        assert_int_equal(agt_graph_draw_dot(&agt_agent_graph, NULL, &buf), -ENOSPC);
    }
}

static void unknown_numbers_have_no_name_and_no_edge(void **state)
{
    (void)state;
    assert_string_equal(agt_node_name(AGT_NODE_COUNT), "?");
    assert_string_equal(agt_outcome_name(AGT_OUTCOME_COUNT), "?");
    assert_int_equal(agt_graph_find_edge(&agt_agent_graph, AGT_NODE_SUCCESS, AGT_OUTCOME_DONE),
                     -ENOENT);
    assert_true(agt_graph_is_end(&agt_agent_graph, AGT_NODE_SUCCESS));
    assert_false(agt_graph_is_end(&agt_agent_graph, AGT_NODE_PLANNER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agent_graph_is_sound),
        cmocka_unit_test(nodes_are_numbered_as_in_the_contract),
        cmocka_unit_test(every_missing_edge_is_found),
        cmocka_unit_test(every_fault_of_a_graph_is_named),
        cmocka_unit_test(drawing_has_every_node_and_edge),
        cmocka_unit_test(drawing_in_the_documentation_is_the_graph),
        cmocka_unit_test(drawing_marks_the_path_of_a_run),
        cmocka_unit_test(drawing_into_a_full_buffer_fails),
        cmocka_unit_test(unknown_numbers_have_no_name_and_no_edge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
