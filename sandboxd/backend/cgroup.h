/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_buf;
struct cr_err;
struct sbx_limits;
struct sbx_cgroup;
struct sbx_cgroup_usage;
struct sbx_watch;

/* What a group must be able to do; on v1 each has a hierarchy of its own. */
enum sbx_controller {
    SBX_CONTROLLER_MEMORY,
    SBX_CONTROLLER_CPU,
    SBX_CONTROLLER_CPUACCT,
    SBX_CONTROLLER_PIDS,
    SBX_CONTROLLER_FREEZER, /* no limit: who waits for the next run stands still, see freeze */
    SBX_CONTROLLER_COUNT,
};

/* What is read of a group and written to it, each a file of its own. */
enum sbx_cgroup_file {
    SBX_CGROUP_FILE_CPU,
    SBX_CGROUP_FILE_CPU_USER,
    SBX_CGROUP_FILE_CPU_SYSTEM,
    SBX_CGROUP_FILE_CPU_STAT,
    SBX_CGROUP_FILE_MEMORY_PEAK,
    SBX_CGROUP_FILE_MEMORY_PEAK_ALONE, /* where swap is not counted */
    SBX_CGROUP_FILE_MEMORY_EVENTS,
    SBX_CGROUP_FILE_PROCESSES,
    SBX_CGROUP_FILE_PROCESSES_PEAK,
    SBX_CGROUP_FILE_PROCESS_EVENTS,
    SBX_CGROUP_FILE_MEMORY_USAGE,
    SBX_CGROUP_FILE_MEMORY_LIMIT,
    SBX_CGROUP_FILE_SWAP_LIMIT, /* v1: of memory and swap together */
    SBX_CGROUP_FILE_OOM_GROUP,
    SBX_CGROUP_FILE_CPU_LIMIT, /* v1: the quota alone */
    SBX_CGROUP_FILE_CPU_PERIOD,
    SBX_CGROUP_FILE_CPU_WEIGHT,
    SBX_CGROUP_FILE_PROCESSES_LIMIT,
    SBX_CGROUP_FILE_FREEZE,
    SBX_CGROUP_FILE_FROZEN, /* whether that has come to be; on version 1 the same file tells */
    SBX_CGROUP_FILE_COUNT,
};

struct sbx_cgroup_file_name {
    enum sbx_controller controller;
    const char *name; /* NULL: this version has none */
    bool is_written;  /* and read back */
};

/* A share that nobody can use up, in microseconds of a period. Not "none": to turn bandwidth on and
 * off again is a change of the kernel's code. */
#define SBX_CGROUP_WIDE_US (UINT64_C(1) << 32)

/* What differs between the versions. */
struct sbx_cgroup_ops {
    uint32_t version;
    const char *entry; /* the file to which "0" is written by who enters */
    struct sbx_cgroup_file_name files[SBX_CGROUP_FILE_COUNT];
    int64_t look_ns; /* how often somebody has to look; 0: the kernel tells */
    uint32_t weight; /* the kernel's standard in SBX_CGROUP_FILE_CPU_WEIGHT */
    int (*limit)(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                 struct cr_err *err);
    int (*limit_cpu)(const struct sbx_cgroup *group, uint64_t millicores, struct cr_err *err);
    int (*widen)(
        const struct sbx_cgroup *group); /* to a share that nobody can use up; NULL: cannot be */
    int (*arm)(struct sbx_cgroup *group, struct cr_err *err); /* with a memory controller */
    int (*usage)(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                 struct cr_err *err);
    int (*cpu_us)(const struct sbx_cgroup *group, uint64_t *ret_us);
    int (*oom_kills)(const struct sbx_cgroup *group, uint64_t *ret_count);
    int (*hear)(const struct sbx_cgroup *group); /* NULL: there is nothing to hear */
    int (*memory_bytes)(const struct sbx_cgroup *group, uint64_t *ret_bytes); /* as arm */
    int (*kill)(const struct sbx_cgroup *group);                              /* NULL: cannot be */
    int (*renew)(const struct sbx_cgroup *group);                             /* NULL: cannot be */
    const char *freeze_words[2]; /* what is written to let them go on, and to freeze them */
    bool (*is_frozen)(const struct sbx_cgroup *group); /* NULL: never */
};

/*
 * The part of the host's control groups that belongs to this process: one
 * folder "crisol-native-PID" below its own path in each hierarchy, locked by
 * flock(2) as long as its owner lives, so that a successor knows an orphan
 * from a neighbour. Embedded; one thread. Nothing here reads anything that a
 * sandboxed program can write.
 */
