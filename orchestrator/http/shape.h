/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <crisol/agent/v1/agent.pb-c.h>
#include <stdbool.h>

struct cr_buf;

/*
 * The result of a run as REST has always shown it: {"task","status",
 * "iterations","plan","files":{name:text},"execution_result":{…},
 * "error_history","final_response"}, with more members behind those.
 * Returns 0, or as cr_buf_add().
 */
int agt_shape_write_result(const Crisol__Agent__V1__RunResult *result, struct cr_buf *buf);

/*
 * One event of a run as a frame of server-sent events. State events carry
 * their number as id; the last one, `result`, carries the object of
 * agt_shape_write_result(). `scratch` is emptied first; it keeps its memory
 * from call to call. Returns 0, -EINVAL for an event without content, or as
 * cr_buf_add().
 */
int agt_shape_add_event(const Crisol__Agent__V1__RunEvent *event, bool is_state,
                        struct cr_buf *scratch, struct cr_buf *out);
