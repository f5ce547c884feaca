/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What pid 1 of a container sets for the program, besides what the engine has. */

/* Takes a struct sbx_stream_limits over, for itself and so for all that come from it. Returns 0 or
 * -errno. */
int sbx_stream_take_limits(const void *data);

/* For the next process that is forked: the kernel kills it before this one. */
void sbx_stream_raise_oom_score(void);

/* Takes that back: for one that is to stay when others of its box are killed. */
void sbx_stream_lower_oom_score(void);
