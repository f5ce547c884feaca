/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The one argument that makes sandbox-init speak sandboxd/wire/boxstream.h. */
#define SBX_STREAM_ARGUMENT "--stream"

/*
 * Pid 1 of a container: takes filter and payload from standard input, puts the
 * files in place, starts the program on pipes of its own, and passes its
 * output on in frames. The end of standard input means that nobody is left
 * who could want the program: everything is killed. Returns the exit code.
 */
int sbx_stream_main(void);
