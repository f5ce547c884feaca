/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_buf;
struct cr_err;

/*
 * The system call policy as a profile of the engine, from the same table as
 * the filter of the program. It is the outer of two walls and stands around
 * sandbox-init as well: what the table decides by arguments is allowed here,
 * and so are capset(2) and seccomp(2), with which sandbox-init then puts the exact filter of the
 * table around the program (the kernel takes the stricter answer).
 */
int sbx_seccomp_json(struct cr_buf *ret_json, struct cr_err *err);
