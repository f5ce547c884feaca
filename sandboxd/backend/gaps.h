/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdint.h>

struct cr_err;

/* Controls that a host cannot enforce: refused, unless the operator accepts each by name. */

/* Refuses names in `accepted` (comma-separated; NULL: none) that are no control. Pure. */
int sbx_gaps_check_names(const char *accepted, struct cr_err *err);

/* Refuses `control` when it is a gap that is not in `accepted`; the error says the fix. Pure. */
int sbx_gaps_check(const uint8_t controls[SBX_CONTROL_COUNT], uint32_t control,
                   const char *accepted, struct cr_err *err);

/* The same for an ordinary user (`--rootless`), for whom what is partial is lost, too. */
int sbx_gaps_check_rootless(const uint8_t controls[SBX_CONTROL_COUNT], uint32_t control,
                            const char *accepted, struct cr_err *err);

/* Both of the first two, for all controls. Pure. */
int sbx_gaps_check_all(const uint8_t controls[SBX_CONTROL_COUNT], const char *accepted,
                       struct cr_err *err);
