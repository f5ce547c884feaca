/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct sbx_payload_reader;

/*
 * Which files of a payload to write, and how. Read-only files must belong to
 * somebody else than the program, in folders of somebody else with the sticky
 * bit; so they are written in a pass of their own, by another user.
 */
enum sbx_unpack_pass {
    SBX_UNPACK_WRITABLE,  /* skips read-only files */
    SBX_UNPACK_READ_ONLY, /* only those; their folders become group-writable and sticky */
};

/* True when a record is a read-only file; -EPROTO when the payload is malformed, else false. */
int sbx_unpack_has_read_only(struct sbx_payload_reader reader);

/*
 * Writes the FILE records below the folder `workspace_fd` with the rights and
 * the ids of the caller. Follows no link, leaves nothing that was there
 * changed: a file that exists is -EEXIST, unless its record is to take its place. Returns 0 or
 * -errno.
 */
int sbx_unpack_files(struct sbx_payload_reader reader, int workspace_fd, enum sbx_unpack_pass pass);
