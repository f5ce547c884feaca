/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Opens the audit log to append, mode 0600 when it is made. A link, a file of
 * another user, one that others may read or write, or something that is no
 * regular file is refused. Returns the descriptor or -errno.
 */
int sbx_audit_file_open(const char *path, struct cr_err *err);
