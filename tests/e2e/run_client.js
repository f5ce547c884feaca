// SPDX-License-Identifier: Apache-2.0
// Starts a run with grpc-js and the .proto files as they are, leaves its events after the third, comes
// back for the rest, and prints what it saw as JSON. With a RUN it only follows that one, and prints
// the name of every event as it comes.
// Usage: run_client.js FOLDER_OF_NODE_MODULES FOLDER_OF_PROTOS TARGET TASK [RUN]
"use strict";

const path = require("path");
const [modules, protos, target, task, run] = process.argv.slice(2);
const grpc = require(path.join(modules, "node_modules", "@grpc", "grpc-js"));
const loader = require(path.join(modules, "node_modules", "@grpc", "proto-loader"));

const definition = loader.loadSync("crisol/agent/v1/agent.proto", {
    includeDirs: [protos], keepCase: true, longs: String, enums: String, oneofs: true,
});
const { AgentService } = grpc.loadPackageDefinition(definition).crisol.agent.v1;
const client = new AgentService(target, grpc.credentials.createInsecure());
const DELTAS = ["model_delta", "output_delta", "gap", "heartbeat"];
const deadline = () => ({ deadline: Date.now() + 60000 });

function ask(method, request) {
    return new Promise((resolve, reject) => {
        client[method](request, deadline(), (error, answer) => (error ? reject(error) : resolve(answer)));
    });
}

// The state events from `fromSeq` on, at most `count`; then the call is given up.
function watch(runId, fromSeq, count) {
    return new Promise((resolve, reject) => {
        const events = [];
        const call = client.WatchRun({ run_id: runId, from_seq: fromSeq }, deadline());
        call.on("data", ({ event }) => {
            if (DELTAS.includes(event.event) || events.length === count)
                return;
            events.push([event.seq, event.event]);
            if (events.length === count)
                call.cancel();
        });
        call.on("error", (error) => (error.code === grpc.status.CANCELLED ? resolve(events) : reject(error)));
        call.on("end", () => resolve(events));
    });
}

function follow(runId) {
    return new Promise((resolve, reject) => {
        const call = client.WatchRun({ run_id: runId }, deadline());
        call.on("data", ({ event }) => console.log(`${event.seq} ${event.event}`));
        call.on("error", reject);
        call.on("end", resolve);
    });
}

async function main() {
    if (run) {
        await follow(run);
        client.close();
        return;
    }
    const { run_id: runId } = await ask("SubmitRun", { request: { task } });
    const first = await watch(runId, 0, 3);
    const { result } = await ask("GetRun", { run_id: runId });
    const rest = await watch(runId, first[first.length - 1][0] + 1, Infinity);
    console.log(JSON.stringify({ run_id: runId, meanwhile: result.status, events: [...first, ...rest] }));
    client.close();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
