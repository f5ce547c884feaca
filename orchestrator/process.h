/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <signal.h>
#include <stdint.h>

struct cr_err;

/* What the orchestrator does to its own process, before any thread is there. */

/* Blocks SIGTERM, SIGINT and SIGHUP for agt_process_wait(), and ignores SIGPIPE. */
int agt_process_block_signals(sigset_t *ret_signals, struct cr_err *err);

/*
 * Becomes `uid`, and the group of the same number, for good when started as
 * root (0: stays who it is), and in any case gives up every capability, what
 * could be got by exec (no_new_privs), core dumps, and being read through
 * /proc by others of the same uid.
 */
int agt_process_confine(uint32_t uid, struct cr_err *err);

/* Wipes the value of an environment variable where it lies, and removes it. */
void agt_process_wipe_environment(const char *name);

/* Before the first thread: lets all threads use the memory that one has freed. */
void agt_process_share_memory(void);

/* Raises the soft limit of open files to the hard one. */
void agt_process_raise_files(void);

/* Waits for one of the signals, at most `timeout_ms`. Returns it, or 0. */
int agt_process_wait(const sigset_t *signals, int timeout_ms);

/* From now on each of the signals ends the process at once. */
void agt_process_unblock(const sigset_t *signals);
