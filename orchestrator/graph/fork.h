/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct agt_store_batch;
struct rpc_status;

/*
 * A new run with the beginning of another, and with `hint` behind the hints
 * that it has had (NULL: none; agt_run_check_hint() has seen it): the batch
 * that stores it. `packed`
 * is a crisol.journal.v1.RunExport; its events up to state event `seq`, which
 * is before its result, are copied. The batch is a new run with an id of its
 * own and no idempotency key; on_done and user are the caller's to set, and
 * agt_fork_free() frees it. On failure returns a negative errno with
 * ret_status.
 */
int agt_fork_make(const void *packed, size_t size, uint32_t seq, const char *hint,
                  struct agt_store_batch **ret_batch, struct rpc_status *ret_status);
void agt_fork_free(struct agt_store_batch *batch);

/*
 * Makes of a batch that was written, and whose run nobody can take up, the one
 * that deletes it again; needs no memory. The store frees it when it is done.
 */
void agt_fork_take_back(struct agt_store_batch *batch);
