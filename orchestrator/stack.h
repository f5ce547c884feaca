/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_config;
struct agt_links;
struct agt_signer;
struct cr_err;

/*
 * Everything that serves, in the order in which it stands on each other:
 * model, sandbox client, engine, HTTP server, gRPC server, listener.
 */
struct agt_stack;

/* Builds and starts all of it; on failure nothing is left. `has_landlock` is for health to tell;
 * `signer` (NULL: none) signs receipts, borrowed until agt_stack_down(), as `links`. */
int agt_stack_up(const struct agt_config *config, const struct agt_links *links, bool has_landlock,
                 const struct agt_signer *signer, struct agt_stack **ret_stack, struct cr_err *err);

/* The channel to sandboxd; borrowed. */
struct rpc_channel *agt_stack_channel(const struct agt_stack *stack);

/* Logs where it serves. */
void agt_stack_log_ready(const struct agt_stack *stack, const struct agt_config *config);

/* A thread on which everybody waits, and what it has counted (common/turns.h). */
struct agt_stack_loop {
    const char *name; /* "the thread of …" */
    uint64_t turns;
};

#define AGT_STACK_LOOPS_MAX 5

/* All of them, each time in the same order. Returns how many there are. */
size_t agt_stack_loops(const struct agt_stack *stack,
                       struct agt_stack_loop ret_loops[AGT_STACK_LOOPS_MAX]);

/* Asks whether a sandboxd is there, and what it allows; to be called every few seconds. */
void agt_stack_look(struct agt_stack *stack);

/* Says by health and /readyz that callers are to go elsewhere, and goes on. */
void agt_stack_withdraw(struct agt_stack *stack);

/* Takes no more requests and waits up to `grace_ms` for the runs. */
void agt_stack_drain(struct agt_stack *stack, int grace_ms);

/* Ends all of it, in the opposite order. NULL is allowed; returns NULL. */
struct agt_stack *agt_stack_down(struct agt_stack *stack);
