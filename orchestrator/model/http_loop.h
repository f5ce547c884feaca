/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/http_request.h"

/* Inside of the HTTP client: the loop that drives libcurl. Only http.c and http_loop.c include
 * this. */

/* Kept for later requests; with more under way each has one of its own (http_request.h). */
#define AGT_HTTP_IDLE_CONNECTIONS 256

struct agt_http_list {
    struct agt_http_request *first;
    struct agt_http_request *last;
    uint32_t count;
};

struct agt_http_client {
    pthread_mutex_t lock; /* guards is_stopping and live */
    bool is_stopping;
    uint32_t live; /* started and not ended */
    uint32_t max_live;
    struct cr_mailbox *mailbox;
    struct agt_http_mail stop_mail;
    pthread_t thread;
    atomic_uint_fast64_t turns; /* any thread */

    /* From here on the loop thread's. */
    char *ca_file;
    char *proxy;
    CURLM *multi;
    int epoll_fd;
    int timer_fd;
    uint32_t max_in_flight;
    uint32_t max_connecting;
    uint32_t connecting;
    struct agt_http_list waiting;
    struct agt_http_list running;
    bool must_stop;
    int64_t curl_due_ns;  /* libcurl wants to be called; INT64_MAX: not */
    int64_t check_due_ns; /* some request's due moment; INT64_MAX: none */
    int64_t checked_ns;
};

/* The body of the thread; `user` is the client. Returns when it was told to stop and nothing is
 * live. */
void *agt_http_loop_run(void *user);

/* What libcurl calls to have sockets and its timer watched. */
int agt_http_loop_watch(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user);
int agt_http_loop_note_timer(CURLM *multi, long timeout_ms, void *user);
