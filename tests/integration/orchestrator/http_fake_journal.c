/* SPDX-License-Identifier: Apache-2.0 */

/* What an engine can do with a store, or with a pause: the double has neither. */
#include "orchestrator/graph/engine.h"
#include "orchestrator/graph/export.h"
#include "orchestrator/graph/fork.h"
#include "rpc/status.h"

#include <errno.h>

bool agt_run_is_left(const struct agt_run *run)
{
    (void)run;
    return false;
}

uint64_t agt_run_fence(const struct agt_run *run)
{
    (void)run;
    return 0;
}

void agt_run_leave(struct agt_run *run)
{
    (void)run;
}

bool agt_run_is_guest(const struct agt_run *run)
{
    (void)run;
    return false;
}

uint32_t agt_guest_seq(const struct agt_run *run)
{
    (void)run;
    return 0;
}

int agt_guest_add(struct agt_run *run, const struct agt_store_event *row)
{
    (void)run;
    (void)row;
    return -EINVAL;
}

void agt_guest_leave(struct agt_run *run)
{
    (void)run;
}

uint32_t agt_run_seq(const struct agt_run *run)
{
    (void)run;
    return 0;
}

int agt_guest_pack_resume(struct agt_run *run, const struct agt_edits *edits, uint8_t **ret_packed,
                          size_t *ret_size, uint32_t *ret_seq, struct rpc_status *ret_status)
{
    (void)ret_packed;
    (void)ret_size;
    return agt_run_resume(run, edits, ret_seq, ret_status);
}

void agt_guest_take_back_resume(struct agt_run *run, uint32_t seq)
{
    (void)run;
    (void)seq;
}

int agt_run_resume_packed(struct agt_run *run, uint32_t seq, const void *packed, size_t size)
{
    (void)run;
    (void)seq;
    (void)packed;
    (void)size;
    return -EBUSY;
}

const char *agt_run_twin(const struct agt_run *run, bool *ret_is_same)
{
    (void)run;
    (void)ret_is_same;
    return NULL;
}

int agt_engine_check_room(struct agt_engine *engine, struct rpc_status *ret_status)
{
    (void)engine;
    (void)ret_status;
    return 0;
}

int agt_run_resume(struct agt_run *run, const struct agt_edits *edits, uint32_t *ret_seq,
                   struct rpc_status *ret_status)
{
    (void)run;
    (void)edits;
    (void)ret_seq;
    rpc_status_set(ret_status, RPC_FAILED_PRECONDITION, "the run is not interrupted");
    return -EBUSY;
}

int agt_run_check_hint(struct agt_run *run, const char *hint, uint32_t *ret_seq,
                       struct rpc_status *ret_status)
{
    (void)run;
    (void)hint;
    (void)ret_seq;
    rpc_status_set(ret_status, RPC_FAILED_PRECONDITION, "the run did not end STALLED");
    return -EBUSY;
}

int agt_fork_make(const void *packed, size_t size, uint32_t seq, const char *hint,
                  struct agt_store_batch **ret_batch, struct rpc_status *ret_status)
{
    (void)packed;
    (void)size;
    (void)seq;
    (void)hint;
    (void)ret_batch;
    (void)ret_status;
    return -ENOMEM;
}

void agt_fork_free(struct agt_store_batch *batch)
{
    (void)batch;
}

void agt_fork_take_back(struct agt_store_batch *batch)
{
    (void)batch;
}

int agt_run_export(struct agt_store *store, struct agt_run *run,
                   void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error),
                   void *user)
{
    (void)store;
    (void)run;
    (void)on_done;
    (void)user;
    return -ENOMEM;
}

int agt_engine_take_up(struct agt_engine *engine, const struct agt_store_run *row,
                       agt_engine_on_run on_run, void *user, struct cr_err *err)
{
    (void)row;
    return agt_engine_load(engine, on_run, user, err);
}

int agt_engine_load(struct agt_engine *engine, agt_engine_on_run on_run, void *user,
                    struct cr_err *err)
{
    (void)engine;
    (void)on_run;
    (void)user;
    (void)err;
    return 0;
}
