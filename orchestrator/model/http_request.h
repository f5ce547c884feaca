/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/mailbox.h"
#include "orchestrator/model/http.h"

#include <pthread.h>
#include <stdatomic.h>

#include <curl/curl.h>

/* Inside of the HTTP loop: one request and its libcurl handle. Only http.c and http_request.c
 * include this. */

enum agt_http_phase {
    AGT_HTTP_WAITING,    /* not handed to libcurl yet */
    AGT_HTTP_CONNECTING, /* up to the connection */
    AGT_HTTP_SENT,       /* request on its way, head and first byte awaited */
    AGT_HTTP_BODY,
    AGT_HTTP_ENDED,
};

enum agt_http_mail_kind {
    AGT_HTTP_MAIL_START,
    AGT_HTTP_MAIL_CANCEL,
    AGT_HTTP_MAIL_STOP,
};

struct agt_http_mail {
    struct cr_mail mail; /* first */
    enum agt_http_mail_kind kind;
    struct agt_http_request *request;
};

struct agt_http_request {
    atomic_uint refs;
    pthread_mutex_t lock;         /* guards `http` and is_cancelled */
    struct agt_http_client *http; /* borrowed; NULL after the end */
    bool is_cancelled;
    struct agt_http_mail start_mail;
    struct agt_http_mail cancel_mail;

    /* From here on the loop thread's. */
    struct agt_http_spec spec;
    struct agt_http_request *previous; /* in the list of its phase: waiting, or handed over */
    struct agt_http_request *next;
    enum agt_http_phase phase;
    int64_t phase_deadline_ns; /* of the first byte or of progress; INT64_MAX: none */
    CURL *easy;
    struct curl_slist *headers;
    struct agt_http_head head;
    size_t head_size;
    size_t body_sent;
    uint64_t received;
    uint64_t idle_bytes;      /* since the last progress */
    enum agt_http_end reason; /* why a callback stopped libcurl; DONE: it did not */
    char detail[CURL_ERROR_SIZE];
};

/* The loop's answers to what a transfer does; both on the loop thread. */
void agt_http_note_sent(struct agt_http_client *http);
void agt_http_note_deadline(struct agt_http_client *http, int64_t deadline_ns);

/* Makes the libcurl handle; `is_crowded`: so many are under way that it shares no connection.
 * Returns 0 or -ENOMEM. */
int agt_http_request_prepare(struct agt_http_request *request, const char *ca_file,
                             const char *proxy, bool is_crowded);

/* Frees the handle; it is in no multi any more. */
void agt_http_request_release(struct agt_http_request *request);

/* What libcurl's result means for this request. */
enum agt_http_end agt_http_request_classify(const struct agt_http_request *request, CURLcode code);

/* The next moment at which something must be done about it. */
int64_t agt_http_request_due_ns(const struct agt_http_request *request);
