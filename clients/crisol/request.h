/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

#define CLI_MAX_ITEMS 64

/*
 * An ExecuteRequest under construction from a command line, with the memory
 * that it borrows. Embedded; cli_request_done() frees it.
 */
struct cli_request {
    Crisol__Sandbox__V1__ExecuteRequest message;
    Crisol__Sandbox__V1__Limits limits;
    Crisol__Sandbox__V1__InputFile files[CLI_MAX_ITEMS];
    Crisol__Sandbox__V1__InputFile *file_pointers[CLI_MAX_ITEMS];
    struct cr_buf file_contents[CLI_MAX_ITEMS];
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry env[CLI_MAX_ITEMS];
    Crisol__Sandbox__V1__ExecuteRequest__EnvEntry *env_pointers[CLI_MAX_ITEMS];
    char *env_names[CLI_MAX_ITEMS];
    struct cr_buf code;
    struct cr_buf stdin_data;
    const char *address; /* of sandboxd, borrowed from argv or the environment */
    bool is_json;
};

/*
 * Reads the options of `crisol exec`. Prints what is wrong. Returns 0, 1 when
 * --help was answered, or -EINVAL.
 */
int cli_request_parse(struct cli_request *request, int argc, char **argv);

void cli_request_done(struct cli_request *request);
