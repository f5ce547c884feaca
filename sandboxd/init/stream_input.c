/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream_input.h"

#include "common/auto.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void sbx_stream_input_close(struct sbx_stream_input *input)
{
    cr_close_fd(&input->fd);
    input->size = 0;
    input->at = 0;
}

void sbx_stream_input_keep(struct sbx_stream_input *input, const struct sbx_stream_item *item)
{
    if (input->fd < 0)
        return;
    if (item->size == 0) {
        input->is_ending = true;
    } else {
        memcpy(input->bytes + input->size, item->data, item->size);
        input->size += item->size;
    }
}

void sbx_stream_input_write(struct sbx_stream_input *input)
{
    while (input->at < input->size) {
        ssize_t n = write(input->fd, input->bytes + input->at, input->size - input->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* EPIPE: the program does not read it */
            sbx_stream_input_close(input);
            return;
        }
        input->at += (size_t)n;
    }
    input->at = 0;
    input->size = 0;
    if (input->is_ending)
        sbx_stream_input_close(input);
}
