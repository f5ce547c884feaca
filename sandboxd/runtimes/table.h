/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/* Below /workspace; names that begin with ".crisol" are refused in requests. */
#define SBX_PYTEST_REPORT ".crisol-report.xml"

/* Runtimes at most, with those that are built in: sets of them are bits of 32. */
#define SBX_RUNTIMES_MAX 31U

/* sha256 of a root file system as hexadecimal digits, and the NUL. */
#define SBX_ROOT_DIGEST_SIZE 65U

enum sbx_rootfs {
    SBX_ROOTFS_HOST,  /* native: the host's own /usr, read-only; docker: the image of the service */
    SBX_ROOTFS_BUILD, /* its own, which `sandboxd runtime build` makes and registers */
};

/* What `sandboxd runtime build` makes a root file system of. Lists are NULL-terminated. */
struct sbx_recipe {
    const char *suite;             /* of Debian */
    const char *const *packages;   /* of Debian; empty: none */
    const char *requirements;      /* file of pip, relative to the runtime file; NULL: none */
    const char *folder;            /* tree that is copied over; likewise */
    const char *archive;           /* image as tar, of docker or OCI, or just a tree; likewise */
    const char *image;             /* its name in the archive; NULL: the only one there */
    const char *const *smoke_code; /* lines of a program that must end well; empty: none */
    const char *smoke_output;      /* what it must print, without a last newline; NULL: anything */
};

/*
 * What can be run, as a runtime file says it (file.h; docs/runtimes.md has the
 * format). Front and backend have the same table; the wire carries an index
 * into it, never a path.
 */
struct sbx_runtime {
    const char *name;
    const char *description;
    const char *entry_file;  /* `code` is written here below /workspace; NULL: code is refused */
    const char *const *argv; /* NULL-terminated; the first is absolute; args come behind */
    const char *const *environment; /* NULL-terminated NAME=value, beside sbx_environment */
    const char *version_path;       /* binary that must exist for the runtime to be offered */
    const char *report_file;  /* JUnit XML below /workspace to collect and parse; NULL: none */
    const char *preload;      /* runtime whose warm interpreters do for this one; NULL: none */
    const char *const *needs; /* NULL-terminated; further paths that must exist to be offered */
    const char *const *version_argv; /* prints the version; empty: version_path --version */
    bool needs_files;                /* refuses a request without files and without code */
    bool is_shipped;                 /* built in */
    bool is_in_image;                /* every image of Dockerfile.sandbox has what it needs */
    const char *cells; /* program that runs `code` in sandboxes that live on; NULL: none */
    enum sbx_rootfs rootfs;
    struct sbx_limits defaults; /* 0: sbx_default_limits */
    /*
     * The stage before: its argv (NULL-terminated; empty: there is none), the paths and patterns
     * below /workspace that it leaves for the program, and its own limits.
     */
    const char *const *compile;
    const char *const *compile_output;
    struct sbx_limits compile_limits; /* 0: sbx_compile_limits */
    struct sbx_recipe recipe;
    char root[SBX_ROOT_DIGEST_SIZE]; /* its own root file system, registered; "": it has none */
    unsigned int name_line;          /* of the file, for errors */
    unsigned int preload_line;       /* likewise */
    void *storage;                   /* owns every text above */
};

/* Sorted by name. Owns its rows. */
struct sbx_runtime_table {
    struct sbx_runtime list[SBX_RUNTIMES_MAX];
    size_t count;
};

/* The runtimes that are built in. Aborts when one of their files is wrong, which a test shows. */
void sbx_runtime_table_init(struct sbx_runtime_table *table);

/*
 * Adds what the file `file` says (a name for errors). `root` is the digest of
 * the root file system that was registered for it, or NULL or "". Refuses,
 * with the file and the line, what sbx_runtime_file_parse() does, a name that
 * is taken (one with a root takes the place of one that is built in and keeps
 * no interpreters waiting), one runtime too many, a `preload` that cannot do
 * for it, and one that needs a root and has none. Returns 0, -EINVAL, or
 * -ENOMEM, and then the table is as it was.
 */
int sbx_runtime_table_add(struct sbx_runtime_table *table, const char *file, const char *text,
                          size_t size, const char *root, struct cr_err *err);

/* The text of a runtime that is built in, for a build of it. Returns 0 or -ENOENT. */
int sbx_runtime_shipped(const char *name, const char **ret_text, size_t *ret_size);

/* 64 hexadecimal digits and nothing else. Pure. */
bool sbx_root_digest_is_valid(const char *digest);

/* Safe to repeat. */
void sbx_runtime_table_done(struct sbx_runtime_table *table);

/*
 * The table of this process: what is built in, and what sbx_runtimes_load()
 * added before the first thread. It does not change from then on.
 */
const struct sbx_runtime *sbx_runtimes(size_t *ret_count);

/* Adds the runtimes of a bundle (bundle.h) on `fd` (borrowed). Once, before the first thread. */
int sbx_runtimes_load(int fd, struct cr_err *err);

/* Returns the index, or -ENOENT. */
int sbx_runtime_find(const char *name);

/* cr_hash() of everything that a run depends on: tells a front and a backend of different builds
 * apart. */
uint64_t sbx_runtimes_digest(void);

/* NAME=value, NULL-terminated: the environment of every program; a request only adds to it. */
extern const char *const sbx_environment[];

/*
 * What a request gets for a limit of 0 when its runtime says nothing else (but
 * cpu_time_ms: the wall limit of the same request); the floors, below which no
 * box could start; and the built-in maxima, which an operator and a backend
 * may lower.
 */
extern const struct sbx_limits sbx_default_limits;
extern const struct sbx_limits sbx_compile_limits; /* the same for the stage before */
extern const struct sbx_limits sbx_minimum_limits;
extern const struct sbx_limits sbx_maximum_limits;
