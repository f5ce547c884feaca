/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "orchestrator/graph/graph.h"

static uint32_t visits(const struct agt_graph_path *path, enum agt_node node)
{
    return path ? path->visits[node] : 0;
}

static uint32_t crossings(const struct agt_graph_path *path, size_t edge)
{
    return path && path->crossings ? path->crossings[edge] : 0;
}

/* Name, and how often it was visited when it was. */
static int draw_mermaid_node(const struct agt_graph_node *row, uint32_t count, struct cr_buf *buf)
{
    const char *open = row->outcomes ? "[\"" : "([\"";
    const char *close = row->outcomes ? "\"]" : "\"])";

    if (count)
        return cr_buf_printf(buf, "    %s%s%s ×%u%s:::visited\n", row->name, open, row->name, count,
                             close);
    return cr_buf_printf(buf, "    %s%s%s%s\n", row->name, open, row->name, close);
}

int agt_graph_draw_mermaid(const struct agt_graph *graph, const struct agt_graph_path *path,
                           struct cr_buf *buf)
{
    int r = cr_buf_printf(buf, "flowchart TD\n    start((start)) --> %s\n", graph->nodes[0].name);

    for (size_t i = 0; r == 0 && i < graph->node_count; i++)
        r = draw_mermaid_node(&graph->nodes[i], visits(path, graph->nodes[i].node), buf);
    for (size_t i = 0; r == 0 && i < graph->edge_count; i++) {
        const struct agt_graph_edge *edge = &graph->edges[i];
        uint32_t count = crossings(path, i);

        /* A thick arrow is an edge that was taken. */
        r = cr_buf_printf(buf, "    %s %s|%s", agt_node_name(edge->from), count ? "==>" : "-->",
                          agt_outcome_name(edge->outcome));
        if (r == 0 && count)
            r = cr_buf_printf(buf, " ×%u", count);
        if (r == 0)
            r = cr_buf_printf(buf, "| %s\n", agt_node_name(edge->to));
    }
    if (r == 0 && path)
        r = cr_buf_add_str(buf, "    classDef visited fill:#cfe8cf,stroke:#2a7a2a\n");
    return r;
}

static int draw_dot_node(const struct agt_graph_node *row, uint32_t count, struct cr_buf *buf)
{
    const char *shape = row->outcomes ? "box" : "oval";

    if (count)
        return cr_buf_printf(buf,
                             "    %s [shape=%s, label=\"%s ×%u\", tooltip=\"%s\", style=filled, "
                             "fillcolor=\"#cfe8cf\"];\n",
                             row->name, shape, row->name, count, row->description);
    return cr_buf_printf(buf, "    %s [shape=%s, tooltip=\"%s\"];\n", row->name, shape,
                         row->description);
}

int agt_graph_draw_dot(const struct agt_graph *graph, const struct agt_graph_path *path,
                       struct cr_buf *buf)
{
    int r = cr_buf_printf(buf, "digraph agent {\n    start [shape=circle];\n    start -> %s;\n",
                          graph->nodes[0].name);

    for (size_t i = 0; r == 0 && i < graph->node_count; i++)
        r = draw_dot_node(&graph->nodes[i], visits(path, graph->nodes[i].node), buf);
    for (size_t i = 0; r == 0 && i < graph->edge_count; i++) {
        const struct agt_graph_edge *edge = &graph->edges[i];
        uint32_t count = crossings(path, i);

        r = cr_buf_printf(buf, "    %s -> %s [label=\"%s", agt_node_name(edge->from),
                          agt_node_name(edge->to), agt_outcome_name(edge->outcome));
        if (r == 0 && count)
            r = cr_buf_printf(buf, " ×%u\", penwidth=3", count);
        else if (r == 0)
            r = cr_buf_add_char(buf, '"');
        if (r == 0)
            r = cr_buf_add_str(buf, "];\n");
    }
    return r == 0 ? cr_buf_add_str(buf, "}\n") : r;
}
