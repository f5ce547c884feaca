/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_meter;
struct agt_runs;
struct agt_sandbox;
struct cr_err;
struct cr_metrics;
struct rpc_channel;
struct rpc_loop;
struct rpc_tokens;
struct tls_context;

/*
 * The REST and SSE interface (docs: GET / names the routes). libmicrohttpd in
 * external-epoll mode on one loop thread of ours, so that nothing in a request
 * needs a lock: callbacks of the engine and of gRPC post mail to that thread.
 *
 * HTTP/1.1, plain or behind TLS. libmicrohttpd lets a few malformed
 * requests through that cannot be seen from outside it (NUL in a header value,
 * bare LF), so a public deployment needs a proxy in front.
 */
struct agt_http;

struct agt_http_options {
    const char *address;           /* "host:port"; port 0 takes a free one. Copied */
    struct agt_runs *runs;         /* borrowed; outlives the server */
    struct agt_sandbox *sandbox;   /* borrowed; outlives the server */
    const struct agt_meter *meter; /* for /metrics; NULL: none. Borrowed; outlives the server */
    /* Adds further families to /metrics, on the loop thread; NULL: none. */
    void (*write_metrics)(void *user, struct cr_metrics *metrics);
    void *write_user;
    /* The serialized descriptor set, whose comments /openapi.json has. NULL: none. Borrowed. */
    const uint8_t *descriptor_set;
    size_t descriptor_set_size;
    /* For ListRuntimes and GetCapabilities. Borrowed; outlive the server. Both NULL: sandboxd
     * counts as unreachable for health and runtimes. */
    struct rpc_loop *loop;
    struct rpc_channel *channel;
    bool is_model_configured;    /* a model key is there: "gemini_configured" */
    bool has_landlock;           /* it confines this process: "landlock" in health */
    const char *version;         /* NULL: CR_VERSION. Static storage */
    const char *allowed_hosts;   /* further Host names, comma separated, without port; NULL: only
                                    loopback names and the address itself. "*": any. Copied */
    const char *allowed_origins; /* pages of these may read answers (CORS): "https://host:port",
                                    comma separated; "*": any; NULL: none. Copied */
    struct rpc_tokens *tokens;   /* one is asked of everything but GET /, health and the probes;
                                    NULL: none. Borrowed; outlives the server */
    struct tls_context *tls;     /* NULL: plain text. Borrowed; outlives the server */
    uint32_t max_connections;    /* more get 503; 0: 1,024 */
    uint32_t max_body_memory;    /* bytes of request bodies held at one time; 0: 64 MiB */
    uint32_t header_timeout_ms;  /* from connect, or the end of the last answer, to a complete
                                    header; 0: 15,000 */
    uint32_t body_timeout_ms;    /* from header to the end of the body; 0: 30,000 */
    uint32_t write_timeout_ms;   /* a reader that takes nothing for so long is closed; 0: 30,000 */
    uint32_t heartbeat_ms;       /* silence on an SSE stream before a comment; 0: 15,000 */
    uint32_t store_timeout_ms;   /* an answer waits for the store so long; 0: 30,000 */
};

/* Opens the socket and serves nothing yet. Returns 0 or a negative errno. */
int agt_http_new(const struct agt_http_options *options, struct agt_http **ret_http,
                 struct cr_err *err);

/* Starts the loop thread. */
int agt_http_start(struct agt_http *http, struct cr_err *err);

/* The TCP port that it listens on. */
uint16_t agt_http_port(const struct agt_http *http);

/* Turns of its thread (common/turns.h). Any thread. */
uint64_t agt_http_turns(const struct agt_http *http);

/* Connections open now. Any thread. */
uint32_t agt_http_connections(const struct agt_http *http);

/* /readyz says 503; everything else goes on. Any thread. */
void agt_http_withdraw(struct agt_http *http);

/*
 * Takes no further connection; /readyz and new requests on open connections
 * are answered 503. Requests in flight go on. Any thread; safe to repeat.
 */
void agt_http_quiesce(struct agt_http *http);

/*
 * Quiesces, waits up to `grace_ms` for the requests in flight, then cancels
 * them (an SSE stream ends with `event: shutdown`) and joins the thread. Call
 * while engine, sandbox and rpc loop still live. True when nothing was
 * cancelled. Safe to repeat, and without a start.
 */
bool agt_http_stop(struct agt_http *http, int grace_ms);

/* Stops without grace when still running. NULL is allowed; always returns NULL. */
struct agt_http *agt_http_free(struct agt_http *http);
