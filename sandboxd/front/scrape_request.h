/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* More than Prometheus and probes send. */
#define SBX_SCRAPE_HEAD_MAX 4096U

enum sbx_scrape_request {
    SBX_SCRAPE_INCOMPLETE, /* the head goes on */
    SBX_SCRAPE_METRICS,
    SBX_SCRAPE_METRICS_HEAD, /* the same without the body */
    SBX_SCRAPE_NOT_FOUND,
    SBX_SCRAPE_NOT_ALLOWED, /* another method than GET and HEAD */
    SBX_SCRAPE_TOO_LARGE,
    SBX_SCRAPE_BAD,
};

/*
 * What the first `size` bytes of a connection ask for: one HTTP/1 request
 * without a body (RFC 9112). Headers are not looked at. Pure.
 */
enum sbx_scrape_request sbx_scrape_parse(const char *data, size_t size);
