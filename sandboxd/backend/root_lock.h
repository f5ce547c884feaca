/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The folder of a root file system that was built and registered, while a backend uses it. */

struct cr_err;

/*
 * Takes a shared lock (flock(2)) on it; whoever removes or replaces it takes
 * the lock alone. Returns the fd that holds it, the caller's to close, or
 * -EBUSY when it is being removed, -errno when it cannot be opened.
 */
int sbx_root_lock(const char *path, struct cr_err *err);
