/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * The PEM files of one side of a TLS link: read by whoever may (a supervisor,
 * a service before it drops its privileges), handed on as one sealed memfd.
 * Knows nothing of what they mean, so the root process links no TLS library.
 */
enum cr_tls_part {
    CR_TLS_CERTIFICATE, /* our own, and the intermediate ones behind it */
    CR_TLS_KEY,
    CR_TLS_AUTHORITY, /* who may sign the other side's certificate */
    CR_TLS_PART_COUNT,
};

#define CR_TLS_PART_MAX ((size_t)1 << 20) /* bytes of one file */

/* By part; NULL or "": none. Borrowed. */
struct cr_tls_paths {
    const char *path[CR_TLS_PART_COUNT];
};

/* What the files hold, as C strings. NULL where there is none. */
struct cr_tls_material {
    char *part[CR_TLS_PART_COUNT];
};

/*
 * Reads the files into a sealed memfd: all before a change or all after it,
 * where the change is one rename, as of the link "..data" of a Kubernetes
 * volume. Each must be a regular file; a key must be closed to others and not
 * writable by its group. Texts name no content. Returns the fd or -errno;
 * -EAGAIN when the files change all the time.
 */
int cr_tls_files_open(const struct cr_tls_paths *paths, struct cr_err *err);

/* A number that changes when one of the files does; 0 while one cannot be looked at. */
uint64_t cr_tls_files_stamp(const struct cr_tls_paths *paths);

/* From such a memfd, from its begin. On success *ret_material is the caller's. Returns 0, -EPROTO
 * when it is none, or another -errno. */
int cr_tls_material_read(int fd, struct cr_tls_material *ret_material, struct cr_err *err);

/* Wipes and frees. Safe to repeat. */
void cr_tls_material_done(struct cr_tls_material *material);
