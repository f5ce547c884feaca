/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The standard action for every signal, and none blocked: what whoever started
 * this process had is not its own. The C library keeps signals 32 and 33 to
 * itself and leaves them as they were, so this asks the kernel (signal(7)).
 * Async-signal-safe. Returns 0 or -errno.
 */
int cr_signals_reset(void);
