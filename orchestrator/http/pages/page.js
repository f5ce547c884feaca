// SPDX-License-Identifier: Apache-2.0
// Draws /openapi.json, and sends requests to the server that this page came from. What comes back
// is shown as text only: it holds code and program output, which nobody has to trust.
"use strict";

const VERBS = ["get", "post", "delete"];
// More of an answer is kept out of the page, which would become slow; a program reads it all.
const SHOWN_MAX = 200000;
let api = null;

function make(name, className, ...children) {
    const element = document.createElement(name);
    if (className)
        element.className = className;
    element.append(...children);
    return element;
}

function operations() {
    const found = [];
    for (const [path, verbs] of Object.entries(api.paths)) {
        for (const verb of VERBS) {
            if (verbs[verb])
                found.push({ path, verb, ...verbs[verb] });
        }
    }
    return found;
}

// ---- schemas ----

function resolve(schema) {
    let out = schema;
    // A description beside a reference is the one of the member.
    if (out.allOf && out.allOf.length === 1)
        out = { ...out.allOf[0], ...out, allOf: undefined };
    if (out.anyOf)
        out = { ...resolve(out.anyOf[0]), ...out, anyOf: undefined, nullable: true };
    if (out.$ref) {
        const name = out.$ref.split("/").pop();
        out = { ...api.components.schemas[name], ...out, $ref: undefined, title: name };
        return out.allOf || out.anyOf ? resolve(out) : out;
    }
    return out;
}

function kindOf(schema) {
    let name = schema.title || [].concat(schema.type || "any").join(" or ");
    if (schema.type === "array")
        name = "list of " + kindOf(resolve(schema.items));
    else if (schema.type === "object" && typeof schema.additionalProperties === "object")
        name = "map of " + kindOf(resolve(schema.additionalProperties));
    if (schema.contentEncoding)
        name += " (" + schema.contentEncoding + ")";
    return schema.nullable ? name + " or null" : name;
}

function inner(schema) {
    return schema.type === "array" ? resolve(schema.items) : schema;
}

function drawMember(name, raw, isNeeded) {
    const schema = resolve(raw);
    const item = inner(schema);
    const head = make("span", "", make("code", "", name), make("span", "kind", kindOf(schema)));
    if (isNeeded)
        head.append(make("span", "needed", "needed"));
    const out = make("div", "member");
    if (item.properties && Object.keys(item.properties).length) {
        const details = make("details", "", make("summary", "", head));
        // Drawn when it is opened: types are deep.
        details.addEventListener("toggle", () => details.append(drawSchema(item)), { once: true });
        out.append(details);
    } else {
        out.append(head);
    }
    if (raw.description || schema.description)
        out.append(make("p", "", raw.description || schema.description));
    if (item.enum)
        out.append(make("p", "", item.enum.join(", ")));
    return out;
}

function drawSchema(schema, needed = schema.required || []) {
    const out = make("div", "schema");
    for (const [name, member] of Object.entries(schema.properties || {}))
        out.append(drawMember(name, member, needed.includes(name)));
    return out;
}

// ---- sending ----

function fillIn(operation, inputs) {
    const query = new URLSearchParams();
    const headers = {};
    let path = operation.path;
    for (const [parameter, input] of inputs) {
        const value = input.value.trim();
        if (parameter.in === "path")
            path = path.replace("{" + parameter.name + "}", encodeURIComponent(value));
        else if (value && parameter.in === "query")
            query.set(parameter.name, value);
        else if (value)
            headers[parameter.name] = value;
    }
    const token = document.getElementById("token").value;
    if (token)
        headers.Authorization = "Bearer " + token;
    return { url: query.size || query.toString() ? path + "?" + query : path, headers };
}

function pretty(text, type) {
    if (!type.includes("json"))
        return text;
    try {
        return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
        return text;
    }
}

function show(pre, text) {
    const isCut = text.length > SHOWN_MAX;
    pre.textContent = isCut ? text.slice(0, SHOWN_MAX) + "\n… cut here by this page" : text;
}

// Events as they come.
async function showStream(response, pre) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done)
            return;
        text += decoder.decode(value, { stream: true });
        show(pre, text);
        pre.scrollTop = pre.scrollHeight;
    }
}

function showHead(line, response, startedAt) {
    const isGood = response.ok;
    line.replaceChildren(
        make("span", "status " + (isGood ? "good" : "bad"), response.status + " " + response.statusText),
        make("span", "quiet", Math.round(performance.now() - startedAt) + " ms"),
        make("span", "quiet", response.headers.get("content-type") || ""));
    if (response.headers.get("retry-after"))
        line.append(make("span", "quiet", "Retry-After: " + response.headers.get("retry-after") + " s"));
}

