/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * Many HTTP requests on one thread: libcurl's multi interface driven by a loop
 * of our own. Made for long streamed answers to paid requests:
 *  - nothing is ever sent twice behind the caller's back, no redirect is
 *    followed (the key header would go along), no proxy is taken from the
 *    environment, certificates are always checked;
 *  - bytes, waits and the number of requests are bounded, and the result says
 *    which bound was met;
 *  - what libcurl frees is wiped, so that the key does not stay in memory.
 */
struct agt_http_client;

/* One request; reference-counted. */
struct agt_http_request;

enum agt_http_end {
    AGT_HTTP_DONE,       /* a whole response, whatever its status */
    AGT_HTTP_NEVER_SENT, /* no connection: surely not charged */
    AGT_HTTP_IN_DOUBT,   /* sent, no byte of an answer came: may have been charged */
    AGT_HTTP_CUT,        /* broke off inside the response */
    AGT_HTTP_TIMEOUT_CONNECT,
    AGT_HTTP_TIMEOUT_FIRST_BYTE, /* of the body, or the head did not end */
    AGT_HTTP_TIMEOUT_IDLE,       /* no progress inside the body */
    AGT_HTTP_TIMEOUT_TOTAL,      /* the deadline */
    AGT_HTTP_TOO_BIG,            /* head or body */
    AGT_HTTP_ABORTED,            /* on_data said so */
    AGT_HTTP_CANCELLED,
    AGT_HTTP_TLS, /* the certificate is not trusted */
    AGT_HTTP_DNS, /* the name is not known */
    AGT_HTTP_CONFIG,
    AGT_HTTP_END_COUNT,
};

struct agt_http_client_options {
    const char *ca_file;     /* NULL: the system's bundle */
    const char *proxy;       /* "http://host:port"; NULL: none, whatever the environment says */
    uint32_t max_live;       /* requests not ended; 0: 20,000 */
    uint32_t max_in_flight;  /* of these, handed to libcurl; 0: 4,096, less when fds are short */
    uint32_t max_connecting; /* of these, without a connection yet; 0: 50 */
    uint32_t max_host_connections; /* HTTP/2 shares them; 0: as many as needed */
};

struct agt_http_head {
    int status;             /* 0: none came */
    char content_type[128]; /* "" when absent or longer */
    char retry_after[64];
};

struct agt_http_result {
    enum agt_http_end end;
    struct agt_http_head head;
    uint64_t received;  /* bytes of body */
    bool is_started;    /* false: it ended before its turn came */
    bool is_reused;     /* on a connection that had been used before */
    const char *detail; /* libcurl's words, for the log only: may name host paths */
};

enum agt_http_take {
    AGT_HTTP_STOP = -1,   /* no more, please: ends ABORTED */
    AGT_HTTP_TAKEN = 0,   /* taken, but nothing new is complete: the idle clock goes on */
    AGT_HTTP_PROGRESS = 1 /* the idle clock starts again */
};

/* Everything is borrowed until on_end has returned. */
struct agt_http_spec {
    const char *url;
    const char *const *headers; /* "Name: value", NULL at the end; secrets are welcome here only */
    const void *body;           /* NULL: GET, else POST */
    size_t body_size;
    int64_t start_ns;    /* CLOCK_MONOTONIC: not before; 0: now */
    int64_t deadline_ns; /* CLOCK_MONOTONIC, waiting included */
    uint32_t connect_timeout_ms;
    uint32_t first_byte_timeout_ms;
    uint32_t idle_timeout_ms;
    uint64_t max_body;
    /* Both on the loop thread. on_data is called inside libcurl and must only look and keep. */
    enum agt_http_take (*on_data)(void *user, const struct agt_http_head *head, const void *data,
                                  size_t size);
    /* Exactly once per started request, last; never inside agt_http_client_start() or _cancel(). */
    void (*on_end)(void *user, const struct agt_http_result *result);
    void *user;
};

/*
 * 0 when `url` may be used: https, or http to a loopback address; no user
 * name in it. Else -EINVAL with the reason. *ret_host gets "host" or
 * "host:port" on the heap and may be NULL.
 */
int agt_http_check_url(const char *url, char **ret_host, struct cr_err *err);

/* Starts the loop thread. */
int agt_http_client_new(const struct agt_http_client_options *options,
                        struct agt_http_client **ret_http, struct cr_err *err);

/* Cancels what is running, waits for every on_end. NULL is allowed; returns NULL. Not from the
 * loop thread. */
struct agt_http_client *agt_http_client_free(struct agt_http_client *http);

/* Turns of its thread (common/turns.h). Any thread. */
uint64_t agt_http_client_turns(const struct agt_http_client *http);

/*
 * Any thread. On success *ret_request (may be NULL) is a reference.
 * Returns 0, -EAGAIN at max_live, -ESHUTDOWN while closing, -ENOMEM; then on_end is not called.
 */
int agt_http_client_start(struct agt_http_client *http, const struct agt_http_spec *spec,
                          struct agt_http_request **ret_request, struct cr_err *err);

/* Any thread. Safe to repeat and after the end. */
void agt_http_cancel(struct agt_http_request *request);

/* NULL is allowed; returns NULL. */
struct agt_http_request *agt_http_unref(struct agt_http_request *request);
