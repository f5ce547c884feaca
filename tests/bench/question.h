/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

struct bench_options;

/* Something to run, in a sandbox and beside it, and what it has to answer. */
struct bench_question {
    const char *name;
    const char *runtime;
    const char *const *command;   /* NULL-terminated; NULL: `code` or `files` */
    const char *code;             /* NULL: none */
    const char *const *arguments; /* NULL-terminated; NULL: none */

    /* At most two; a NULL path ends the list. */
    struct {
        const char *path;
        const char *text;
    } files[3];

    const char *const *bare; /* argv of the same without a sandbox */
    bool has_work;           /* a file more, "work_ms": CPU time that the test takes */
    const char *answer;      /* must stand in what it prints; NULL: it prints nothing */
};

/* NULL when there is none of this name. */
const struct bench_question *bench_question_find(const char *name);

/* True when `output` is what the question must print. */
bool bench_question_is_right(const struct bench_question *question, const char *output,
                             size_t size);

/* A request with room for what it points to; `request` is valid as long as this stays in place. */
struct bench_request {
    Crisol__Sandbox__V1__ExecuteRequest request;
    Crisol__Sandbox__V1__Limits limits;
    Crisol__Sandbox__V1__InputFile files[3];
    Crisol__Sandbox__V1__InputFile *file_list[3];
    char *command[8];
    char *arguments[4];
    char work[24];
};

/* Fills it in; the limits are the defaults until they are changed. */
void bench_request_fill(const struct bench_question *question, struct bench_request *ret_request);

/* Limits and amount of work as the options have them. Once. */
void bench_request_apply(const struct bench_question *question, const struct bench_options *options,
                         struct bench_request *request);
