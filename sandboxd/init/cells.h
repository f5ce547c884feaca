/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/init/ahead.h"
#include "sandboxd/init/reap.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

/*
 * Pid 1 of the box of an interpreter that outlives its runs, see SBX_BOX_CELLS in boxctl.h: who
 * hands it one run after the other, and stops everybody in between.
 */
struct sbx_cells {
    int socket_fd;  /* to the program: one struct sbx_cell_word for each way and cell */
    int theirs_fd;  /* its other end, until the program has it; -1 */
    int null_fd;    /* /dev/null */
    int streams[3]; /* of the run that is on */
    uint32_t number;
    bool is_watched; /* every forbidden call is told */
    struct sbx_reaper reaper;
};

/* While /dev/null is at 0 to 2. Returns 0 or -errno. */
int sbx_cells_open(struct sbx_cells *ret_cells);

/* Behind LOAD: takes the streams of a run from 0 to 2, where the program gets what it starts with.
 * Returns 0 or -errno. */
int sbx_cells_take_streams(struct sbx_cells *cells);

/* Gives `streams` to the program, as those of its next cell: consumed. Returns 0 or -errno. */
int sbx_cells_hand_out(struct sbx_cells *cells);

/* Takes what it says: true when the cell is over, with its exit code. Does not wait. */
bool sbx_cells_is_over(struct sbx_cells *cells, int *ret_code);

/* From GO of the first run on: `program` was told. Returns when there is nothing more to do: the
 * status to exit with. */
int sbx_cells_serve(struct sbx_cells *cells, const struct sbx_ahead *program);
