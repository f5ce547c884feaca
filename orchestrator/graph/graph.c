/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/graph.h"

#include "common/auto.h"
#include "common/err.h"

#include <string.h>

#define BIT(name) AGT_OUTCOME_BIT(AGT_OUTCOME_##name)

/* A model that thinks takes minutes; a client that retries takes several of them. */
#define MODEL_POLICY                                                                               \
    {                                                                                              \
        .timeout_ms = 900000, .retries = 2                                                         \
    }
/* The limit of a run, and the wait for a slot; of the evaluator, a few of them side by side. */
#define SANDBOX_POLICY                                                                             \
    {                                                                                              \
        .timeout_ms = 1200000, .retries = 4                                                        \
    }

static const struct agt_graph_node agent_nodes[] = {
    {AGT_NODE_PLANNER, "planner", "writes the test-driven plan",
     BIT(DONE) | BIT(ASK_AGAIN) | BIT(FAILED) | BIT(CANCELLED), MODEL_POLICY},
    {AGT_NODE_GENERATOR, "generator", "writes solution and tests",
     BIT(DONE) | BIT(ASK_AGAIN) | BIT(REPEATED) | BIT(REPLAN) | BIT(STALLED) | BIT(FAILED) |
         BIT(CANCELLED),
     MODEL_POLICY},
    {AGT_NODE_SANDBOX, "sandbox", "runs the tests in a fresh sandbox",
     BIT(DONE) | BIT(TRY_AGAIN) | BIT(FAILED) | BIT(CANCELLED), SANDBOX_POLICY},
    {AGT_NODE_EVALUATOR, "evaluator", "judges the result and chooses the next edge",
     BIT(PASSED) | BIT(REPAIR) | BIT(EXHAUSTED) | BIT(REPLAN) | BIT(STALLED) | BIT(FAILED) |
         BIT(CANCELLED),
     SANDBOX_POLICY},
    {AGT_NODE_SUCCESS, "success", "end: passed", 0, {0, 0}},
    {AGT_NODE_FAILED, "failed", "end: did not pass", 0, {0, 0}},
};

/* The one table that says how a run goes. */
static const struct agt_graph_edge agent_edges[] = {
    {AGT_NODE_PLANNER, AGT_OUTCOME_DONE, AGT_NODE_GENERATOR},
    {AGT_NODE_PLANNER, AGT_OUTCOME_ASK_AGAIN, AGT_NODE_PLANNER},
    {AGT_NODE_PLANNER, AGT_OUTCOME_FAILED, AGT_NODE_FAILED},
    {AGT_NODE_PLANNER, AGT_OUTCOME_CANCELLED, AGT_NODE_FAILED},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_DONE, AGT_NODE_SANDBOX},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_ASK_AGAIN, AGT_NODE_GENERATOR},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_REPEATED, AGT_NODE_GENERATOR},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_REPLAN, AGT_NODE_PLANNER},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_STALLED, AGT_NODE_FAILED},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_FAILED, AGT_NODE_FAILED},
    {AGT_NODE_GENERATOR, AGT_OUTCOME_CANCELLED, AGT_NODE_FAILED},
    {AGT_NODE_SANDBOX, AGT_OUTCOME_DONE, AGT_NODE_EVALUATOR},
    {AGT_NODE_SANDBOX, AGT_OUTCOME_TRY_AGAIN, AGT_NODE_SANDBOX},
    {AGT_NODE_SANDBOX, AGT_OUTCOME_FAILED, AGT_NODE_FAILED},
    {AGT_NODE_SANDBOX, AGT_OUTCOME_CANCELLED, AGT_NODE_FAILED},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_PASSED, AGT_NODE_SUCCESS},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_REPAIR, AGT_NODE_GENERATOR},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_EXHAUSTED, AGT_NODE_FAILED},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_REPLAN, AGT_NODE_PLANNER},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_STALLED, AGT_NODE_FAILED},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_FAILED, AGT_NODE_FAILED},
    {AGT_NODE_EVALUATOR, AGT_OUTCOME_CANCELLED, AGT_NODE_FAILED},
};

const struct agt_graph agt_agent_graph = {
    .nodes = agent_nodes,
    .node_count = CR_ARRAY_SIZE(agent_nodes),
    .edges = agent_edges,
    .edge_count = CR_ARRAY_SIZE(agent_edges),
};

static const char *const outcome_names[] = {
    [AGT_OUTCOME_NONE] = "none",           [AGT_OUTCOME_DONE] = "done",
    [AGT_OUTCOME_ASK_AGAIN] = "ask_again", [AGT_OUTCOME_TRY_AGAIN] = "try_again",
    [AGT_OUTCOME_PASSED] = "passed",       [AGT_OUTCOME_REPAIR] = "repair",
    [AGT_OUTCOME_EXHAUSTED] = "exhausted", [AGT_OUTCOME_REPEATED] = "repeated",
    [AGT_OUTCOME_REPLAN] = "replan",       [AGT_OUTCOME_STALLED] = "stalled",
    [AGT_OUTCOME_FAILED] = "failed",       [AGT_OUTCOME_CANCELLED] = "cancelled",
};

_Static_assert(CR_ARRAY_SIZE(outcome_names) == AGT_OUTCOME_COUNT, "one name per outcome");
_Static_assert(CR_ARRAY_SIZE(agent_nodes) == AGT_NODE_COUNT - 1, "one row per node");

