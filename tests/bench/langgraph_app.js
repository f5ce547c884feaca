// SPDX-License-Identifier: Apache-2.0
// The agent's graph (plan, generate, run in a sandbox, evaluate with canary and stub runs, repair) written
// on LangGraph, to compare the price of a run with. It makes the calls that our orchestrator makes: the model
// over its streaming REST interface, the sandbox over gRPC. All runs go on at one time; prints one JSON object.
// Usage: langgraph_app.js TOOLS MODEL_URL SANDBOX RUNS TASK
"use strict";

const { createRequire } = require("module");
const path = require("path");

const [tools, modelUrl, sandboxAddress, runCount, task] = process.argv.slice(2);
const load = createRequire(path.join(tools, "langgraph", "package.json"));
const { Annotation, END, START, StateGraph } = load("@langchain/langgraph");
const grpc = load("@grpc/grpc-js");
const proto = load("@grpc/proto-loader").loadSync("crisol/sandbox/v1/sandbox.proto", {
    includeDirs: [path.join(__dirname, "..", "..", "proto")], keepCase: true, enums: String, oneofs: true, defaults: true,
});
const Sandbox = grpc.loadPackageDefinition(proto).crisol.sandbox.v1.SandboxService;
const sandbox = new Sandbox(sandboxAddress, grpc.credentials.createInsecure());

const CANARY = 'def test_crisol_canary():\n    assert False, "canary"\n';

// One streamed answer of the model, put together.
async function ask(system, text) {
    const answer = await fetch(`${modelUrl}/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-goog-api-key": "none" },
        body: JSON.stringify({
            systemInstruction: { parts: [{ text: system }] }, contents: [{ role: "user", parts: [{ text }] }],
        }),
    });
    if (!answer.ok)
        throw new Error(`the model answered ${answer.status}: ${await answer.text()}`);
    let rest = "", whole = "", reason = "";
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + piece).split("\n");
        rest = lines.pop();
        for (const line of lines.filter((each) => each.startsWith("data: "))) {
            const candidate = JSON.parse(line.slice(6)).candidates?.[0];
            whole += (candidate?.content?.parts ?? []).filter((part) => !part.thought).map((part) => part.text).join("");
            reason = candidate?.finishReason ?? reason;
        }
    }
    if (reason !== "STOP")
        throw new Error(`the model ended with ${reason}`);
    return whole;
}

function filesOf(answer) {
    const files = {};
    for (const [, , name, text] of answer.matchAll(/^(`{3,})python path=(\S+)\n([\s\S]*?)^\1$/gm))
        files[name] = text;
    if (!files["solution.py"] || !files["test_solution.py"])
        throw new Error("the answer does not have both files");
    return files;
}

function execute(solution, tests) {
    return new Promise((resolve, reject) => {
        const call = sandbox.Execute({
            runtime: "pytest",
            files: [{ path: "solution.py", text: solution }, { path: "test_solution.py", text: tests }],
        }, { deadline: Date.now() + 60000 });
        let result = null, output = "";
        call.on("data", (event) => {
            if (event.output)
                output += event.output.data.toString("utf8");
            result = event.result ?? result;
        });
        call.on("error", reject);
        call.on("end", () => (result ? resolve({ ...result, output }) : reject(new Error("no result"))));
    });
}

// Every function does nothing but this.
function stub(solution, statement) {
    return solution.replace(/^([ \t]*)def .*:\n/gm, (header, indent) => `${header}${indent}    if "stub" in globals() or __name__ == "solution": ${statement}\n`);
}

function passed(result) {
    const report = result.test_report;
    return result.exit_code === 0 && report?.is_present && report.tests > 0 && report.failed + report.errors + report.skipped === 0;
}

const State = Annotation.Root({
    task: Annotation(), plan: Annotation(), files: Annotation(), execution: Annotation(), status: Annotation(), feedback: Annotation(),
    iteration: Annotation({ reducer: (before, more) => before + more, default: () => 0 }),
    errors: Annotation({ reducer: (before, more) => before.concat(more), default: () => [] }),
});

async function plan(state) {
    return { plan: await ask("You are the planner. Plan tests first.", `TASK:\n${state.task}`) };
}

async function generate(state) {
    const repair = state.feedback ? `\nATTEMPT ${state.iteration} FAILED:\n${state.feedback}` : "";
    const answer = await ask("You are the generator. Answer with two fenced files.",
        `TASK:\n${state.task}\nPLAN:\n${state.plan}${repair}`);
    return { files: filesOf(answer), iteration: 1 };
}

async function run(state) {
    return { execution: await execute(state.files["solution.py"], state.files["test_solution.py"]) };
}

async function evaluate(state) {
    const solution = state.files["solution.py"], tests = state.files["test_solution.py"];
    if (!passed(state.execution))
        return { status: "REPAIR", feedback: state.execution.output, errors: [`attempt ${state.iteration} failed`] };
    const [canary, raising, returning] = await Promise.all([
        execute(solution, `${tests}\n\n${CANARY}`),
        execute(stub(solution, "raise NotImplementedError"), tests),
        execute(stub(solution, "return None"), tests),
    ]);
    const isShown = canary.test_report.failed === 1 && !passed(raising) && !passed(returning);
    return isShown ? { status: "SUCCESS" } : { status: "REPAIR", feedback: "the tests prove nothing", errors: ["vacuous tests"] };
}

const graph = new StateGraph(State)
    .addNode("planner", plan).addNode("generator", generate).addNode("sandbox", run).addNode("evaluator", evaluate)
    .addEdge(START, "planner").addEdge("planner", "generator").addEdge("generator", "sandbox").addEdge("sandbox", "evaluator")
    .addConditionalEdges("evaluator", (state) => (state.status === "REPAIR" && state.iteration < 3 ? "generator" : END), ["generator", END])
    .compile();

async function one(number) {
    let events = 0, status = "";
    for await (const update of await graph.stream({ task: `${task} (request ${number})` }, { streamMode: "updates" })) {
        events++;
        status = update.evaluator?.status ?? status;
    }
    return { events, status };
}

async function main() {
    await execute("x = 1\n", "def test_x():\n    pass\n"); // connected
    const before = process.cpuUsage();
    const began = Date.now();
    const results = await Promise.all(Array.from({ length: Number(runCount) }, (_, number) => one(number)));
    const used = process.cpuUsage(before);
    console.log(JSON.stringify({
        bench: "langgraph", runs: results.length, succeeded: results.filter((result) => result.status === "SUCCESS").length,
        events: results.reduce((sum, result) => sum + result.events, 0), cpu_ms: (used.user + used.system) / 1000,
        total_s: (Date.now() - began) / 1000, rss_mib: process.memoryUsage().rss / 1048576,
    }));
    sandbox.close();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
