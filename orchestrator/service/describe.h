/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

struct rpc_call;

/* The handler of DescribeGraph: draws the graph that every run goes through. */
void agt_describe_graph(struct rpc_call *call, const ProtobufCMessage *message);
