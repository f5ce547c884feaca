/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct agt_run;
struct agt_store;

#define AGT_EXPORT_MAX ((size_t)64 << 20) /* bytes */

/*
 * Reads all that is stored of a run. `on_done` is called once, on the store's
 * thread: with a packed crisol.journal.v1.RunExport to free(), or with NULL
 * and -EFBIG, -ENOMEM, or what the store said. Any thread. Returns 0, or
 * -ENOMEM; then on_done is not called.
 */
int agt_run_export(struct agt_store *store, struct agt_run *run,
                   void (*on_done)(void *user, uint8_t *take_packed, size_t size, int error),
                   void *user);
