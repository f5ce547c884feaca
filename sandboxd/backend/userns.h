/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* Ids of one slot: 0 … 65535 inside. */
#define SBX_USERNS_RANGE UINT32_C(65536)

/* Ranges besides those of runs and of the pool: for boxes that end behind their answer. */
#define SBX_USERNS_SPARE 6U

/* The first host id that neither people, services, subuid ranges nor systemd's containers use. */
#define SBX_USERNS_DEFAULT_BASE UINT32_C(0x70000000)

/* The uid and gid of programs, inside. */
#define SBX_USERNS_PROGRAM_ID UINT32_C(1000)

/*
 * Makes a user namespace whose ids 0 … 65535 are the host's `first_id` … .
 * A short-lived child makes it, so that the caller stays in its own.
 * On success *ret_fd (CLOEXEC) keeps it alive.
 */
int sbx_userns_make(uint32_t first_id, int *ret_fd, struct cr_err *err);

/* `count` ids from `inside` on are those of the caller's namespace from `outside` on. */
struct sbx_userns_range {
    uint32_t inside;
    uint32_t outside;
    uint32_t count;
};

#define SBX_USERNS_RANGES_MAX 4U

/* The same with a map of up to SBX_USERNS_RANGES_MAX lines. */
int sbx_userns_make_ranges(const struct sbx_userns_range *ranges, size_t count, int *ret_fd,
                           struct cr_err *err);
