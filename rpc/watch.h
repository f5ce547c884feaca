/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What the data pointer of an epoll event points to: something with an fd that
 * knows what to do when it is ready. First member of its owner. Internal to
 * rpc/.
 */
struct rpc_watch {
    void (*on_ready)(struct rpc_watch *watch, uint32_t events, int64_t now_ns);
};
