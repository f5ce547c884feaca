/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/wire/payload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads what the collector of a backend writes (sandboxd/wire/payload.h), for
 * each COLLECT record in order. The bytes come from the box and are believed
 * in nothing: a size above what was asked for, a path that its pattern does
 * not stand for, or one out of order, ends the reading.
 */

/* A file that a pattern matched. */
struct sbx_match {
    char *path;
    uint32_t status; /* number of crisol.sandbox.v1.CollectStatus */
    struct cr_buf data;
};

/* What became of one COLLECT record. Set by the owner: the first four. */
struct sbx_collected {
    char *path; /* or pattern; owned; NULL: that of the report, which nobody asks for */
    uint32_t max_bytes;
    bool is_required;
    uint32_t max_files;        /* of a pattern; 0: a path */
    uint32_t status;           /* of a path, or whether all files of a pattern are there */
    struct cr_buf data;        /* of a path */
    struct sbx_match *matches; /* of a pattern; room for max_files */
    size_t match_count;
};

struct sbx_collector {
    struct sbx_collected *files;
    size_t count;
    size_t at;        /* the record that is read now */
    size_t room;      /* bytes that may still be kept of all files together */
    bool is_broken;   /* the stream was not as it must be */
    size_t head_size; /* bytes of the header read so far */
    size_t name_size; /* bytes of the path read so far */
    size_t left;      /* bytes of the current file still to come */
    bool is_too_much; /* the current file does not fit the room */
    struct sbx_collect_header head;
    char name[SBX_PAYLOAD_NAME_MAX + 1];
};

/* Every file starts as UNREADABLE. `total_bytes` caps all files together. Returns 0 or -ENOMEM. */
int sbx_collector_init(struct sbx_collector *collector, size_t count, size_t total_bytes);
void sbx_collector_done(struct sbx_collector *collector);

/* Pure. Bytes behind the last file, or after a surprise, are ignored. */
void sbx_collector_feed(struct sbx_collector *collector, const void *data, size_t size);

/*
 * True when the file was read whole; or, for a pattern, when it has at least
 * one file, no more than it may have, and each was read whole.
 */
bool sbx_collected_is_whole(const struct sbx_collected *file);

/* True when a required one is not whole. */
bool sbx_collector_has_failed(const struct sbx_collector *collector);
