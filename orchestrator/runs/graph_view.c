/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/graph/graph.h"
#include "orchestrator/runs/states.h"
#include "orchestrator/runs/view.h"

#include <errno.h>
#include <string.h>

#define NODES_MAX AGT_NODE_COUNT
#define EDGES_MAX (AGT_NODE_COUNT * AGT_OUTCOME_COUNT)
#define DRAWING_MAX 16384U

/* The generated types have char * where the graph has constants; nobody writes to them. */
static char *constant(const char *text)
{
    char *same;

    memcpy(&same, &text, sizeof(same));
    return same;
}

static void list_nodes(Crisol__Agent__V1__GraphNode *nodes, Crisol__Agent__V1__GraphNode **list)
{
    static const Crisol__Agent__V1__GraphNode blank = CRISOL__AGENT__V1__GRAPH_NODE__INIT;

    for (size_t i = 0; i < agt_agent_graph.node_count; i++) {
        const struct agt_graph_node *row = &agt_agent_graph.nodes[i];

        nodes[i] = blank;
        nodes[i].node = (Crisol__Agent__V1__Node)row->node;
        nodes[i].name = constant(row->name);
        nodes[i].description = constant(row->description);
        nodes[i].is_end = row->outcomes == 0;
        nodes[i].timeout_ms = row->policy.timeout_ms;
        nodes[i].retries = row->policy.retries;
        list[i] = &nodes[i];
    }
}

static void list_edges(Crisol__Agent__V1__GraphEdge *edges, Crisol__Agent__V1__GraphEdge **list)
{
    static const Crisol__Agent__V1__GraphEdge blank = CRISOL__AGENT__V1__GRAPH_EDGE__INIT;

    for (size_t i = 0; i < agt_agent_graph.edge_count; i++) {
        const struct agt_graph_edge *row = &agt_agent_graph.edges[i];

        edges[i] = blank;
        edges[i].from = (Crisol__Agent__V1__Node)row->from;
        edges[i].to = (Crisol__Agent__V1__Node)row->to;
        edges[i].outcome = constant(agt_outcome_name(row->outcome));
        list[i] = &edges[i];
    }
}

struct path {
    struct agt_graph_path path;
    uint32_t crossings[EDGES_MAX];
};

static void on_event(void *user, Crisol__Agent__V1__RunEvent *event)
{
    struct path *path = user;
    const Crisol__Agent__V1__EdgeTaken *taken = event->edge_taken;

    if (event->event_case == CRISOL__AGENT__V1__RUN_EVENT__EVENT_NODE_STARTED &&
        (size_t)event->node < AGT_NODE_COUNT)
        path->path.visits[event->node]++;
    if (event->event_case != CRISOL__AGENT__V1__RUN_EVENT__EVENT_EDGE_TAKEN)
        return;
    for (size_t i = 0; i < agt_agent_graph.edge_count; i++) {
        const struct agt_graph_edge *edge = &agt_agent_graph.edges[i];

        if ((int)edge->from == (int)taken->from &&
            strcmp(agt_outcome_name(edge->outcome), taken->outcome) == 0)
            path->crossings[i]++;
    }
}

int agt_view_graph(struct agt_run *run, agt_view_use_graph use, void *user)
{
    Crisol__Agent__V1__DescribeGraphResponse response =
        CRISOL__AGENT__V1__DESCRIBE_GRAPH_RESPONSE__INIT;
    Crisol__Agent__V1__GraphNode nodes[NODES_MAX];
    Crisol__Agent__V1__GraphNode *node_list[NODES_MAX];
    Crisol__Agent__V1__GraphEdge edges[EDGES_MAX];
    Crisol__Agent__V1__GraphEdge *edge_list[EDGES_MAX];
    CR_AUTO_BUF struct cr_buf mermaid = {0};
    CR_AUTO_BUF struct cr_buf dot = {0};
    struct path path = {.path.crossings = NULL};
    const struct agt_graph_path *marked = run ? &path.path : NULL;

    path.path.crossings = path.crossings;
    cr_buf_init(&mermaid, DRAWING_MAX);
    cr_buf_init(&dot, DRAWING_MAX);
    if ((run && agt_states_each(run, on_event, &path) < 0) ||
        agt_graph_draw_mermaid(&agt_agent_graph, marked, &mermaid) < 0 ||
        agt_graph_draw_dot(&agt_agent_graph, marked, &dot) < 0)
        return -ENOMEM;
    list_nodes(nodes, node_list);
    list_edges(edges, edge_list);
    response.mermaid = constant(cr_buf_str(&mermaid));
    response.dot = constant(cr_buf_str(&dot));
    response.nodes = node_list;
    response.n_nodes = agt_agent_graph.node_count;
    response.edges = edge_list;
    response.n_edges = agt_agent_graph.edge_count;
    use(user, &response);
    return 0;
}
