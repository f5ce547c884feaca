/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/confine.h"

#include "common/auto.h"
#include "common/confine.h"

/*
 * Reading stays allowed: gRPC core looks at /proc and the time zone while it
 * runs, and there is nothing secret that this user id may read. Callers come
 * in on sockets of the supervisor; a socket of its own could only carry
 * something out (a datagram needs no connect).
 */
static const struct cr_confine_path paths[] = {{"/", CR_CONFINE_READ}};

static const struct cr_confine_policy policy = {
    .paths = paths,
    .path_count = CR_ARRAY_SIZE(paths),
    .has_ports = true,
};

int sbx_confine(int *ret_landlock_abi, struct cr_err *err)
{
    return cr_confine(&policy, ret_landlock_abi, err);
}
