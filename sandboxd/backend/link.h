/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A backend's side of the wire: which message of the front is legal, and what
 * is refused before anything is made for it. The same for every backend.
 */
struct sbx_link_ops {
    bool (*is_live)(void *user, uint64_t run);
    /* Returns 0 and keeps the fds, or an errno: the run is refused. */
    int (*begin)(void *user, const struct sbx_msg_run *msg, const int fds[SBX_RUN_FDS]);
    /* About live runs only. drained returns -EPROTO in a state that does not allow it. */
    void (*cancel)(void *user, uint64_t run);
    void (*output_limit)(void *user, const struct sbx_msg_output_limit *msg);
    int (*drained)(void *user, const struct sbx_msg_drained *msg);
    void (*signal)(void *user, const struct sbx_msg_signal *msg);
    void (*resize)(void *user, const struct sbx_msg_resize *msg);
    /* Returns 0; EEXIST when its number is that of a live one; or another errno: it is refused. */
    int (*open_session)(void *user, const struct sbx_msg_open *msg);
    void (*close_session)(void *user, uint64_t id); /* or it is gone already */
};

struct sbx_link {
    int fd; /* -1 once the front is gone */
    uint32_t cgroup_version;
    struct sbx_limits maximum;
    const struct sbx_link_ops *ops;
    void *user;
};

/*
 * Takes what the front has sent, a bounded number of messages so that it
 * cannot starve the clocks. Returns 0, -EPIPE at the end, -EPROTO for what no
 * front may send (logged).
 */
int sbx_link_read(struct sbx_link *link);

/* Sends; a front that does not take a message is dropped: its end comes as -EPIPE. */
void sbx_link_send(const struct sbx_link *link, const union sbx_msg *msg);
