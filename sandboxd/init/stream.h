/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* The one argument that makes sandbox-init speak sandboxd/wire/boxstream.h; the second one for a
 * box that nobody can look into from outside, see inside.h. */
#define SBX_STREAM_ARGUMENT "--stream"
#define SBX_STREAM_INSIDE_ARGUMENT "--stream-inside"

/*
 * Pid 1 of a container: takes filter and payload from standard input, puts the
 * files in place, starts the program on pipes of its own, and passes its
 * output on in frames. The end of standard input means that nobody is left
 * who could want the program: everything is killed. Returns the exit code.
 */
int sbx_stream_main(bool is_inside);
