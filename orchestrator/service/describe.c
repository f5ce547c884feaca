/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/service/describe.h"

#include "common/buf.h"
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/graph.h"
#include "rpc/server.h"
#include "rpc/status.h"

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

static void answer(struct rpc_call *call, const struct cr_buf *mermaid, const struct cr_buf *dot)
{
    Crisol__Agent__V1__DescribeGraphResponse response =
        CRISOL__AGENT__V1__DESCRIBE_GRAPH_RESPONSE__INIT;
    Crisol__Agent__V1__GraphNode nodes[NODES_MAX];
    Crisol__Agent__V1__GraphNode *node_list[NODES_MAX];
    Crisol__Agent__V1__GraphEdge edges[EDGES_MAX];
    Crisol__Agent__V1__GraphEdge *edge_list[EDGES_MAX];

    list_nodes(nodes, node_list);
    list_edges(edges, edge_list);
    response.mermaid = constant(cr_buf_str(mermaid));
    response.dot = constant(cr_buf_str(dot));
    response.nodes = node_list;
    response.n_nodes = agt_agent_graph.node_count;
    response.edges = edge_list;
    response.n_edges = agt_agent_graph.edge_count;
    rpc_call_finish(call, NULL, &response.base);
}

void agt_describe_graph(struct rpc_call *call, const ProtobufCMessage *message)
{
    const Crisol__Agent__V1__DescribeGraphRequest *request = (const void *)message;
    struct rpc_status status = RPC_STATUS_INIT;
    CR_AUTO_BUF struct cr_buf mermaid = {0};
    CR_AUTO_BUF struct cr_buf dot = {0};

    if (request->run_id[0] != '\0') {
        rpc_status_set(&status, RPC_UNIMPLEMENTED,
                       "run_id: the path of a run is not implemented; leave it empty");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    cr_buf_init(&mermaid, DRAWING_MAX);
    cr_buf_init(&dot, DRAWING_MAX);
    if (agt_graph_draw_mermaid(&agt_agent_graph, NULL, &mermaid) < 0 ||
        agt_graph_draw_dot(&agt_agent_graph, NULL, &dot) < 0) {
        rpc_status_set(&status, RPC_RESOURCE_EXHAUSTED, "out of memory; try again later");
        rpc_call_finish(call, &status, NULL);
        return;
    }
    answer(call, &mermaid, &dot);
}