async function send(operation, form, abort) {
    const { url, headers } = fillIn(operation, form.inputs);
    const line = make("div", "line", make("span", "quiet", operation.verb.toUpperCase() + " " + url + " …"));
    const pre = make("pre");
    const startedAt = performance.now();
    form.place.replaceChildren(make("div", "answer", line, pre));
    if (form.events && form.events.checked)
        headers.Accept = "text/event-stream";
    if (form.body)
        headers["Content-Type"] = "application/json";
    try {
        const response = await fetch(url, {
            method: operation.verb.toUpperCase(),
            headers,
            body: form.body ? form.body.value : undefined,
            signal: abort.signal,
        });
        const type = response.headers.get("content-type") || "";
        showHead(line, response, startedAt);
        if (type.startsWith("text/event-stream"))
            await showStream(response, pre);
        else if (type === "application/x-protobuf")
            show(pre, (await response.arrayBuffer()).byteLength + " bytes; save them with curl -O and give them to crisol replay");
        else
            show(pre, pretty(await response.text(), type));
        showHead(line, response, startedAt);
    } catch (error) {
        line.replaceChildren(make("span", "status bad", abort.signal.aborted ? "stopped" : "no answer"));
        if (!abort.signal.aborted)
            show(pre, String(error));
    }
}

// ---- one operation ----

function drawParameters(operation, inside) {
    const inputs = [];
    for (const parameter of operation.parameters || []) {
        const input = make("input");
        input.name = parameter.name;
        const field = make("label", "field", make("code", "", parameter.name), input,
            make("small", "", parameter.description));
        if (parameter.required)
            field.firstChild.append(make("span", "needed", "needed"));
        inputs.push([parameter, input]);
        inside.append(field);
    }
    return inputs;
}

function drawBody(operation, inside) {
    const content = operation.requestBody && operation.requestBody.content["application/json"];
    if (!content)
        return null;
    const text = make("textarea");
    const schema = resolve(content.schema);
    text.value = JSON.stringify(content.example || {}, null, 2);
    text.rows = text.value.split("\n").length + 1;
    text.spellcheck = false;
    text.name = "body";
    text.setAttribute("aria-label", "Body as JSON");
    inside.append(make("h3", "", "Body"), text);
    if (Object.keys(schema.properties || {}).length)
        inside.append(make("details", "", make("summary", "quiet", "all members"),
            drawSchema(schema, content.schema.required)));
    return text;
}

function drawAnswers(operation, inside) {
    inside.append(make("h3", "", "Answers"));
    for (const [status, response] of Object.entries(operation.responses)) {
        for (const [media, { schema }] of Object.entries(response.content)) {
            const shape = resolve(schema || {});
            const head = make("summary", "", make("code", "", status + " "), media, " ",
                make("span", "quiet", response.description));
            inside.append(make("details", "", head, shape.properties ? drawSchema(shape) : ""));
        }
    }
}

function drawOperation(operation) {
    const inside = make("div", "inside");
    const place = make("div");
    const button = make("button", "", "Send");
    const stop = make("button", "plain", "Stop");
    const actions = make("div", "actions", button, stop);
    const form = { place, inputs: drawParameters(operation, inside), body: drawBody(operation, inside) };
    const media = Object.keys((operation.responses["200"] || {}).content || {});
    let abort = null;
    if (media.includes("text/event-stream") && media.length > 1) {
        form.events = make("input");
        form.events.type = "checkbox";
        actions.append(make("label", "choice", form.events, "as a stream of events"));
    }
    stop.disabled = true;
    stop.addEventListener("click", () => abort.abort());
    button.addEventListener("click", async () => {
        abort = new AbortController();
        button.disabled = true;
        stop.disabled = false;
        await send(operation, form, abort);
        button.disabled = false;
        stop.disabled = true;
    });
    inside.append(actions, place);
    drawAnswers(operation, inside);
    const out = make("details", "operation", make("summary", "",
        make("span", "verb " + operation.verb, operation.verb.toUpperCase()),
        make("span", "path", operation.path), make("span", "summary", operation.summary)), inside);
    out.id = operation.operationId;
    return out;
}

function openNamed() {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches("details.operation")) {
        target.open = true;
        target.scrollIntoView({ block: "start" });
    }
}

function draw() {
    const nav = document.getElementById("nav");
    const main = document.getElementById("main");
    document.getElementById("version").textContent = api.info.version;
    document.getElementById("about").textContent = api.info.description;
    main.replaceChildren();
    for (const tag of api.tags) {
        nav.append(make("h2", "", tag.name));
        main.append(make("h2", "", tag.name), make("p", "", tag.description));
        for (const operation of operations().filter((each) => each.tags[0] === tag.name)) {
            const link = make("a", "", make("span", "verb " + operation.verb, operation.verb.toUpperCase()),
                operation.path.replace("/api/v1", ""));
            link.href = "#" + operation.operationId;
            nav.append(link);
            main.append(drawOperation(operation));
        }
    }
    addEventListener("hashchange", openNamed);
    openNamed();
    document.body.dataset.state = "ready";
}

async function main() {
    const response = await fetch("/openapi.json");
    api = await response.json();
    draw();
}

main().catch((error) => {
    document.getElementById("main").textContent = "This page cannot be drawn: " + error;
});
