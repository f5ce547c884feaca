/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxspawn.h"

/*
 * Serves the backend (wire/boxspawn.h), and ends when it is gone. Returns in
 * the boxes only: there this process is the user 0 and pid 1 of a finished
 * box with the fds of boxctl.h, of which some more may be open, and the result
 * says what the box is for. What goes wrong in a box it reports itself.
 */
enum sbx_box_mode sbx_spawner_serve(void);