static const struct agt_graph_node *find_node(const struct agt_graph *graph, enum agt_node node)
{
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].node == node)
            return &graph->nodes[i];
    }
    return NULL;
}

const char *agt_node_name(enum agt_node node)
{
    const struct agt_graph_node *row = find_node(&agt_agent_graph, node);

    return row ? row->name : "?";
}

const char *agt_outcome_name(enum agt_outcome outcome)
{
    return (unsigned)outcome < AGT_OUTCOME_COUNT ? outcome_names[outcome] : "?";
}

const struct agt_node_policy *agt_node_policy(enum agt_node node)
{
    static const struct agt_node_policy nothing = {0, 0};
    const struct agt_graph_node *row = find_node(&agt_agent_graph, node);

    return row ? &row->policy : &nothing;
}

static int check_nodes(const struct agt_graph *graph, struct cr_err *err)
{
    uint32_t seen = 0;

    if (graph->node_count == 0)
        return cr_err_set(err, EINVAL, "the graph has no node");
    for (size_t i = 0; i < graph->node_count; i++) {
        unsigned node = graph->nodes[i].node;

        if (node == AGT_NODE_NONE || node >= AGT_NODE_COUNT)
            return cr_err_set(err, EINVAL, "row %zu is no node: %u", i, node);
        if (seen & (1U << node))
            return cr_err_set(err, EINVAL, "node '%s' is listed twice", graph->nodes[i].name);
        if (graph->nodes[i].outcomes >> AGT_OUTCOME_COUNT || graph->nodes[i].outcomes & 1U)
            return cr_err_set(err, EINVAL, "node '%s' has an unknown outcome",
                              graph->nodes[i].name);
        seen |= 1U << node;
    }
    return 0;
}

static int check_edges(const struct agt_graph *graph, struct cr_err *err)
{
    uint32_t covered[AGT_NODE_COUNT] = {0};

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct agt_graph_edge *edge = &graph->edges[i];
        const struct agt_graph_node *from = find_node(graph, edge->from);

        if (!from || !find_node(graph, edge->to))
            return cr_err_set(err, EINVAL, "edge %zu has an end that is no node", i);
        if (!(from->outcomes & AGT_OUTCOME_BIT(edge->outcome)))
            return cr_err_set(err, EINVAL, "node '%s' never ends with '%s'", from->name,
                              agt_outcome_name(edge->outcome));
        if (covered[edge->from] & AGT_OUTCOME_BIT(edge->outcome))
            return cr_err_set(err, EINVAL, "outcome '%s' of node '%s' has two edges",
                              agt_outcome_name(edge->outcome), from->name);
        covered[edge->from] |= AGT_OUTCOME_BIT(edge->outcome);
    }
    for (size_t i = 0; i < graph->node_count; i++) {
        uint32_t missing = graph->nodes[i].outcomes & ~covered[graph->nodes[i].node];

        if (missing)
            return cr_err_set(err, EINVAL, "outcome '%s' of node '%s' has no edge",
                              agt_outcome_name((enum agt_outcome)__builtin_ctz(missing)),
                              graph->nodes[i].name);
    }
    return 0;
}

/* Grows `set` (bits of nodes) along the edges, forwards or backwards, until nothing is added. */
static uint32_t spread(const struct agt_graph *graph, uint32_t set, bool is_backward)
{
    uint32_t before;

    do {
        before = set;
        for (size_t i = 0; i < graph->edge_count; i++) {
            uint32_t from = 1U << graph->edges[i].from;
            uint32_t to = 1U << graph->edges[i].to;

            if (is_backward && set & to)
                set |= from;
            if (!is_backward && set & from)
                set |= to;
        }
    } while (set != before);
    return set;
}

int agt_graph_check(const struct agt_graph *graph, struct cr_err *err)
{
    uint32_t ends = 0;
    uint32_t reached;
    uint32_t ending;
    int r;

    r = check_nodes(graph, err);
    if (r == 0)
        r = check_edges(graph, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].outcomes == 0)
            ends |= 1U << graph->nodes[i].node;
    }
    reached = spread(graph, 1U << graph->nodes[0].node, false);
    ending = spread(graph, ends, true);
    for (size_t i = 0; i < graph->node_count; i++) {
        if (!(reached & (1U << graph->nodes[i].node)))
            return cr_err_set(err, EINVAL, "node '%s' cannot be reached", graph->nodes[i].name);
        if (!(ending & (1U << graph->nodes[i].node)))
            return cr_err_set(err, EINVAL, "node '%s' reaches no end", graph->nodes[i].name);
        if ((graph->nodes[i].outcomes == 0) != (graph->nodes[i].policy.timeout_ms == 0))
            return cr_err_set(err, EINVAL, "node '%s' needs a time-out, or is an end and has one",
                              graph->nodes[i].name);
    }
    return 0;
}

int agt_graph_find_edge(const struct agt_graph *graph, enum agt_node from, enum agt_outcome outcome)
{
    for (size_t i = 0; i < graph->edge_count; i++) {
        if (graph->edges[i].from == from && graph->edges[i].outcome == outcome)
            return (int)i;
    }
    return -ENOENT;
}

bool agt_graph_is_end(const struct agt_graph *graph, enum agt_node node)
{
    const struct agt_graph_node *row = find_node(graph, node);

    return !row || row->outcomes == 0;
}
