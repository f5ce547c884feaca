/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

struct cr_buf;
struct sbx_collected;
struct sbx_runtime;

/*
 * What a compile stage leaves for the program, in one piece: FILE records as
 * of a payload (sandboxd/wire/payload.h), in one order, each path once and
 * none the folder of another. It comes from a box, and as an artifact from a
 * caller: it is believed in nothing.
 */

/* Mode of all of them: whether a file is a program is not told. */
#define SBX_COMPILED_MODE 0755U

/* Packs the files that were collected into an empty buffer. Returns 0, -ENOSPC when they are more
 * than a payload holds, or -ENOMEM. */
int sbx_compiled_pack(const struct sbx_collected *files, size_t count, struct cr_buf *ret_bytes);

/* Returns 0 when the bytes are files that the compile stage of this runtime could have left, else
 * -EPROTO. Pure. */
int sbx_compiled_check(const void *data, size_t size, const struct sbx_runtime *runtime);

/*
 * Appends them, checked, to a payload that is being built. Returns 0, -EEXIST
 * when one has the path of a file of the payload, or is its folder or below
 * it, -EPROTO, or as sbx_payload_add().
 */
int sbx_compiled_add(const void *data, size_t size, struct cr_buf *payload);
