// SPDX-License-Identifier: Apache-2.0
// Calls a service of ours with grpc-js as a busy program would, over one channel, and fails on the
// first call that does not end as it should.
// Usage: grpc_js_client.js FOLDER_OF_NODE_MODULES TARGET CANCELS
"use strict";

const path = require("path");
const grpc = require(path.join(process.argv[2], "node_modules", "@grpc", "grpc-js"));

const HEALTH = "/grpc.health.v1.Health/";
const EMPTY = Buffer.alloc(0);
const same = (bytes) => bytes;
const client = new grpc.Client(process.argv[3], grpc.credentials.createInsecure());
const cancels = Number(process.argv[4]);

function check() {
    return new Promise((resolve, reject) => {
        client.makeUnaryRequest(HEALTH + "Check", same, same, EMPTY, { deadline: Date.now() + 30000 },
            (error) => (error ? reject(error) : resolve()));
    });
}

// A stream that has begun to answer, given up then.
function watchAndCancel() {
    return new Promise((resolve, reject) => {
        const call = client.makeServerStreamRequest(HEALTH + "Watch", same, same, EMPTY);
        call.on("data", () => call.cancel());
        call.on("error", (error) => (error.code === grpc.status.CANCELLED ? resolve() : reject(error)));
        call.on("end", () => {});
    });
}

// A call that is given up before it can be answered.
function callAndCancel() {
    return new Promise((resolve, reject) => {
        const call = client.makeUnaryRequest(HEALTH + "Check", same, same, EMPTY,
            (error) => (!error || error.code === grpc.status.CANCELLED ? resolve() : reject(error)));
        setImmediate(() => call.cancel());
    });
}

function together(count, start) {
    return Promise.all(Array.from({ length: count }, start));
}

async function main() {
    for (let i = 0; i < 200; i++)
        await check();
    await together(200, check);
    for (let done = 0; done < cancels; done += 200)
        await together(200, watchAndCancel);
    await together(200, callAndCancel);
    await together(200, check);
    client.close();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
