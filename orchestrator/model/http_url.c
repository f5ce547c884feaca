/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/model/http.h"

#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include <arpa/inet.h>

static bool is_loopback(const char *host)
{
    struct in_addr v4;

    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* NULL when the URL has no such part. */
static char *dup_part(CURLU *parts, CURLUPart part)
{
    char *text = NULL;

    return curl_url_get(parts, part, &text, 0) == CURLUE_OK ? text : NULL;
}

static int check_parts(CURLU *parts, char **ret_host, struct cr_err *err)
{
    char *scheme = dup_part(parts, CURLUPART_SCHEME);
    char *host = dup_part(parts, CURLUPART_HOST);
    char *port = dup_part(parts, CURLUPART_PORT);
    char *user = dup_part(parts, CURLUPART_USER);
    char *password = dup_part(parts, CURLUPART_PASSWORD);
    int r = 0;

    if (!scheme || !host)
        r = cr_err_set(err, EINVAL, "the URL has no scheme or no host");
    else if (user || password)
        r = cr_err_set(err, EINVAL, "the URL has a user name or a password in it");
    else if (strcmp(scheme, "http") == 0 && !is_loopback(host))
        r = cr_err_set(err, EINVAL, "http:// is for loopback addresses only; use https://");
    else if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
        r = cr_err_set(err, EINVAL, "the URL begins neither with https:// nor with http://");
    else if (ret_host && asprintf(ret_host, "%s%s%s", host, port ? ":" : "", port ? port : "") < 0)
        r = cr_err_set(err, ENOMEM, "out of memory for a host name");
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_free(password);
    return r;
}

int agt_http_check_url(const char *url, char **ret_host, struct cr_err *err)
{
    CURLU *parts = curl_url();
    int r;

    if (!parts)
        return cr_err_set(err, ENOMEM, "out of memory for a URL");
    if (curl_url_set(parts, CURLUPART_URL, url, 0) != CURLUE_OK)
        r = cr_err_set(err, EINVAL, "not a URL");
    else
        r = check_parts(parts, ret_host, err);
    curl_url_cleanup(parts);
    return r;
}
