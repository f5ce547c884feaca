/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/model.h"
#include "tests/integration/orchestrator/model_caller.h"
#include "tests/integration/orchestrator/scripted_peer.h"

/* The real client of Gemini before a server that says, byte by byte, what a test wants it to say.
 */

#define KEY "AIzaCanary-0123456789"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

#define CHUNK(text)                                                                                \
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"" text "\"}]}}]}\r\n\r\n"

#define LAST(text)                                                                                 \
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"" text                            \
    "\"}]},\"finishReason\":\"STOP\"}],\"modelVersion\":\"m-1\"}\r\n\r\n"

#define FAILURE(status, headers, body)                                                             \
    "HTTP/1.1 " status "\r\nContent-Type: application/json\r\nConnection: close\r\n" headers       \
    "\r\n" body

#define GOOD HEAD CHUNK("one ") LAST("two")

struct model_peer {
    int fds;
    struct peer peer;
    struct agt_model *client;
    struct model_caller caller;
};

/* The peer plays `lines`. */
void model_peer_start(struct model_peer *fixture, const struct peer_line *lines, size_t count);

/* Asserts that the call ended once, that every fd is back, and that the key went out in its header
 * and came back nowhere. */
void model_peer_stop(struct model_peer *fixture);

/* Starts, and makes one call to its end. */
void model_peer_play(struct model_peer *fixture, const struct peer_line *lines, size_t count,
                     uint32_t timeout_ms);

#define MODEL_PEER_PLAY(fixture, timeout_ms, ...)                                                  \
    model_peer_play(fixture, (const struct peer_line[]){__VA_ARGS__},                              \
                    sizeof((const struct peer_line[]){__VA_ARGS__}) / sizeof(struct peer_line),    \
                    timeout_ms)
