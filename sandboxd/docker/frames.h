/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * How the engine joins the two output streams of a container without a
 * terminal: frames of {stream, 0, 0, 0, size as 32 bits big endian} and the
 * bytes (Engine API, "Stream format"). Its frames say nothing about where the
 * writer's own writes began or ended. Pure.
 */
struct sbx_docker_frames {
    uint8_t header[8];
    uint32_t header_have;
    uint32_t left; /* bytes of the frame that did not come yet */
};

struct sbx_docker_piece {
    uint32_t stream; /* 1 stdout, 2 stderr; 0: more bytes are needed */
    const uint8_t *data;
    size_t size;
};

/*
 * Takes bytes up to the end of the next piece; call again with the rest.
 * Returns the number of bytes taken, or -EPROTO when it is no such stream.
 */
int sbx_docker_frames_feed(struct sbx_docker_frames *frames, const uint8_t *data, size_t size,
                           struct sbx_docker_piece *ret_piece);
