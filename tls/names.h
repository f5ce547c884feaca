/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <openssl/x509.h>

/* Internal to tls/: the names of a certificate (subjectAltName: DNS and URI). */
#define TLS_NAME_MAX 256U

/*
 * The first name of `certificate` that is in `allowed` (names behind commas,
 * DNS names without regard to case; NULL or "": any name). No wildcards: a
 * name is a caller. One that holds a byte that a log or a list could
 * misunderstand counts as none. False when there is none; then `name` has the
 * first that was seen, or "".
 */
bool tls_names_find(const X509 *certificate, const char *allowed, char name[TLS_NAME_MAX]);

/* True when `name` is in the list. Pure. */
bool tls_names_is_listed(const char *allowed, const char *name, size_t size, bool is_dns);
