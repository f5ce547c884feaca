/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/front/run.h"

#include <stdbool.h>
#include <stdint.h>

/* run_pipes.c */

/* Opens the pipes of an execution and keeps the ends of the program. Returns 0 or -errno. */
int sbx_run_open_pipes(struct sbx_execution *execution);

/* Lets epoll report a pipe once. */
void sbx_run_arm(struct sbx_execution *execution, enum sbx_source_kind kind);

/* Reads a pipe: once while the program runs, to its end behind that. */
void sbx_run_read_pipe(struct sbx_execution *execution, enum sbx_source_kind kind);

/* What a pipe held when the backend was lost. */
void sbx_run_read_rest(struct sbx_execution *execution, enum sbx_source_kind kind);

/* Gives the program what it takes of its input, and closes the pipe behind the last byte. */
void sbx_run_write_stdin(struct sbx_execution *execution);

/* Nothing more comes, though somebody holds the pipe open. */
void sbx_run_close_output(struct sbx_execution *execution, enum sbx_source_kind kind);

/* Reads on where the call has made room. */
void sbx_run_resume(struct sbx_execution *execution);

/* run.c */

/* The call has something to look at. */
void sbx_run_wake(struct sbx_execution *execution);

/* A stream passed its limit; the first one counts. */
void sbx_run_note_overflow(struct sbx_execution *execution, uint32_t stream, uint64_t observed);

/* EXITED came, or the end. */
bool sbx_run_is_final(const struct sbx_execution *execution);
