/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_buf;
struct cr_err;

/*
 * What the front hands to the inside of a box: argv, environment, files and
 * the list of files to collect, in one sealed memfd (F_SEAL_SHRINK | GROW |
 * WRITE | SEAL). No root process maps it: sandbox-init reads it in the box,
 * as the unprivileged user, and the collector after it has dropped everything.
 *
 * Layout: header, then `record_count` records, each a struct
 * sbx_payload_record followed by `name_size` bytes and `data_size` bytes,
 * without padding. Little endian, as the machine.
 */
#define SBX_PAYLOAD_MAGIC UINT32_C(0x42584353) /* "SCXB" */
#define SBX_PAYLOAD_MAX (8U << 20)
#define SBX_PAYLOAD_RECORDS_MAX 8192U
#define SBX_PAYLOAD_NAME_MAX 1024U

enum sbx_payload_kind {
    SBX_PAYLOAD_ARG =
        1, /* data: one argument; in order, the first is the absolute path to execute */
    SBX_PAYLOAD_ENV = 2,  /* name, data: NAME=value */
    SBX_PAYLOAD_FILE = 3, /* name: path below /workspace; data: content; mode; flags */
    SBX_PAYLOAD_COLLECT =
        4, /* name: path below /workspace; mode: largest size in bytes; flags: required; or name: a
            * pattern (glob.h) and data: one uint32_t, the most files */
    SBX_PAYLOAD_KIND_END,
};

#define SBX_PAYLOAD_FILE_READ_ONLY 1U
#define SBX_PAYLOAD_FILE_REPLACE 2U /* takes the place of what has its name; not with READ_ONLY */
#define SBX_PAYLOAD_COLLECT_REQUIRED 1U
#define SBX_PAYLOAD_COLLECT_GLOB 2U
#define SBX_PAYLOAD_GLOB_FILES_MAX 1024U /* of one pattern, and of all patterns of a request */

struct sbx_payload_header {
    uint32_t magic;
    uint32_t record_count;
    uint64_t size; /* of everything, this header included */
};

struct sbx_payload_record {
    uint32_t kind; /* enum sbx_payload_kind */
    uint32_t flags;
    uint32_t mode;
    uint32_t name_size;
    uint64_t data_size;
};

/* One record while reading: the pointers lie in the mapped payload and are NOT terminated. */
struct sbx_payload_item {
    struct sbx_payload_record record;
    const char *name;
    const uint8_t *data;
};

struct sbx_payload_reader {
    const uint8_t *data;
    size_t size;
    size_t at;
    uint32_t left;
};

/* Begins a payload in an empty buffer whose cap is SBX_PAYLOAD_MAX. Returns as cr_buf_add(). */
int sbx_payload_begin(struct cr_buf *buf);
int sbx_payload_add(struct cr_buf *buf, enum sbx_payload_kind kind, uint32_t flags, uint32_t mode,
                    const void *name, size_t name_size, const void *data, size_t data_size);
/* Fills in the header. */
void sbx_payload_end(struct cr_buf *buf);

/* Copies a finished payload into a sealed memfd. Returns the fd or -errno. */
int sbx_payload_seal(const struct cr_buf *buf, struct cr_err *err);

/* Opens bytes for reading; pure. Checks the header, then each record as it is read. Returns 0 or
 * -EPROTO. */
int sbx_payload_open(struct sbx_payload_reader *reader, const void *data, size_t size);

/* Next record: 1, 0 at the end, -EPROTO. Checks kind, sizes, and paths (sbx_path_is_safe). */
int sbx_payload_next(struct sbx_payload_reader *reader, struct sbx_payload_item *ret_item);

/*
 * The rules of InputFile.path: relative, components of 1 to 255 bytes, at
 * most 16 of them and 1,024 bytes, no "." or "..", no control character.
 * (Reserved prefixes and duplicates are the front's business.)
 */
bool sbx_path_is_safe(const char *path, size_t size);

/* The most files that a valid COLLECT record of a pattern gives; 0 for a record of a path. */
uint32_t sbx_payload_glob_files(const struct sbx_payload_item *item);

/*
 * What the collector writes, for each COLLECT record in order. `status` is a
 * number of crisol.sandbox.v1.CollectStatus.
 *   a path      one header, then `size` bytes
 *   a pattern   one header for each file that it matched, in the order of the bytes of their paths,
 *               with `name_size` bytes of path and `size` bytes behind it; and a last one without
 *               either, which says whether these are all
 */
struct sbx_collect_header {
    uint32_t status;
    uint32_t size;
    uint32_t name_size;
};
