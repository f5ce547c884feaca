/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/boxstream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbx_relay_order;

#define SBX_RELAY_FRAME_MAX (sizeof(struct sbx_stream_header) + SBX_STREAM_DATA_MAX)

/* A file that goes out in frames; mapped until the process ends. */
struct sbx_relay_source {
    enum sbx_stream_kind kind;
    const uint8_t *data;
    size_t size;
    size_t at;
};

/*
 * The half of a relay that talks to the container: which frame comes next, and
 * the frames on their way. It reads the program's input from STDIN_FILENO and
 * writes to SBX_RELAY_FD_SOCKET. What the backend wants is set in here by the
 * other half. Embedded, as SBX_RELAY_SENDER_INIT.
 */
struct sbx_relay_sender {
    struct sbx_relay_source sources[2];
    bool has_limits; /* to send */
    struct sbx_stream_limits limits;
    struct sbx_stream_prepare prepare;
    bool is_prepare_sent;
    bool must_go;
    bool is_started;
    bool is_session; /* its box goes on: the end of the run is agreed upon, see boxstream.h */
    bool must_kill;
    uint32_t end; /* what END says then */
    bool is_kill_sent;
    bool is_stdin_over;
    bool is_gone;     /* the container: what it sent can still be read */
    uint32_t credit;  /* bytes of input that sandbox-init has room for */
    uint64_t signals; /* to send: a bit for each, from 1 */
    bool has_size;    /* to send */
    uint32_t size;    /* of the terminal */

    uint8_t out[2 * SBX_RELAY_FRAME_MAX]; /* whole frames, so that what is small goes out as one */
    size_t out_at;
    size_t out_size;
};

#define SBX_RELAY_SENDER_INIT                                                                      \
    {                                                                                              \
        .sources = {{.kind = SBX_STREAM_FILTER}, {.kind = SBX_STREAM_PAYLOAD}},                    \
        .credit = SBX_STREAM_CREDIT,                                                               \
    }

/* Maps the payload, and the filter where there is one to send. Returns 0 or -errno. */
int sbx_relay_sender_map(struct sbx_relay_sender *sender, bool has_filter);

/* What sort of run it is, the limits for sandbox-init, and whether GO is sent right behind the
 * rest. */
void sbx_relay_sender_take_order(struct sbx_relay_sender *sender,
                                 const struct sbx_relay_order *order);

/* Sandbox-init has room for so many bytes of input more. Returns 0, or -EPROTO for more than it can
 * have. */
int sbx_relay_sender_take_credit(struct sbx_relay_sender *sender, uint32_t bytes);

bool sbx_relay_sender_wants_input(const struct sbx_relay_sender *sender);

/* As much as the container takes now. The end of one that is gone comes on the reading side. */
void sbx_relay_sender_send(struct sbx_relay_sender *sender);

/* True while a frame is on its way. */
bool sbx_relay_sender_has_output(const struct sbx_relay_sender *sender);
