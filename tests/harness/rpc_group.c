/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/rpc_group.h"

#include "rpc/server.h"

int test_rpc_init(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

int test_rpc_fini(void **state)
{
    (void)state;
    rpc_fini();
    return 0;
}
