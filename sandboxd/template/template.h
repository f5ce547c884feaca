/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/template.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct cr_err;
struct sbx_cgroup;

/*
 * A template, seen from the backend: the interpreter of a runtime as user 0 of
 * a user namespace that owns nothing of the host, with its modules loaded. It
 * has only ever run code of the host's packages and ours. Boxes that it forks
 * are children of the backend: they outlive it. Embedded; one thread.
 */
struct sbx_template {
    enum sbx_template_kind kind;
    pid_t pid;
    int pidfd;
    int fd;      /* SOCK_SEQPACKET, non-blocking */
    int text_fd; /* what it writes on stderr, for the log */
    bool is_ready;
    uint32_t boxes; /* that it was asked for */
    uint64_t
        memory_bytes; /* when it was ready: its programs share it, and are not charged for it */
    int64_t started_ns;
    uint64_t packages; /* sbx_template_packages() when it was started */
};

#define SBX_TEMPLATE_INIT                                                                          \
    {                                                                                              \
        .pid = -1, .pidfd = -1, .fd = -1, .text_fd = -1                                            \
    }

/* What every template of a backend is started with; fds are borrowed. */
struct sbx_template_host {
    int image_fd;  /* sbx_template_image_load() */
    int userns_fd; /* sbx_template_userns_make() */
    int init_fd;
    int seccomp_fd;
    uint32_t places; /* boxes at one time */
};

struct sbx_template_box {
    const struct sbx_cgroup *group;
    const struct sbx_limits *limits;
    int workspace_fd;
    uint32_t place; /* fixes the host ids */
    uint64_t id;    /* comes back with the answer */
};

/* What a template says. */
enum sbx_template_event_kind {
    SBX_TEMPLATE_EVENT_READY,
    SBX_TEMPLATE_EVENT_BOX,    /* a box runs: id, pid, pidfd */
    SBX_TEMPLATE_EVENT_NO_BOX, /* a box could not be forked: id, error */
};

struct sbx_template_event {
    enum sbx_template_event_kind kind;
    uint64_t id;
    int error;
    pid_t pid;
    int pidfd; /* owned by the caller */
};

/*
 * Copies what is loaded into interpreters into a sealed memfd. `path` NULL:
 * crisol-template.so beside our own binary.
 */
int sbx_template_image_load(const char *path, int *ret_fd, struct cr_err *err);

/*
 * Makes the user namespace of all templates: its user 0 is the host's id
 * before those of the places, which begin at `uid_base`. Needs /proc.
 */
int sbx_template_userns_make(uint32_t uid_base, uint32_t places, int *ret_fd, struct cr_err *err);

/* A digest of size and time of the interpreter and the folders that its packages lie in. */
uint64_t sbx_template_packages(enum sbx_template_kind kind);

/*
 * Starts a template in the caller's root file system and returns at once:
 * READY comes on its fd. On failure *ret_template is untouched.
 */
int sbx_template_start(const struct sbx_template_host *host, enum sbx_template_kind kind,
                       struct sbx_template *ret_template, struct cr_err *err);

/*
 * Asks for a box; the answer comes on its fd. *ret_control_fd is the backend's
 * end of the control socket: WAITING of boxctl.h comes there. The box is a
 * child of the caller. Returns 0 or -errno; a template that cannot take more
 * is -EAGAIN, one that is gone -EPIPE.
 */
int sbx_template_ask(struct sbx_template *template, const struct sbx_template_box *box,
                     int *ret_control_fd, struct cr_err *err);

/* The next thing that it said: 0, -EAGAIN, or -EPIPE when it is gone (logged with its last words):
 * then the caller ends it.
 */
int sbx_template_receive(struct sbx_template *template, struct sbx_template_event *ret_event);

/* True when packages changed since it was started. */
bool sbx_template_has_changed(const struct sbx_template *template);

/* True when a new one should take its place: by count, age, or because packages changed. */
bool sbx_template_is_stale(const struct sbx_template *template, uint32_t most_boxes,
                           int64_t most_age_ns);

/* Ends it and closes everything; its boxes go on. Safe to repeat. */
void sbx_template_stop(struct sbx_template *template);

/*
 * The same without waiting for its end, which takes as long as its memory
 * takes to free: returns the pid that is to be reaped, or -1.
 */
pid_t sbx_template_leave(struct sbx_template *template);
