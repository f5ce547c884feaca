/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "clients/crisol/batch_items.h"
#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* The command line of 'crisol batch'. Texts are borrowed from it. */
struct cli_batch_options {
    struct cli_batch_defaults defaults;
    struct cr_buf program;
    const char *path;
    const char *address;
    uint32_t window;
    uint32_t give_up_s;
    bool is_ordered;
};

/* Prints what is wrong. Returns 0, 1 when --help was answered, -EINVAL; _done() in each case. */
int cli_batch_options_parse(struct cli_batch_options *options, int argc, char **argv);
void cli_batch_options_done(struct cli_batch_options *options);
