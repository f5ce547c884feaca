/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/process.h"

#include "common/err.h"
#include "common/log.h"
#include "common/privilege.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/resource.h>

int agt_process_block_signals(sigset_t *ret_signals, struct cr_err *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int error;

    (void)sigemptyset(ret_signals);
    (void)sigaddset(ret_signals, SIGTERM);
    (void)sigaddset(ret_signals, SIGINT);
    (void)sigaddset(ret_signals, SIGHUP);
    error = pthread_sigmask(SIG_BLOCK, ret_signals, NULL);
    if (error)
        return cr_err_sys(err, error, "block SIGTERM, SIGINT and SIGHUP");
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return cr_err_sys(err, errno, "ignore SIGPIPE");
    return 0;
}

int agt_process_confine(uint32_t uid, struct cr_err *err)
{
    const struct rlimit no_core = {0, 0};

    bool is_drop = uid != 0 && geteuid() == 0;
    int r;

    /* Without the setting it is still root, or whoever, but without any capability. */
    r = cr_privilege_drop(is_drop ? uid : getuid(), is_drop ? uid : getgid(), err);
    if (r < 0)
        return cr_err_wrap(err, "give up privileges");
    if (geteuid() == 0)
        cr_log_warn("running as root, which nothing here needs; --user=UID drops it");
    /* After setresuid(2), which sets it anew. The key is in this memory. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return cr_err_sys(err, errno, "become undumpable");
    if (setrlimit(RLIMIT_CORE, &no_core) < 0)
        return cr_err_sys(err, errno, "switch off core dumps");
    return 0;
}

void agt_process_wipe_environment(const char *name)
{
    char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): before the first thread */

    if (!value)
        return;
    explicit_bzero(value, strlen(value));
    (void)unsetenv(name); /* NOLINT(concurrency-mt-unsafe): before the first thread */
}

/*
 * Most of what one thread allocates another frees: with an arena for each thread, what is free in
 * one could not be used by the others.
 */
void agt_process_share_memory(void)
{
    (void)mallopt(M_ARENA_MAX, 2); /* NOLINT(concurrency-mt-unsafe): before the first thread */
}

void agt_process_raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        cr_log_warn("cannot raise the limit of open files, ignoring");
}

int agt_process_wait(const sigset_t *signals, int timeout_ms)
{
    const struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    int received = sigtimedwait(signals, NULL, &timeout);

    return received > 0 ? received : 0;
}

void agt_process_unblock(const sigset_t *signals)
{
    sigset_t stop = *signals;

    (void)sigdelset(&stop, SIGHUP); /* a reload that comes late is none, and no end */
    (void)pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
}
