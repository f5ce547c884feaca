/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Between the supervisor and its children: a SOCK_SEQPACKET pair whose end is
 * the end of the child. A backend waits for that end and says that it turns;
 * the front also says other things, and hears some.
 */
#define SBX_LIFELINE_VERSION UINT32_C(1)

enum sbx_lifeline_type {
    SBX_LIFELINE_READY = 1,  /* front ▶ supervisor: it serves; value: slots of the backend */
    SBX_LIFELINE_WIRE = 2,   /* supervisor ▶ front, with one fd: the wire of a new backend */
    SBX_LIFELINE_TLS = 3,    /* supervisor ▶ front, with one fd: new certificates */
    SBX_LIFELINE_TOKENS = 4, /* supervisor ▶ front, with one fd: new tokens */
    SBX_LIFELINE_TAKEN = 5,  /* front ▶ supervisor: they are in use; value: which of the two */
    SBX_LIFELINE_TURNS = 6,  /* child ▶ supervisor, about once a second from when it is set up on:
                                what it waits and works with turns */
};

struct sbx_lifeline_msg {
    uint32_t version; /* SBX_LIFELINE_VERSION */
    uint32_t type;    /* enum sbx_lifeline_type */
    uint32_t value;
    uint32_t reserved; /* 0 */
};

/* Sends one message; `fd` (borrowed) goes along unless it is -1. Does not wait. Returns 0 or
 * -errno. */
int sbx_lifeline_send(int socket_fd, enum sbx_lifeline_type type, uint32_t value, int fd);

/*
 * Receives one message; does not wait. *ret_fd is -1, or CLOEXEC and owned by
 * the caller. Returns 0, -EAGAIN, -EPIPE at the end, -EPROTO for anything
 * that is not a message.
 */
int sbx_lifeline_receive(int socket_fd, struct sbx_lifeline_msg *ret_msg, int *ret_fd);