struct sbx_cgroup_host {
    const struct sbx_cgroup_ops *ops;
    uint32_t hierarchy_count;
    int own_fds[SBX_CONTROLLER_COUNT];   /* per hierarchy: the own path */
    int base_fds[SBX_CONTROLLER_COUNT];  /* per hierarchy: our folder there */
    int hierarchy[SBX_CONTROLLER_COUNT]; /* per controller: index of its hierarchy, or -1 */
    bool has_swap;                       /* memory and swap can be limited together */
    bool is_memory_unseen;               /* where processes are looked at: left out, for the */
    bool is_pids_unseen;                 /* self-test; see weaken.h */
    char base_name[32];
};

/* One group; the fds are its folders. */
struct sbx_cgroup {
    const struct sbx_cgroup_host *host; /* borrowed: outlives the group */
    uint32_t number;
    bool is_behind;                      /* see sbx_cgroup_fall_behind() */
    int fds[SBX_CONTROLLER_COUNT];       /* per hierarchy; -1 when closed */
    int event_fd;                        /* readable (v1) or EPOLLPRI (v2) after an OOM event */
    const struct sbx_cgroup_usage *told; /* borrowed; of sbx_cgroup_open_told() */
    struct sbx_watch *watch;             /* see cgroup_watched.h; NULL: the kernel counts */
    bool has_files;                      /* the next are open, or -1 where there is none */
    int file_fds[SBX_CGROUP_FILE_COUNT];
    int entry_fds[SBX_CONTROLLER_COUNT]; /* likewise, per hierarchy: what is written to enter */
};

struct sbx_cgroup_usage {
    uint64_t cpu_total_us;
    uint64_t cpu_user_us;   /* 0 when the kernel does not split it */
    uint64_t cpu_system_us; /* 0 likewise */
    uint64_t cpu_throttled_us;
    uint64_t memory_peak_bytes; /* 0 when the kernel does not tell */
    uint64_t oom_kills;
    uint64_t processes_peak; /* 0 when the kernel does not tell */
    uint64_t process_limit_hits;
};

/* Nothing found and nothing open yet. */
void sbx_cgroup_host_init(struct sbx_cgroup_host *host, const struct sbx_cgroup_ops *ops);

/* Finds the hierarchies of this process. Missing controllers leave hierarchy[] at -1. */
int sbx_cgroup_host_find(struct sbx_cgroup_host *host, struct cr_err *err);

/* For a process that has groups of others: what they can be asked for, by what our own group
 * tells (has_swap, and on version 2 the freezer). */
void sbx_cgroup_host_observe(struct sbx_cgroup_host *host);

/*
 * Opens the group of another process, whose path must have the component
 * `name` in every hierarchy (or else it is not the process that is meant).
 * On failure *ret_group is untouched.
 */
int sbx_cgroup_open_of(const struct sbx_cgroup_host *host, pid_t pid, const char *name,
                       struct sbx_cgroup *ret_group, struct cr_err *err);

/*
 * For a process whose groups are on another host: their counters are what
 * somebody told of them. Instead of sbx_cgroup_host_find(); the version is 0.
 */
void sbx_cgroup_host_be_told(struct sbx_cgroup_host *host);

/* Such a group; its counters are always those of `told`, which outlives it. */
void sbx_cgroup_open_told(const struct sbx_cgroup_host *host, const struct sbx_cgroup_usage *told,
                          struct sbx_cgroup *ret_group);

/* Makes and locks our folder in every hierarchy found. */
int sbx_cgroup_host_open(struct sbx_cgroup_host *host, struct cr_err *err);

/* True when hierarchy `i` is that of the freezer and of nothing else: it limits nothing. */
bool sbx_cgroup_is_freezer_alone(const struct sbx_cgroup_host *host, uint32_t i);

/* Closes the fds; removing the folder is sbx_sweep_own()'s. Safe to repeat. */
void sbx_cgroup_host_close(struct sbx_cgroup_host *host);

/*
 * Make and remove group `number`. Both may wait for an RCU grace period
 * behind somebody else's attach: never called by the loop, only by the keeper.
 * Removing gives -EBUSY while the kernel still tears processes down.
 */
int sbx_cgroup_make(const struct sbx_cgroup_host *host, uint32_t number, struct cr_err *err);
int sbx_cgroup_remove(const struct sbx_cgroup_host *host, uint32_t number);

/* Opens a group that was made. On failure *ret_group is untouched. */
int sbx_cgroup_open(const struct sbx_cgroup_host *host, uint32_t number,
                    struct sbx_cgroup *ret_group, struct cr_err *err);

/* Safe to repeat. */
void sbx_cgroup_close(struct sbx_cgroup *group);

