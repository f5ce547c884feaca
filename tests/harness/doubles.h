/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "orchestrator/model/model.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/status.h"

/*
 * Doubles of the model and of sandboxd, so that the engine and what stands on
 * it run without either. Each has one thread of its own, on which a script
 * decides about every call and the handlers run.
 */

/* How the model answers. Zeroed before the script runs. */
struct double_answer {
    enum agt_model_end end;
    const char *text;         /* NULL: "" */
    const char *message;      /* NULL: "" */
    const char *model_served; /* NULL: the one asked for */
    uint32_t delta_size;      /* > 0: the text comes as deltas of so many bytes first */
    bool has_retry;           /* one on_retry before the answer */
    bool is_held;             /* no answer until it is cancelled */
};

typedef void (*double_model_script)(void *user, const struct agt_model_request *request,
                                    struct double_answer *ret_answer);

/* `script` NULL: double_solve. Free with ops->free. */
struct agt_model *double_model_new(double_model_script script, void *user);

/* Takes the key away, or gives it back. Before any call. */
void double_model_set_configured(struct agt_model *model, bool value);

/* Calls that are going on. */
uint32_t double_model_live_calls(struct agt_model *model);

/* Plans for a planner; double_good_files for a generator, and behind a failed attempt the same with
 * something more. */
void double_solve(void *user, const struct agt_model_request *request,
                  struct double_answer *ret_answer);

/* An answer with solution.py and test_solution.py. */
extern const char double_good_files[];

/* How sandboxd answers. Zeroed before the script runs. */
struct double_execution {
    enum rpc_code code;  /* not RPC_OK: no event, this status */
    const char *message; /* of the status, or of the verdict */
    int32_t retry_after_ms;
    Crisol__Sandbox__V1__VerdictCode verdict; /* 0: OK when exit_code is 0, else NONZERO_EXIT */
    int32_t exit_code;
    bool has_no_report;
    uint32_t passed;
    uint32_t failed; /* cases test_failed_0, … */
    uint32_t errors;
    uint32_t skipped;
    const char *failure;     /* message of each failed case; NULL: "assert 2 == 1" */
    const char *details;     /* of each failed case; NULL: a traceback */
    const char *failed_id;   /* of each failed case; NULL: test_failed_0, … */
    const char *stdout_text; /* NULL: nothing is written */
    uint32_t wall_limit_ms;  /* as the policy of the result has it; 0: there is no policy */
    bool is_held;            /* started, and no end until it is cancelled */
};

typedef void (*double_sandbox_script)(void *user,
                                      const Crisol__Sandbox__V1__ExecuteRequest *request,
                                      struct double_execution *ret_execution);

/* `script` NULL: double_pass. Free with ops->free. */
struct agt_sandbox *double_sandbox_new(double_sandbox_script script, void *user);

/* What a request of the evaluator is for. */
enum double_check {
    DOUBLE_CHECK_NONE, /* the tests as they are */
    DOUBLE_CHECK_CANARY,
    DOUBLE_CHECK_RAISE,
    DOUBLE_CHECK_RETURN,
    DOUBLE_CHECK_MUTANT,
    DOUBLE_CHECK_OWN,
    DOUBLE_CHECK_ORACLE, /* the script has to answer it */
};

enum double_check double_check_of(const Crisol__Sandbox__V1__ExecuteRequest *request);

/*
 * Answers a check as honest tests do: the canary fails, beside three tests
 * that pass; on stubs all three fail; a command of the task succeeds. The canary's name lives as
 * long as the request.
 */
void double_answer_check(const Crisol__Sandbox__V1__ExecuteRequest *request,
                         struct double_execution *ret_execution);

/*
 * Answers the cases of a task: `values` has the driver's line for each without
 * the mark, e.g. "value 3". Lives until the next call; one thread.
 */
void double_answer_cases(const Crisol__Sandbox__V1__ExecuteRequest *request,
                         const char *const *values, size_t count,
                         struct double_execution *ret_execution);

/* The script is asked about checks, too; otherwise double_answer_check() has them. Before any call.
 */
void double_sandbox_set_checks(struct agt_sandbox *sandbox, bool value);

/* What it says it allows; borrowed until it is freed. NULL, as at first: it does not say. Before
 * any call. */
void double_sandbox_set_bounds(struct agt_sandbox *sandbox,
                               const struct agt_sandbox_bounds *bounds);

uint32_t double_sandbox_live_calls(struct agt_sandbox *sandbox);

/* Three tests pass. */
void double_pass(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                 struct double_execution *ret_execution);
