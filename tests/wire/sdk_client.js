// SPDX-License-Identifier: Apache-2.0
// Drives a server with Google's own client of Gemini and prints what it made of the answers, one
// JSON document. usage: node sdk_client.js ask|golden BASE_URL API_VERSION
"use strict";

const [what, baseUrl, apiVersion] = process.argv.slice(2);

const MODEL = "gemini-2.5-flash";
const ASK = {
  model: MODEL,
  contents: "TASK: an LRU cache",
  config: { systemInstruction: "You are the planner" },
};
const FILES = {
  type: "object",
  properties: { solution_py: { type: "string" }, test_solution_py: { type: "string" } },
  required: ["test_solution_py", "solution_py"],
  propertyOrdering: ["test_solution_py", "solution_py"],
};

const CODE = { type: "object", properties: { code: { type: "string" } }, required: ["code"] };
const TURNS = [
  { role: "user", parts: [{ text: "prompt" }] },
  { role: "model", parts: [{ functionCall: { name: "execute_python", args: { code: "print(1)" } },
                             thoughtSignature: "c2lnbmF0dXJl" }] },
  { role: "user", parts: [{ functionResponse: { name: "execute_python",
                                                response: { output: "1\n" } } }] },
];

async function errorOf(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return { status: error.status, message: error.message };
  }
}

// Everything that a client may ask, and how failures look to it.
async function ask(ai) {
  const unary = await ai.models.generateContent(ASK);
  const chunks = [];
  let last;
  for await (const chunk of await ai.models.generateContentStream(ASK)) {
    chunks.push(chunk.text || "");
    last = chunk;
  }
  const count = await ai.models.countTokens({ model: MODEL, contents: ASK.contents });
  const entry = await ai.models.get({ model: MODEL });
  const names = [];
  for await (const model of await ai.models.list()) names.push(model.name);
  return {
    unary: { text: unary.text, usage: unary.usageMetadata, served: unary.modelVersion,
             finish: unary.candidates[0].finishReason },
    stream: { text: chunks.join(""), chunks: chunks.length, usage: last.usageMetadata,
              finish: last.candidates[0].finishReason },
    tokens: count.totalTokens,
    entry,
    names,
    errors: {
      gone: await errorOf(ai.models.generateContent({ ...ASK, model: "palm-2" })),
      offScript: await errorOf(ai.models.generateContent({ ...ASK, contents: "a compiler" })),
      stream: await errorOf(ai.models.generateContentStream({ ...ASK, model: "palm-2" })),
      entry: await errorOf(ai.models.get({ model: "palm-2" })),
    },
  };
}

// Requests whose bodies ours have to have, in the order of the golden file.
async function golden(ai) {
  const config = { systemInstruction: "system", maxOutputTokens: 512 };
  const requests = [
    {},
    config,
    { ...config, responseMimeType: "application/json", responseJsonSchema: FILES },
    { ...config,
      tools: [{ functionDeclarations: [
        { name: "submit_files", description: "Hands in both files.", parametersJsonSchema: FILES }] }],
      toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["submit_files"] } } },
    { thinkingConfig: { thinkingBudget: 128 }, temperature: 0.5, seed: 7 },
    { tools: [{ functionDeclarations: [
        { name: "execute_python", description: "Runs Python.", parametersJsonSchema: CODE }] }],
      toolConfig: { functionCallingConfig: { mode: "AUTO" } } },
  ];
  for (const [i, config] of requests.entries()) {
    const contents = i + 1 < requests.length ? "prompt" : TURNS;
    for await (const chunk of await ai.models.generateContentStream(
      { model: MODEL, contents, config })) void chunk;
  }
  return { requests: requests.length };
}

async function main() {
  const { GoogleGenAI } = require("@google/genai");
  const ai = new GoogleGenAI({ apiKey: process.env.WIRE_KEY, httpOptions: { baseUrl, apiVersion } });
  const result = what === "golden" ? await golden(ai) : await ask(ai);
  process.stdout.write(JSON.stringify(result) + "\n");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
