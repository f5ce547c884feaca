/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The time slice that the calling thread asks the kernel for: 0 is the usual
 * one. Who asks for a short one runs sooner when it wakes up, and not for
 * longer in all (EEVDF, Linux 6.12; older kernels ignore it). Children and
 * threads inherit it. Best effort. Makes system calls only, so it may be
 * called between fork and exec.
 */
void cr_slice_set(unsigned long long slice_ns);

/* Long enough for what is done at a time by those that only pass things on. */
#define CR_SLICE_SHORT_NS 1000000ULL