/* Writes every limit but the CPU share and reads it back; a value that did not stick is -EIO. */
int sbx_cgroup_limit(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                     struct cr_err *err);

/*
 * Writes the CPU share, likewise. It comes last, when the box is prepared: the
 * work of our own must not eat the program's share, nor wait for it. A group
 * also owes what it used above its share, and on a machine that is itself held
 * up that debt stops it for many seconds.
 */
int sbx_cgroup_limit_cpu(const struct sbx_cgroup *group, const struct sbx_limits *limits,
                         struct cr_err *err);

/*
 * Lets it have the processor only when groups that did not fall behind leave
 * it free, but for one part in sixteen. For a box that has had much already:
 * so those with little to do need not wait for it. Best effort.
 */
void sbx_cgroup_fall_behind(struct sbx_cgroup *group);

/*
 * Makes up for that, when another program begins in it: to what it was behind
 * by, and no more, since in front of others it would be of use to a program.
 * Returns 0, also when it was not behind, or -errno.
 */
int sbx_cgroup_catch_up(struct sbx_cgroup *group);

/*
 * Lets those who were just killed have the processor: with a share that is used
 * up, or behind others, they could not even die before it is their turn, and
 * while pid 1 of a box waits so, the rest of the box goes on (without
 * cgroup.kill, it is pid 1's end that ends them). Its share has to be limited
 * anew before another box uses it. Best effort.
 */
void sbx_cgroup_hurry(struct sbx_cgroup *group);

/* Opens event_fd. */
int sbx_cgroup_arm(struct sbx_cgroup *group, struct cr_err *err);

/*
 * Opens its files, once for all times they are used. Without it, and for those
 * that do not open, each use opens one; but nobody can enter a group whose
 * entry does not open: that is the error.
 */
int sbx_cgroup_open_files(struct sbx_cgroup *group, struct cr_err *err);

/*
 * Makes a used group as good as new, for another box: its peaks and what its
 * CPU share is owed are forgotten. Its box is dead and reaped. Returns 0; -EBUSY
 * when something of the box is left in it (a process, more memory than a box
 * leaves behind, a peak or a count that cannot be forgotten), -EOPNOTSUPP, or
 * another -errno: then it has to be removed.
 */
int sbx_cgroup_renew(struct sbx_cgroup *group);

/*
 * The peak of the memory counts from now on, so that it does not tell what the
 * box needed before it waited. Best effort: version 2 cannot (a write resets
 * it for the one descriptor only, and since Linux 6.12).
 */
void sbx_cgroup_forget_peak(const struct sbx_cgroup *group);

/* True when this host can freeze groups; else sbx_cgroup_freeze() is -EOPNOTSUPP. */
bool sbx_cgroup_can_freeze(const struct sbx_cgroup_host *host);

/*
 * Makes the kernel hold everybody in the group where he is, whatever signals
 * come, or lets them go on. On version 1 (cgroup-v1/freezer-subsystem.rst) a
 * SIGKILL waits as well: who kills a frozen group lets it go on behind that. On
 * version 2 (cgroup-v2.rst, cgroup.freeze) the frozen can be killed. It is
 * asked for in here, and has come to be when sbx_cgroup_is_frozen() says so:
 * at once for who is stopped already. Returns 0 or -errno.
 */
int sbx_cgroup_freeze(const struct sbx_cgroup *group, bool is_frozen);
bool sbx_cgroup_is_frozen(const struct sbx_cgroup *group);

/*
 * Keeps a group frozen, below the folder of the freezer's hierarchy, in which
 * nobody ever is. On version 1 the first frozen group of a machine, and the
 * last, make the kernel change its own code, which takes milliseconds; with this
 * one there is always another. Goes with the folder's other groups. Best effort,
 * and nothing on version 2.
 */
void sbx_cgroup_keep_frozen_one(const struct sbx_cgroup_host *host, int folder_fd);

/* Takes the notice that event_fd gave; only a later event wakes again. Returns 0 or -errno. */
int sbx_cgroup_hear(const struct sbx_cgroup *group);

/* The folder for CLONE_INTO_CGROUP on v2; -1 on v1, where the child attaches itself. */
int sbx_cgroup_clone_fd(const struct sbx_cgroup *group);

/*
 * The entry of each of its folders (borrowed): a process of one thread that
 * writes "0" there becomes a member, whatever it may do itself; what counts is
 * who opened it. Returns how many; none before sbx_cgroup_open_files().
 */
size_t sbx_cgroup_entries(const struct sbx_cgroup *group, int ret_fds[SBX_CONTROLLER_COUNT]);

/* Kills every member where the kernel can (v2); -EOPNOTSUPP on v1. */
int sbx_cgroup_kill(const struct sbx_cgroup *group);

