/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct cr_err;

/* Nodes of the agent graph, numbered as crisol.agent.v1.Node. */
enum agt_node {
    AGT_NODE_NONE = 0,
    AGT_NODE_PLANNER,
    AGT_NODE_GENERATOR,
    AGT_NODE_SANDBOX,
    AGT_NODE_EVALUATOR,
    AGT_NODE_SUCCESS,
    AGT_NODE_FAILED,
    AGT_NODE_COUNT,
};

/* How a node ended; chooses the edge. */
enum agt_outcome {
    AGT_OUTCOME_NONE = 0,
    AGT_OUTCOME_DONE,      /* the node did its work */
    AGT_OUTCOME_ASK_AGAIN, /* the model's answer could not be used */
    AGT_OUTCOME_TRY_AGAIN, /* the sandbox failed, not the program */
    AGT_OUTCOME_PASSED,    /* the attempt passed */
    AGT_OUTCOME_REPAIR,    /* it did not; another attempt is allowed */
    AGT_OUTCOME_EXHAUSTED, /* it did not; none is left */
    AGT_OUTCOME_REPEATED,  /* the answer is that of an earlier attempt */
    AGT_OUTCOME_REPLAN,    /* attempts repeat themselves: another plan */
    AGT_OUTCOME_STALLED,   /* they still do: no more */
    AGT_OUTCOME_FAILED,    /* the run cannot go on */
    AGT_OUTCOME_CANCELLED, /* the caller wants no more */
    AGT_OUTCOME_COUNT,
};

#define AGT_OUTCOME_BIT(outcome) (1U << (outcome))

/* What a node may take. */
struct agt_node_policy {
    uint32_t timeout_ms; /* of one visit; the run ends when it takes longer. 0: it takes no time */
    uint32_t retries; /* visits in a row because its work could not be used, or its help failed */
};

struct agt_graph_node {
    enum agt_node node;
    const char *name;
    const char *description;
    uint32_t outcomes; /* AGT_OUTCOME_BIT of each way the node can end; 0: nothing comes after it */
    struct agt_node_policy policy;
};

struct agt_graph_edge {
    enum agt_node from;
    enum agt_outcome outcome;
    enum agt_node to;
};

/* A graph as data. Constant; the tables are borrowed. The first node is where a run begins. */
struct agt_graph {
    const struct agt_graph_node *nodes;
    size_t node_count;
    const struct agt_graph_edge *edges;
    size_t edge_count;
};

/* What a run has gone through, for drawing: visits by node, crossings by edge of the graph. */
struct agt_graph_path {
    uint32_t visits[AGT_NODE_COUNT];
    const uint32_t *crossings; /* edge_count items, or NULL */
};

/* The graph that every run goes through. */
extern const struct agt_graph agt_agent_graph;

/* Static. Of a number outside the enum: nothing is allowed. */
const struct agt_node_policy *agt_node_policy(enum agt_node node);

/* "planner"; "?" for a number outside the enum. */
const char *agt_node_name(enum agt_node node);
const char *agt_outcome_name(enum agt_outcome outcome);

/*
 * Shows that no run can stop in silence: every node is known and listed once,
 * every outcome of every node has exactly one edge and no other edge exists,
 * every node can be reached from the first, and from every node an end can be
 * reached. Returns 0, or -EINVAL with what is wrong.
 */
int agt_graph_check(const struct agt_graph *graph, struct cr_err *err);

/* Index of the edge that `outcome` of `from` takes, or -ENOENT. */
int agt_graph_find_edge(const struct agt_graph *graph, enum agt_node from,
                        enum agt_outcome outcome);

/* True when nothing comes after the node. */
bool agt_graph_is_end(const struct agt_graph *graph, enum agt_node node);

/* Append a drawing; with `path` (may be NULL) what was visited is marked. Return as cr_buf_add().
 */
int agt_graph_draw_mermaid(const struct agt_graph *graph, const struct agt_graph_path *path,
                           struct cr_buf *buf);
int agt_graph_draw_dot(const struct agt_graph *graph, const struct agt_graph_path *path,
                       struct cr_buf *buf);
