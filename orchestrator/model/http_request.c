/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/http_request.h"

#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>

static const size_t MAX_HEAD = 64U << 10;
static const uint64_t PROGRESS_BYTES = 1024; /* this much is progress, whatever it says */

static void enter(struct agt_http_request *request, enum agt_http_phase phase, uint32_t timeout_ms)
{
    request->phase = phase;
    request->phase_deadline_ns =
        timeout_ms == 0 ? INT64_MAX : cr_clock_mono_ns() + timeout_ms * CR_NS_PER_MS;
    agt_http_note_deadline(request->http, request->phase_deadline_ns);
}

/* The connection stands: this is the border between "surely not charged" and "in doubt". */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcurl's */
static int on_connected(void *user, char *peer, char *local, int peer_port, int local_port)
{
    struct agt_http_request *request = user;

    (void)peer;
    (void)local;
    (void)peer_port;
    (void)local_port;
    if (request->phase == AGT_HTTP_CONNECTING) {
        enter(request, AGT_HTTP_SENT, request->spec.first_byte_timeout_ms);
        agt_http_note_sent(request->http);
    }
    return CURL_PREREQFUNC_OK;
}

static size_t on_send(char *buffer, size_t size, size_t count, void *user)
{
    struct agt_http_request *request = user;
    size_t room = size * count;
    size_t left = request->spec.body_size - request->body_sent;
    size_t take = left < room ? left : room;

    if (take > 0)
        memcpy(buffer, (const char *)request->spec.body + request->body_sent, take);
    request->body_sent += take;
    return take;
}

/*
 * libcurl rewinds a body to send the request again when a reused connection
 * turns out dead. The first copy may have been paid for, so it must not.
 */
static int on_rewind(void *user, curl_off_t offset, int origin)
{
    (void)user;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

static bool has_name(const char *line, size_t size, const char *name)
{
    size_t length = strlen(name);

    return size > length && line[length] == ':' && strncasecmp(line, name, length) == 0;
}

/* It stands in messages, which are UTF-8: what is not ASCII says nothing. */
static bool is_printable(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return true;
}

/* The value of a header line without blanks around it; left "" when it does not fit. */
static void keep_value(const char *line, size_t size, const char *name, char *target, size_t room)
{
    size_t start = strlen(name) + 1;

    while (start < size && (line[start] == ' ' || line[start] == '\t'))
        start++;
    while (size > start && strchr(" \t\r\n", line[size - 1]))
        size--;
    if (size - start >= room || !is_printable(line + start, size - start))
        return;
    memcpy(target, line + start, size - start);
    target[size - start] = 0;
}

static void read_header(struct agt_http_request *request, const char *line, size_t size)
{
    struct agt_http_head *head = &request->head;
    long status = 0;

    if (size > 5 && memcmp(line, "HTTP/", 5) == 0) {
        /* Also after an interim answer (1xx): the last one counts. */
        *head = (struct agt_http_head){0};
        (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
        head->status = (int)status;
        return;
    }
    if (has_name(line, size, "content-type"))
        keep_value(line, size, "content-type", head->content_type, sizeof(head->content_type));
    else if (has_name(line, size, "retry-after"))
        keep_value(line, size, "retry-after", head->retry_after, sizeof(head->retry_after));
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct agt_http_request *request = user;

    request->head_size += size * count;
    if (request->head_size > MAX_HEAD) {
        request->reason = AGT_HTTP_TOO_BIG;
        return 0;
    }
    read_header(request, line, size * count);
    return size * count;
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    struct agt_http_request *request = user;
    enum agt_http_take take;

    size *= count;
    request->received += size;
    request->idle_bytes += size;
    if (request->received > request->spec.max_body) {
        request->reason = AGT_HTTP_TOO_BIG;
        return 0;
    }
    take = request->spec.on_data(request->spec.user, &request->head, data, size);
    if (take == AGT_HTTP_STOP) {
        request->reason = AGT_HTTP_ABORTED;
        return 0;
    }
    if (request->phase != AGT_HTTP_BODY || take == AGT_HTTP_PROGRESS ||
        request->idle_bytes >= PROGRESS_BYTES) {
        request->idle_bytes = 0;
        enter(request, AGT_HTTP_BODY, request->spec.idle_timeout_ms);
    }
    return size;
}

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int add_header(struct agt_http_request *request, const char *line)
{
    struct curl_slist *longer = curl_slist_append(request->headers, line);

    if (!longer)
        return -ENOMEM;
    request->headers = longer;
    return 0;
}

static int add_headers(struct agt_http_request *request)
{
    /* No wait for "100 Continue" before the body. */
    int r = add_header(request, "Expect:");

    for (const char *const *line = request->spec.headers; r == 0 && line && *line; line++)
        r = add_header(request, *line);
    return r;
}

/* What may be spoken to whom: no redirect, no plain HTTP but to loopback, no foreign settings. */
static CURLcode set_policy(CURL *easy, const char *url, const char *ca_file, const char *proxy)
{
    bool is_plain = strncasecmp(url, "http://", 7) == 0;
    CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, url);

    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, is_plain ? "http" : "https");
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_PROXY, proxy && !is_plain ? proxy : "");
    if (code == CURLE_OK && ca_file)
        code = curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
    if (code != CURLE_OK)
        return code;
    /* With a folder of certificates libcurl 7.88 reads the whole bundle anew per connection. */
    (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                           (long)(is_plain ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS));
    (void)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, is_plain ? 0L : 1L);
    return CURLE_OK;
}

