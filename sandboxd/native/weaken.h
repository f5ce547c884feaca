/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct cr_err;
struct sbx_native;

/* What of backend/weaken.h this backend can leave out: all but what sandbox-init alone does. */
int sbx_native_may_weaken(uint32_t control, struct cr_err *err);

/*
 * The control that backend/weaken.h names, where control groups or user ids
 * are what is left out. Behind the judgement of the host.
 */
void sbx_native_weaken(struct sbx_native *native);
