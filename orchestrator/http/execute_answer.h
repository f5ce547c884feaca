/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <crisol/sandbox/v1/sandbox.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

struct cr_buf;

/* What one execution wrote and how it ended, gathered for one JSON answer. */
struct agt_execute_answer {
    const Crisol__Sandbox__V1__ExecuteResult *result; /* borrowed */
    const struct cr_buf *stdout_data;                 /* borrowed */
    const struct cr_buf *stderr_data;                 /* borrowed */
    bool is_cut; /* more was delivered than the answer may hold */
};

/*
 * Appends {"stdout":"…","stderr":"…","result":{…}}. A stream that is not UTF-8
 * is shown with replacement characters and comes a second time, whole, as
 * "stdout_base64" or "stderr_base64". Returns 0, or as cr_buf_add().
 */
int agt_execute_answer_write(const struct agt_execute_answer *answer, struct cr_buf *buf);

/*
 * Appends one event as a frame of server-sent events. Output is shown as
 * text; its bytes come as base64 in "data" only where the text does not say
 * the same. `scratch` is emptied first. Returns 0, -EINVAL for an event
 * without content, or as cr_buf_add().
 */
int agt_execute_add_event(const Crisol__Sandbox__V1__ExecuteResponse *event, struct cr_buf *scratch,
                          struct cr_buf *out);

/* How long a call may take whose program has this wall time, waiting for a slot included; 0:
 * sandboxd's default. */
int agt_execute_deadline_ms(uint32_t wall_time_ms);
