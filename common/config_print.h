/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/config.h"

/*
 * Internal to the settings (config.c and config_print.c): what is written about them.
 */
#define CR_CONFIG_ENVIRONMENT_MAX 80

/* The setting's name in the environment; false when it has none. */
bool cr_config_environment(const struct cr_config_program *program,
                           const struct cr_setting *setting, char name[CR_CONFIG_ENVIRONMENT_MAX]);

/*
 * Prints on stdout: for `form` "" a text for a person, for "=conf" an example of the file in which
 * every setting is commented out, for "=markdown" a table for the documents. False for another
 * form: nothing is printed.
 */
bool cr_config_help(const struct cr_config_program *program, const char *form);

/* Prints the values as the file that has them; secrets as comments, masked. */
void cr_config_print_file(const struct cr_config_program *program, const void *values);
