/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/wire/payload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads what the collector of a backend writes: one header and its bytes per
 * COLLECT record, in order. The bytes come from the box and are believed in
 * nothing: a size above what was asked for ends the reading.
 */
struct sbx_collected {
    uint32_t max_bytes;
    bool is_required;
    uint32_t status; /* number of crisol.sandbox.v1.CollectStatus */
    struct cr_buf data;
};

struct sbx_collector {
    struct sbx_collected *files;
    size_t count;
    size_t at;        /* the file that is read now */
    size_t room;      /* bytes that may still be kept of all files together */
    bool is_broken;   /* the stream was not as it must be */
    size_t head_size; /* bytes of the header read so far */
    size_t left;      /* bytes of the current file still to come */
    bool is_too_much; /* the current file does not fit the room */
    struct sbx_collect_header head;
};

/* Every file starts as UNREADABLE. `total_bytes` caps all files together. Returns 0 or -ENOMEM. */
int sbx_collector_init(struct sbx_collector *collector, size_t count, size_t total_bytes);
void sbx_collector_done(struct sbx_collector *collector);

/* Pure. Bytes behind the last file, or after a surprise, are ignored. */
void sbx_collector_feed(struct sbx_collector *collector, const void *data, size_t size);

/* True when a required file was not read whole. */
bool sbx_collector_has_failed(const struct sbx_collector *collector);