static void set_callbacks(CURL *easy, struct agt_http_request *request)
{
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->detail);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, request);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)request->spec.connect_timeout_ms);
    /* A cancel during a look-up must not wait for it. */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 300L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (!request->spec.body)
        return;
    (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->spec.body_size);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_send);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, request);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_rewind);
}

/*
 * libcurl's own 16 and 64 KiB would be most of what a request takes that waits for its answer, and
 * all of it is wiped at the end (wiping.h).
 */
static void set_sizes(CURL *easy)
{
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 2048L);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L); /* the least that it takes */
}

/*
 * Even so libcurl keeps the connections of a host in one list, and looks for one at each end: with
 * ten thousand of them that was a sixth of all that the orchestrator did. The scope of an address
 * tells hosts apart, too, and means nothing for loopback, where alone plain HTTP goes.
 */
#define LISTS 1024U

static long list_of(const struct agt_http_request *request)
{
    return 1 + (long)(((uintptr_t)request >> 8) % LISTS);
}

/*
 * For each new request libcurl 7.88 walks over all connections to its host, and at each end again:
 * with thousands of them a connection of its own costs less. Over TLS, HTTP/2 keeps them few. On
 * such a connection nothing is ever sent twice, so that libcurl may have the body without a buffer
 * for it.
 */
static void go_alone(CURL *easy, const struct agt_http_request *request)
{
    (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_ADDRESS_SCOPE, list_of(request));
    if (request->spec.body)
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, (const char *)request->spec.body);
}

int agt_http_request_prepare(struct agt_http_request *request, const char *ca_file,
                             const char *proxy, bool is_crowded)
{
    request->easy = curl_easy_init();
    if (!request->easy || add_headers(request) < 0 ||
        set_policy(request->easy, request->spec.url, ca_file, proxy) != CURLE_OK) {
        agt_http_request_release(request);
        return -ENOMEM;
    }
    set_callbacks(request->easy, request);
    set_sizes(request->easy);
    if (is_crowded && strncasecmp(request->spec.url, "http://", 7) == 0)
        go_alone(request->easy, request);
    request->phase = AGT_HTTP_CONNECTING;
    return 0;
}

void agt_http_request_release(struct agt_http_request *request)
{
    curl_easy_cleanup(request->easy);
    curl_slist_free_all(request->headers);
    request->easy = NULL;
    request->headers = NULL;
}

static enum agt_http_end classify_unsent(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return AGT_HTTP_DNS;
    case CURLE_OPERATION_TIMEDOUT:
        return AGT_HTTP_TIMEOUT_CONNECT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return AGT_HTTP_TLS;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_FAILED_INIT:
        return AGT_HTTP_CONFIG;
    default:
        return AGT_HTTP_NEVER_SENT;
    }
}

enum agt_http_end agt_http_request_classify(const struct agt_http_request *request, CURLcode code)
{
    if (request->reason != AGT_HTTP_DONE)
        return request->reason;
    if (code == CURLE_OK)
        return AGT_HTTP_DONE;
    if (request->phase <= AGT_HTTP_CONNECTING)
        return classify_unsent(code);
    return request->head_size == 0 ? AGT_HTTP_IN_DOUBT : AGT_HTTP_CUT;
}

int64_t agt_http_request_due_ns(const struct agt_http_request *request)
{
    int64_t due_ns = request->spec.deadline_ns;

    if (request->phase == AGT_HTTP_WAITING && request->spec.start_ns < due_ns &&
        request->spec.start_ns > cr_clock_mono_ns())
        return request->spec.start_ns;
    if (request->phase > AGT_HTTP_CONNECTING && request->phase_deadline_ns < due_ns)
        due_ns = request->phase_deadline_ns;
    return due_ns;
}
