/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * The system call filter of every program, built once at start and handed to
 * each sandbox-init as a file: an array of struct sock_filter.
 *
 * Three answers besides "allowed": ENOSYS for what is newer than the table or
 * has a fallback in every library; the errno that the kernel itself would
 * give an unprivileged process; and death (SIGSYS) for calls that no honest
 * program makes, and for the 32-bit and x32 doors.
 */

/* On success *ret_fd is a sealed memfd (read from offset 0), owned by the caller. */
int sbx_seccomp_build(int *ret_fd, struct cr_err *err);
