/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/frames.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define STREAM_STDOUT 1
#define STREAM_STDERR 2

static bool is_header_valid(const uint8_t header[8])
{
    return (header[0] == STREAM_STDOUT || header[0] == STREAM_STDERR) && header[1] == 0 &&
           header[2] == 0 && header[3] == 0;
}

static uint32_t size_of(const uint8_t header[8])
{
    return (uint32_t)header[4] << 24 | (uint32_t)header[5] << 16 | (uint32_t)header[6] << 8 |
           (uint32_t)header[7];
}

int sbx_docker_frames_feed(struct sbx_docker_frames *frames, const uint8_t *data, size_t size,
                           struct sbx_docker_piece *ret_piece)
{
    size_t missing = sizeof(frames->header) - frames->header_have;
    size_t used = size < missing ? size : missing;
    size_t taken;

    *ret_piece = (struct sbx_docker_piece){0};
    if (missing > 0) {
        memcpy(frames->header + frames->header_have, data, used);
        frames->header_have += (uint32_t)used;
        if (frames->header_have < sizeof(frames->header))
            return (int)used;
        if (!is_header_valid(frames->header))
            return -EPROTO;
        frames->left = size_of(frames->header);
    }
    taken = size - used < frames->left ? size - used : frames->left;
    if (taken > 0)
        *ret_piece = (struct sbx_docker_piece){frames->header[0], data + used, taken};
    frames->left -= (uint32_t)taken;
    if (frames->left == 0)
        frames->header_have = 0;
    return (int)(used + taken);
}
