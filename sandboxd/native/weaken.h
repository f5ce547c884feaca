/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct sbx_native;

/*
 * The control that backend/weaken.h names, where control groups or user ids
 * are what is left out. Behind the judgement of the host.
 */
void sbx_native_weaken(struct sbx_native *native);
