/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * `--rootless`: from here on this process, and all that it starts, is root of
 * a user namespace of its own, in which there is one user, who is on the host
 * whoever started it, and of a mount namespace. Nothing of that reaches
 * further on the host than that user does. Before the first thread.
 * Returns 0 or -errno; the error says what forbids it.
 */
int sbx_rootless_enter(struct cr_err *err);
