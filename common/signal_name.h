/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define CR_SIGNAL_NAME_SIZE 24

/*
 * "SIGSEGV", "SIGRTMIN+3", "SIGRTMAX-1": as `kill -l` of bash has it. A number
 * without a name (the C library keeps 32 and 33 to itself, signal(7)) is
 * "SIG32". Returns `text`. Pure.
 */
const char *cr_signal_name(int number, char text[static CR_SIGNAL_NAME_SIZE]);
