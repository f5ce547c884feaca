/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/docker/frames.h"
#include "sandboxd/wire/boxstream.h"
#include "sandboxd/wire/template.h"

#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct cr_err;

/*
 * Between the backend itself and a container of the pool, until an interpreter
 * waits in it. What is read here comes from a container in which nothing but
 * the image's own packages and ours has run; the relay of the run that takes it
 * reads all that comes later.
 */
struct sbx_docker_preload {
    struct sbx_docker_frames frames;
    struct sbx_stream_parser parser;
    char words[SBX_TEMPLATE_WORDS_MAX]; /* for the log: printable, terminated */
    size_t words_size;
    struct sbx_init_msg last; /* the event that ended it */
};

/* The most that an order has. */
#define SBX_DOCKER_PRELOAD_MAX (128U << 10)

/*
 * What makes sandbox-init start an interpreter of `kind` under the filter
 * (a memfd, borrowed): frames of boxstream.h, into an empty buffer with a cap
 * of SBX_DOCKER_PRELOAD_MAX.
 */
int sbx_docker_preload_order(enum sbx_template_kind kind, int filter_fd, struct cr_buf *ret_order,
                             struct cr_err *err);

void sbx_docker_preload_init(struct sbx_docker_preload *preload);

/*
 * Takes bytes of the container, at any chunking. Returns 1 when the interpreter
 * waits and nothing else was said; 0 when there is more to come; -ECANCELED
 * when `last` says why it does not wait; -EPROTO for anything else. Pure.
 */
int sbx_docker_preload_feed(struct sbx_docker_preload *preload, const uint8_t *data, size_t size);
