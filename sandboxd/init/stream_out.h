/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxstream.h"

#include <stddef.h>

/* What pid 1 of a container writes on its standard output. Waits while nobody reads. */

/* Nobody listens any more: ends everything in the box. */
_Noreturn void sbx_stream_die(void);

/* One frame; `data` is not changed. */
void sbx_stream_send(enum sbx_stream_kind kind, void *data, size_t size);
void sbx_stream_send_event(struct sbx_init_msg msg);
