/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * One table of settings drives the flags, the environment, the file, --help,
 * the example file and the table of the documents. Precedence: flag,
 * environment, file, default. An unknown flag or key, a bad number or trailing
 * text refuses to start and names the setting.
 */
enum cr_setting_type {
    CR_SETTING_STRING, /* char *, owned by the values */
    CR_SETTING_UINT,   /* uint64_t, min … max */
    CR_SETTING_BOOL,   /* bool; a flag without a value means true */
};

struct cr_setting {
    const char *flag;        /* "listen": --listen=VALUE or --listen VALUE; the key in a file */
    const char *environment; /* "CRISOL_LISTEN"; NULL: by the service's prefix, or none */
    enum cr_setting_type type;
    bool is_secret;       /* never on a command line nor in the file: environment, or a file of its
                             own whose path is named ("key" by --key-file); shown as "(set)" */
    bool is_list;         /* CR_SETTING_STRING: repeating the flag or the key joins with ',' */
    bool is_action;       /* says what to do once: a flag only */
    size_t offset;        /* of the member in the values */
    const char *fallback; /* default as text; NULL: NULL, 0 or false */
    uint64_t min;
    uint64_t max;
    const char *help; /* whole sentences */
};

/* A program with settings. Borrowed, static storage. */
struct cr_config_program {
    const struct cr_setting *settings;
    size_t count;
    const char *name;
    const char *description;
    /*
     * "CRISOL_": settings without a name of their own in the environment are PREFIX and the flag in
     * capitals there, and there is a file, named by --config or PREFIX + "CONFIG". NULL: neither.
     */
    const char *prefix;
};

/*
 * Fills in `values` (zeroed by the caller) from argv and the environment.
 * Reads secrets with secure_getenv. Returns 0; 1 when --help, --version or
 * --print-config was answered on stdout; -EINVAL with a text for the person.
 */
int cr_config_load_program(const struct cr_config_program *program, int argc, char **argv,
                           void *values, struct cr_err *err);

/* The same for a program without prefix and file. */
int cr_config_load(const struct cr_setting *settings, size_t count, const char *program,
                   const char *description, int argc, char **argv, void *values,
                   struct cr_err *err);

/*
 * The first line of a file with a secret, without the blanks around it; the caller wipes and frees
 * *ret_secret. Returns 0 or -errno: -EINVAL for an empty line, -EFBIG for more than 8 KiB.
 */
int cr_config_read_secret(const char *path, char **ret_secret, struct cr_err *err);

/* Prints each setting as "name = value" on stdout, in the order of the table, secrets masked, and
 * that they are well formed: for --check-config. */
void cr_config_print(const struct cr_setting *settings, size_t count, const void *values);

/* Frees the strings; secrets are wiped first. */
void cr_config_done(const struct cr_setting *settings, size_t count, void *values);

/* Logs all settings at info, on as few lines as they need, secrets masked. */
void cr_config_log(const struct cr_setting *settings, size_t count, const void *values);

#define CR_VERSION "0.1.0"
