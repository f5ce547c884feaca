/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/*
 * What is loaded into the interpreter of a template (crisol-template.so). One
 * thread. Nothing of it is visible to Python code in a box: no module, no
 * frame, no name.
 */

/* What an fd of the interpreter is, by what it was made from. */
enum sbx_preload_fd_kind {
    SBX_PRELOAD_STDIN, /* a duplicate of fd 0, and so on */
    SBX_PRELOAD_STDOUT,
    SBX_PRELOAD_STDERR,
    SBX_PRELOAD_TEMPORARY, /* a file without a name, such as pytest captures into */
    SBX_PRELOAD_NULL,      /* /dev/null, which needs no care */
};

struct sbx_preload_fd {
    int fd;
    enum sbx_preload_fd_kind kind;
    int flags; /* O_CLOEXEC or 0 */
};

#define SBX_PRELOAD_FDS_MAX 64U

/* The open fds below SBX_TEMPLATE_FD_FIRST that a box gets anew. */
struct sbx_preload_fds {
    struct sbx_preload_fd list[SBX_PRELOAD_FDS_MAX];
    size_t count;
};

/* Device and inode of a template's own stream. */
struct sbx_preload_stream {
    dev_t device;
    ino_t inode;
};

/* Pages that a run writes to, found by a trial: made ahead, they cost the request nothing. */
struct sbx_preload_range {
    uint64_t address;
    uint64_t size;
};

#define SBX_PRELOAD_RANGES_MAX 4096U

struct sbx_preload {
    enum sbx_template_kind kind;
    bool is_alone; /* forks nothing: it becomes the one program itself */
    uint32_t places;
    struct sbx_preload_stream streams[3];
    struct sbx_preload_fds fds;
    struct sbx_preload_range *ranges;
    size_t range_count;
    bool is_done;      /* the hook was called */
    bool is_child;     /* a program, or the trial */
    bool is_trial;     /* runs trusted tests to find the ranges */
    int trial_fd;      /* where the trial reports to */
    char **extra_args; /* of the program: those behind the runtime's own */
    size_t extra_count;
};

/* How serving ended in a child. */
enum sbx_preload_outcome {
    SBX_PRELOAD_RUN,    /* go on as the program */
    SBX_PRELOAD_FAILED, /* a Python exception is set */
};

/* preload.c */

/* Tells the backend that the template cannot serve, and ends it. */
_Noreturn void sbx_preload_fail(const char *step, int error);

/* Runtime python wants to see a program before it is hooked; relative to /workspace. */
#define SBX_PRELOAD_ENTRY "main.py"

/* spawn.c */

/*
 * Makes a box and the program in it. Returns twice: in the template the pid of
 * the box (or -errno) with its pidfd; in the program 0, with the channel to
 * its sandbox-init. The pid is a sibling, not a child.
 */
pid_t sbx_preload_spawn(const struct sbx_template_msg *msg, const int *fds, size_t count,
                        int *ret_pidfd, int *ret_channel_fd);

/* program.c */

/* Looks at the fds that are open; an unknown one is -EBADF. */
int sbx_preload_classify(struct sbx_preload *preload);

/* Puts `stdio` and fresh temporary files in the place of the template's. Returns 0 or -errno. */
int sbx_preload_replace_fds(const struct sbx_preload *preload, const int stdio[3], bool want_files,
                            bool want_streams);

/*
 * In a program that was just forked, or is alone: gives up everything, then waits for the
 * fds and the word to go. Ends the process when the box does. When the request
 * is not what the template was made for, becomes the program as without a
 * template, and does not return either.
 */
void sbx_preload_become_program(struct sbx_preload *preload, int channel_fd);

/* populate.c */

/* In the trial, at its end: reports the private pages on trial_fd. */
void sbx_preload_report_ranges(const struct sbx_preload *preload);

/* In the template: reads the report of the trial. Returns 0 or -errno. */
int sbx_preload_read_ranges(struct sbx_preload *preload, int fd);

/* Memory of this process that is no file's; 0 when the kernel does not tell. */
uint64_t sbx_preload_own_bytes(void);

/* In a program: makes those pages its own. Best effort: what fails costs time later. */
void sbx_preload_populate(const struct sbx_preload *preload);

/* serve.c */

/*
 * Forks boxes until the backend is gone, and returns only in a child. One that
 * is alone waits for its run, and returns as its program.
 */
enum sbx_preload_outcome sbx_preload_serve(struct sbx_preload *preload);

/* boot.c */

/* pytest, from the warm sessions to its exit. Returns -1 with the exception that ended it. */
int sbx_preload_run_pytest(struct sbx_preload *preload);

/* In a program of runtime python: what sys.argv has more. Returns 0, or -1 with an exception. */
int sbx_preload_add_args(const struct sbx_preload *preload);
