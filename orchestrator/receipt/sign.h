/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

struct agt_signer;
struct cr_err;

/*
 * Signs receipts with an Ed25519 key (RFC 8032), so that nobody else can make
 * one anew: the signature is over "crisol receipt signature 1\n", the head, and
 * "\n". The same key and head give the same signature. Once made, read-only;
 * any thread.
 */

/*
 * Reads the private key, PEM as `openssl genpkey -algorithm ed25519` writes it,
 * without a passphrase. Refuses (-EACCES) a file that others than its owner may
 * read, (-EINVAL) what is no such key.
 */
int agt_signer_load(const char *path, struct agt_signer **ret_signer, struct cr_err *err);
struct agt_signer *agt_signer_free(struct agt_signer *signer); /* NULL is allowed; returns NULL */

/* Adds signature and key_id to a receipt that has its head. Returns 0, -ENOMEM or -EIO. */
int agt_receipt_sign(const struct agt_signer *signer, Crisol__Agent__V1__Receipt *receipt);

/* Frees what agt_receipt_sign() added. */
void agt_receipt_drop_signature(Crisol__Agent__V1__Receipt *receipt);

/*
 * Checks the signature of a receipt with the public key in a PEM file, as
 * `openssl pkey -pubout` writes it. The head must have been checked already.
 * Returns 0, -EBADMSG when it does not fit or there is none, -EINVAL for what
 * is no public key, or another negative errno.
 */
int agt_receipt_check_signature(const Crisol__Agent__V1__Receipt *receipt,
                                const char *public_key_path, struct cr_err *err);
