/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * One table of settings drives the flags, the environment, --help and the
 * example file. Precedence: flag, environment, default. An unknown flag, a
 * bad number or trailing text refuses to start and names the setting.
 */
enum cr_setting_type {
    CR_SETTING_STRING, /* char *, owned by the values */
    CR_SETTING_UINT,   /* uint64_t, min … max */
    CR_SETTING_BOOL,   /* bool; a flag without a value means true */
};

struct cr_setting {
    const char *flag;        /* "listen": --listen=VALUE or --listen VALUE */
    const char *environment; /* "CRISOL_LISTEN"; NULL: none */
    enum cr_setting_type type;
    bool is_secret;       /* never on a command line; shown as "(set)" */
    bool is_list;         /* CR_SETTING_STRING: repeating the flag joins with ',' */
    size_t offset;        /* of the member in the values */
    const char *fallback; /* default as text; NULL: NULL, 0 or false */
    uint64_t min;
    uint64_t max;
    const char *help; /* whole sentences */
};

/*
 * Fills in `values` (zeroed by the caller) from argv and the environment.
 * Reads secrets with secure_getenv. Returns 0; 1 when --help or --version was
 * answered on stdout; -EINVAL with a text for the person.
 */
int cr_config_load(const struct cr_setting *settings, size_t count, const char *program,
                   const char *description, int argc, char **argv, void *values,
                   struct cr_err *err);

/* Prints each setting as "name = value" on stdout, in the order of the table, secrets masked, and
 * that they are well formed: for --check-config. */
void cr_config_print(const struct cr_setting *settings, size_t count, const void *values);

/* Frees the strings; secrets are wiped first. */
void cr_config_done(const struct cr_setting *settings, size_t count, void *values);

/* Logs all settings at info, on as few lines as they need, secrets masked. */
void cr_config_log(const struct cr_setting *settings, size_t count, const void *values);

#define CR_VERSION "0.1.0"
