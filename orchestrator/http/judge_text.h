/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <crisol/judge/v1/judge.pb-c.h>
#include <crisol/sandbox/v1/sandbox.pb-c.h>

struct cr_buf;
struct rpc_status;

/*
 * The shape of the Piston judge (github.com/engineer-man/piston, API v2) over
 * what sandboxd takes and gives. Pure, but for memory.
 */

/*
 * Reads a request, as leniently as that judge does where no harm is in it:
 * unknown members, fractions, arguments that are numbers. What is required is
 * there afterwards. The caller frees *ret_request. Returns 0, -ENOMEM, or
 * -EINVAL with the judge's own words in `status`.
 */
int agt_judge_read(const char *text, size_t size, Crisol__Judge__V1__JudgeRequest **ret_request,
                   struct rpc_status *status);

/* Which of the files is the program: the first that is text. `n_files`: none. */
size_t agt_judge_code_index(const Crisol__Judge__V1__JudgeRequest *request);

/* Which of the files is none for the runtime, as it becomes the entry file; `n_files`: all of them
 * are, by their own names. */
size_t agt_judge_hidden_index(const Crisol__Judge__V1__JudgeRequest *request,
                              const Crisol__Sandbox__V1__Runtime *runtime);

/* The latest runtime of this name or alias whose version fits, or is not known yet. Borrowed from
 * `runtimes`; NULL: none. */
const Crisol__Sandbox__V1__Runtime *
agt_judge_find(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes, const char *language,
               const char *version);

/* Appends [{"language","version","aliases"}…], with "runtime" where that has another name than the
 * language. Returns 0, or as cr_buf_add(). */
int agt_judge_write_runtimes(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes,
                             struct cr_buf *buf);

/* Appends [{"language","language_version","installed"}…]. Returns 0, or as cr_buf_add(). */
int agt_judge_write_packages(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes,
                             struct cr_buf *buf);

/* A request for sandboxd, with the memory that it borrows. */
struct agt_judge_program;

/*
 * `request` was checked; it and `runtime` are borrowed and outlive the
 * program. Returns 0, -EINVAL with the reason in `status`, or -ENOMEM.
 */
int agt_judge_program_new(const Crisol__Judge__V1__JudgeRequest *request,
                          const Crisol__Sandbox__V1__Runtime *runtime,
                          struct agt_judge_program **ret_program, struct rpc_status *status);

/* NULL is allowed; always returns NULL. */
struct agt_judge_program *agt_judge_program_free(struct agt_judge_program *program);

/* Borrowed. */
const Crisol__Sandbox__V1__ExecuteRequest *
agt_judge_program_request(const struct agt_judge_program *program);

/* What one run gave. All borrowed. */
struct agt_judge_outcome {
    const char *runtime; /* its name */
    const char *version; /* as the runtime tells it */
    const Crisol__Sandbox__V1__ExecuteResult *result;
    const struct cr_buf *streams[2]; /* stdout, stderr */
    const struct cr_buf *output;     /* both, as they came */
};

/*
 * Appends {"language","version","run":{…}}, with "compile" before "run" where
 * there is such a stage; "run" is then the same when the program was not
 * compiled. Returns 0, or as cr_buf_add().
 */
int agt_judge_write(const struct agt_judge_outcome *outcome, struct cr_buf *buf);

/* What sandboxd says of a request whose file number `hidden_index` is none, in the names of this
 * interface: "run_timeout: …". */
void agt_judge_translate(const struct rpc_status *status, size_t hidden_index,
                         struct rpc_status *ret_status);
