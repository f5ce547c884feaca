/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream_input.h"

#include "common/auto.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define END_OF_INPUT 4 /* ^D: VEOF of a new terminal */

void sbx_stream_input_close(struct sbx_stream_input *input)
{
    cr_close_fd(&input->fd);
    input->size = 0;
    input->at = 0;
}

int sbx_stream_input_keep(struct sbx_stream_input *input, const struct sbx_stream_item *item)
{
    if (item->size > SBX_STREAM_CREDIT - input->taken)
        return -EPROTO;
    input->taken += item->size;
    if (input->fd < 0)
        return 0;
    if (item->size > 0)
        memcpy(input->bytes + input->size, item->data, item->size);
    input->size += item->size;
    if (item->size == 0 && !input->is_ending) {
        input->is_ending = true;
        if (input->is_terminal)
            input->bytes[input->size++] = END_OF_INPUT;
    }
    return 0;
}

uint32_t sbx_stream_input_take_credit(struct sbx_stream_input *input)
{
    const size_t taken = input->size == 0 ? input->taken : 0;

    input->taken -= taken;
    return (uint32_t)taken;
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

void sbx_stream_input_renew(struct sbx_stream_input *input)
{
    sbx_stream_input_close(input);
    input->is_ending = false;
    input->is_terminal = false;
    input->at = 0;
    input->size = 0;
    input->taken = 0;
}
