/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/engine_transfer.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/patience.h"
#include "sandboxd/docker/address.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_MS 5000
#define URL_MAX 2048

/* ---- making it ---- */

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct sbx_engine_transfer *transfer = user;

    return cr_buf_add(&transfer->answer, data, size * count) < 0 ? 0 : size * count;
}

/* The deadline of the whole call holds while the body is waited for. */
static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    const struct sbx_engine_transfer *transfer = user;
    const int64_t left_ns = transfer->deadline_ns - cr_clock_mono_ns();
    struct pollfd body = {.fd = transfer->body_fd, .events = POLLIN};
    ssize_t n;

    if (left_ns <= 0 || poll(&body, 1, (int)(left_ns / CR_NS_PER_MS) + 1) != 1)
        return CURL_READFUNC_ABORT;
    n = read(transfer->body_fd, data, size * count);
    return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

void sbx_engine_transfer_free(struct sbx_engine_transfer *transfer)
{
    curl_slist_free_all(transfer->headers);
    curl_easy_cleanup(transfer->easy);
    cr_buf_done(&transfer->answer);
    free(transfer);
}

static int add_headers(struct sbx_engine_transfer *transfer,
                       const struct sbx_engine_request *request)
{
    char type[128];
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"); /* no 100-continue */

    (void)snprintf(type, sizeof(type), "Content-Type: %s",
                   request->content_type ? request->content_type : "application/json");
    transfer->headers = list;
    list = list ? curl_slist_append(list, type) : NULL;
    if (!list)
        return -ENOMEM;
    transfer->headers = list;
    return 0;
}

static CURLcode set_body(struct sbx_engine_transfer *transfer,
                         const struct sbx_engine_request *request)
{
    CURL *easy = transfer->easy;

    if (request->is_streamed) {
        transfer->body_fd = request->body_fd;
        transfer->deadline_ns = cr_clock_mono_ns() + transfer->deadline_ms * CR_NS_PER_MS;
        (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body);
        (void)curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
        return curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L); /* in chunks: nobody knows its size */
    }
    if (request->body) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
        return curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body);
    }
    if (strcmp(request->method, "POST") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
        return curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, "");
    }
    return curl_easy_setopt(easy, CURLOPT_NOBODY, strcmp(request->method, "HEAD") == 0 ? 1L : 0L);
}

/* Each setopt of a valid option can only fail for memory. */
static int set_options(const struct sbx_engine_address *address, const char *version,
                       struct sbx_engine_transfer *transfer,
                       const struct sbx_engine_request *request)
{
    char url[URL_MAX];
    CURL *easy = transfer->easy;
    CURLcode code;
    int n = snprintf(url, sizeof(url), "http://%s%s%s", sbx_engine_address_host(address), version,
                     request->path);

    if (n < 0 || (size_t)n >= sizeof(url))
        return -ENAMETOOLONG;
    code = curl_easy_setopt(easy, CURLOPT_URL, url);
    if (code == CURLE_OK && !address->is_tcp)
        code = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, address->name);
    if (code == CURLE_OK)
        code = set_body(transfer, request);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    if (code != CURLE_OK)
        return -ENOMEM;
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)cr_patience_ms(CONNECT_MS));
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)transfer->deadline_ms);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    return 0;
}

/* The path without its query, and without most of an id. */
static void name_it(struct sbx_engine_transfer *transfer, const struct sbx_engine_request *request)
{
    int size = (int)strcspn(request->path, "?");

    (void)snprintf(transfer->name, sizeof(transfer->name), "%s %.*s", request->method,
                   size < 80 ? size : 80, request->path);
}

int sbx_engine_transfer_new(const struct sbx_engine_address *address, const char *version,
                            const struct sbx_engine_request *request,
                            struct sbx_engine_transfer **ret_transfer)
{
    struct sbx_engine_transfer *transfer = calloc(1, sizeof(*transfer));
    int r;

    if (!transfer)
        return -ENOMEM;
    cr_buf_init(&transfer->answer, SBX_ENGINE_ANSWER_MAX);
    transfer->easy = curl_easy_init();
    transfer->deadline_ms = cr_patience_ms(request->deadline_ms);
    name_it(transfer, request);
    r = transfer->easy ? add_headers(transfer, request) : -ENOMEM;
    if (r == 0)
        r = set_options(address, version, transfer, request);
    if (r < 0) {
        sbx_engine_transfer_free(transfer);
        return r;
    }
    *ret_transfer = transfer;
    return 0;
}

/* ---- what went wrong ---- */

static int explain_connect(const struct sbx_engine_address *address, long os_error, char *text)
{
    switch (os_error) {
    case ENOENT:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX,
                       "the docker engine is absent: there is no socket '%s'; install and start "
                       "it, or name its socket with --docker-socket",
                       address->name);
        return ENOENT;
    case ECONNREFUSED:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX,
                       "the docker engine is dead: nobody listens on '%s'; start it again",
                       address->name);
        return ECONNREFUSED;
    case EACCES:
    case EPERM:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX,
                       "the docker engine's socket '%s' is forbidden to this user: sandboxd must "
                       "be root or in the group of the socket",
                       address->name);
        return EACCES;
    default:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX, "cannot connect to the docker engine at '%s': %s",
                       address->name, os_error > 0 ? strerrordesc_np((int)os_error) : "unknown");
        return os_error > 0 ? (int)os_error : ECONNREFUSED;
    }
}

int sbx_engine_transfer_explain(const struct sbx_engine_transfer *transfer,
                                const struct sbx_engine_address *address, CURLcode code,
                                char text[SBX_ENGINE_TEXT_MAX], bool *ret_is_gone)
{
    long os_error = 0;

    *ret_is_gone = false;
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &os_error);
        *ret_is_gone = true;
        return explain_connect(address, os_error, text);
    case CURLE_ABORTED_BY_CALLBACK: /* of on_body() */
    case CURLE_OPERATION_TIMEDOUT:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX,
                       "the docker engine did not answer %s within %d ms", transfer->name,
                       transfer->deadline_ms);
        return ETIMEDOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX, "the docker engine went away during %s",
                       transfer->name);
        *ret_is_gone = true;
        return ECONNRESET;
    case CURLE_WRITE_ERROR:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX, "the docker engine's answer to %s is too long",
                       transfer->name);
        return EMSGSIZE;
    default:
        (void)snprintf(text, SBX_ENGINE_TEXT_MAX, "call %s of the docker engine: %s",
                       transfer->name, curl_easy_strerror(code));
        return EPROTO;
    }
}