/* Counters. */
int sbx_cgroup_usage(const struct sbx_cgroup *group, struct sbx_cgroup_usage *ret_usage,
                     struct cr_err *err);
int sbx_cgroup_cpu_us(const struct sbx_cgroup *group, uint64_t *ret_us);
int sbx_cgroup_oom_kills(const struct sbx_cgroup *group, uint64_t *ret_count);

/* True when it has one member at most; false also when nobody can tell. */
bool sbx_cgroup_is_alone(const struct sbx_cgroup *group);

/* What it is charged for now; 0 where memory is not controlled. */
int sbx_cgroup_memory_bytes(const struct sbx_cgroup *group, uint64_t *ret_bytes);

/* Finding groups. */

extern const char *const sbx_controller_names[SBX_CONTROLLER_COUNT];

/* Reads a file of /proc to its end. */
int sbx_cgroup_read_proc(const char *path, struct cr_buf *buf, struct cr_err *err);

/*
 * Opens the folder of a process in the hierarchy of `controller` (NULL: v2);
 * `cgroups` is its /proc/PID/cgroup, `mounts` our own mountinfo. Returns the
 * fd or -errno.
 */
int sbx_cgroup_open_path(const char *cgroups, const char *mounts, const char *controller);

/* Helpers of the two versions. `name` is a file of the folder `fd`. */

/* The folder that holds `controller` of this group, or -1. */
int sbx_cgroup_fd(const struct sbx_cgroup *group, enum sbx_controller controller);

/* Writes a number and compares what the file then says: -EIO when that is another. */
int sbx_cgroup_put(const struct sbx_cgroup *group, enum sbx_cgroup_file file, uint64_t value,
                   struct cr_err *err);
/* Writes any text. Returns 0 or -errno. */
int sbx_cgroup_put_text(const struct sbx_cgroup *group, enum sbx_cgroup_file file,
                        const char *text);
int sbx_cgroup_write(int fd, const char *name, const char *text);
/* The whole file as text, and no more than fits: `ret_text` is terminated. Returns 0 or -errno.
 * With AT_FDCWD and an absolute path it reads any file of the kernel's kind. */
int sbx_cgroup_read(int fd, const char *name, char *ret_text, size_t size);

/*
 * The processes of the folder `fd`, a number in each line: as many whole ones
 * as fit, since half a number is that of somebody else. Returns 0, 1 when there
 * are more, or -errno.
 */
int sbx_cgroup_read_members(int fd, char *ret_text, size_t size);

/*
 * A counter, or with `key` (NULL: none) the number behind it in a file of "key
 * number" lines. Returns 0 or -errno; -EOPNOTSUPP where there is no such file.
 */
int sbx_cgroup_count(const struct sbx_cgroup *group, enum sbx_cgroup_file file, const char *key,
                     uint64_t *ret_value);

/* The same for what may be missing: 0 where the controller is not there, or left out for the
 * self-test. */
int sbx_cgroup_count_or_none(const struct sbx_cgroup *group, enum sbx_cgroup_file file,
                             const char *key, uint64_t *ret_value);

/* The text of its file. */
int sbx_cgroup_read_file(const struct sbx_cgroup *group, enum sbx_cgroup_file file, char *ret_text,
                         size_t size);

/* Pure: the number behind `key` in such a text. Returns 0, -ENOENT or -EINVAL. */
int sbx_cgroup_find_key(const char *text, const char *key, uint64_t *ret_value);

/*
 * Bandwidth as quota and period in microseconds. The kernel wants a quota of
 * at least 1 ms, so small values get a longer period.
 */
void sbx_cgroup_bandwidth(uint64_t millicores, uint64_t *ret_quota_us, uint64_t *ret_period_us);

extern const struct sbx_cgroup_ops sbx_cgroup_v1;
extern const struct sbx_cgroup_ops sbx_cgroup_v2;

/*
 * A backend that is started again finds itself in the leaf of
 * sbx_cgroup_v2_delegate(): our own group is then the leaf's parent.
 */
int sbx_cgroup_v2_leave_leaf(struct sbx_cgroup_host *host, struct cr_err *err);

/*
 * Moves the processes of our own group into a leaf beside our folder and turns
 * the controllers on: v2 allows no process in a group whose children have
 * controllers (cgroups(7), "no internal processes").
 */
int sbx_cgroup_v2_delegate(struct sbx_cgroup_host *host, struct cr_err *err);

/* Turns the controllers on for the children of the folder `fd`. */
int sbx_cgroup_v2_enable(int fd, const struct sbx_cgroup_host *host, struct cr_err *err);
