/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;
struct cr_metrics;

/*
 * The page /metrics: a little HTTP/1.1 server with a thread of its own, so
 * that it answers when everything else is busy. One request per connection, a
 * few connections at one time, each with a deadline; what it cannot answer it
 * closes. It reads nothing but the request line (scrape_request.h).
 */
struct sbx_scrape;

/*
 * Serves on a listening socket, which is taken on success. `write` fills in
 * the page, on the thread of the server. Returns 0 or -errno.
 */
int sbx_scrape_new(int listen_fd, void (*write)(void *user, struct cr_metrics *metrics), void *user,
                   struct sbx_scrape **ret_scrape, struct cr_err *err);

/* Ends the thread and closes every connection. NULL is allowed; always returns NULL. */
struct sbx_scrape *sbx_scrape_free(struct sbx_scrape *scrape);
