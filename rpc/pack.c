/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pack.h"

#include "common/auto.h"
#include "common/buf.h"

#include <errno.h>
#include <stdlib.h>

int rpc_pack(const ProtobufCMessage *message, uint8_t **ret_packed, size_t *ret_size)
{
    const size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(size + 1);

    if (!packed)
        return -ENOMEM;
    (void)protobuf_c_message_pack(message, packed);
    *ret_packed = packed;
    *ret_size = size;
    return 0;
}

int rpc_pack_into(const ProtobufCMessage *message, struct cr_buf *buf)
{
    CR_AUTO_FREE uint8_t *packed = NULL;
    size_t size = 0;
    int r = rpc_pack(message, &packed, &size);

    return r < 0 ? r : cr_buf_add(buf, packed, size);
}

int rpc_pack_copy(const ProtobufCMessage *message, ProtobufCMessage **ret_copy)
{
    CR_AUTO_FREE uint8_t *packed = NULL;
    ProtobufCMessage *copy;
    size_t size = 0;
    int r = rpc_pack(message, &packed, &size);

    if (r < 0)
        return r;
    copy = protobuf_c_message_unpack(message->descriptor, NULL, size, packed);
    if (!copy)
        return -ENOMEM;
    *ret_copy = copy;
    return 0;
}
