/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rpc_status;

#define RPC_DETAILS_KEY "grpc-status-details-bin"

/*
 * Internal to rpc/: the google.rpc.Status that travels beside a status, with
 * BadRequest, RetryInfo and ErrorInfo.
 */

/*
 * Packs the details of a status. *ret_data is a heap buffer of the caller;
 * NULL with size 0 when the status has no details. Violations that would not
 * fit into the trailers of common clients are left out. Returns 0 or -ENOMEM.
 */
int rpc_details_pack(const struct rpc_status *status, uint8_t **ret_data, size_t *ret_size);

/*
 * Adds the details found in `data` to the status; code and message stay.
 * Unknown details are skipped. Returns 0, -EINVAL when the bytes are no
 * google.rpc.Status (nothing is added), or -ENOMEM.
 */
int rpc_details_parse(const void *data, size_t size, struct rpc_status *status);
