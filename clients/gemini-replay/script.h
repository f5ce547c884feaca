/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* What to answer to which request. */
struct replay_answer {
    char **match; /* pieces of text that the request must hold, all of them, in any case */
    size_t match_count;
    char **any; /* and at least one of these, when there are some */
    size_t any_count;
    char *text;           /* NULL: a call or an error */
    char *call_name;      /* function that the model calls; NULL: none … */
    char *call_arguments; /* … as JSON */
    char **more_calls;    /* arguments of further calls of it in the same turn */
    size_t more_call_count;
    char *thoughts;      /* NULL: none */
    char *finish_reason; /* "STOP" unless the script says otherwise */
    int error_code;      /* HTTP status of an error answer; 0: none, then text is there */
    char *error_status;
    char *error_message;
    char *retry_delay; /* of the RetryInfo of an error; NULL: none */
};

/*
 * A script: the task that it plays, and its answers in order of precedence.
 *
 * Answering keeps no state. The first answer whose pieces are all found in the
 * request is the one; since a request for a repair holds the failure that it
 * repairs, any number of runs can go on side by side and each sees its first,
 * second and later answers in turn.
 */
struct replay_script {
    char *task;
    struct replay_answer *answers;
    size_t answer_count;
};

/* Several scripts, asked in order. Not changed after loading. */
struct replay_scripts {
    struct replay_script *items;
    size_t count;
};

/*
 * Reads the files named in `paths` (separated by ','). On failure nothing is
 * kept and the text names the file and the member.
 */
int replay_scripts_load(const char *paths, struct replay_scripts *ret_scripts, struct cr_err *err);

void replay_scripts_done(struct replay_scripts *scripts);

/* Borrowed from the scripts; NULL: none of them has an answer. */
const struct replay_answer *replay_scripts_find(const struct replay_scripts *scripts,
                                                const char *request_text);
