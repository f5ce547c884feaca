/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/handlers.h"
#include "orchestrator/http/openapi.h"
#include "orchestrator/http/pages.h"
#include "orchestrator/http/private.h"
#include "rpc/comments.h"

#include <errno.h>

/* Today's document has a quarter of that. */
#define OPENAPI_CAP ((size_t)1 << 20)

/* The page loads its own two files, and talks to this server alone. */
static const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void answer(struct agt_exchange *exchange, const char *type, const void *data, size_t size)
{
    int r = cr_buf_add(&exchange->out, data, size);

    if (r < 0) {
        agt_exchange_fail_internal(exchange, "write the answer", r);
        return;
    }
    exchange->type = type;
    agt_exchange_answer(exchange, MHD_HTTP_OK);
}

void agt_handle_page(struct agt_exchange *exchange)
{
    switch (exchange->route->id) {
    case AGT_ROUTE_DOCS_SCRIPT:
        answer(exchange, "text/javascript; charset=utf-8", agt_page_script, agt_page_script_size);
        break;
    case AGT_ROUTE_DOCS_STYLE:
        answer(exchange, "text/css; charset=utf-8", agt_page_style, agt_page_style_size);
        break;
    default:
        exchange->policy = page_policy;
        answer(exchange, "text/html; charset=utf-8", agt_page_html, agt_page_html_size);
        break;
    }
}

/* Made once: the comments take some milliseconds to be found. */
static int make_openapi(struct agt_http *http)
{
    const struct rpc_comments comments = {http->options.descriptor_set,
                                          http->options.descriptor_set_size};
    CR_AUTO_BUF struct cr_buf buf;
    int r;

    cr_buf_init(&buf, OPENAPI_CAP);
    r = agt_openapi_write(http->options.version, &comments, &buf);
    if (r < 0)
        return r;
    http->openapi_size = buf.size;
    http->openapi = cr_buf_take_str(&buf);
    return http->openapi ? 0 : -ENOMEM;
}

void agt_handle_openapi(struct agt_exchange *exchange)
{
    struct agt_http *http = exchange->http;
    int r = http->openapi ? 0 : make_openapi(http);

    if (r < 0)
        agt_exchange_fail_internal(exchange, "describe the interface", r);
    else
        answer(exchange, NULL, http->openapi, http->openapi_size);
}
