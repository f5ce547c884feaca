/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/status.h"

struct cr_buf;

/*
 * Why a request is refused, in the shape that FastAPI answers:
 * 422 {"detail":[{"loc":["body","task"],"msg":…,"type":…}]} for a body, or a
 * query, that can be read but not used, {"detail":"…","code":"…"} for everything else.
 */
struct agt_problem {
    int http_status;
    struct rpc_status status; /* the text, and the violations of a 422 */
    const char *type;         /* of the violations; NULL: "value_error". Static storage */
    const char *place; /* of what they name; NULL: by their names, or "body". Static storage */
    const char *allow; /* value of Allow for a 405; NULL: none. Static storage */
};

/* Sets a problem without violations. */
void agt_problem_set(struct agt_problem *problem, int http_status, enum rpc_code code,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * From the status of a call. A missing model key (FAILED_PRECONDITION) is 503,
 * because nothing is wrong with the request; a status INVALID_ARGUMENT is 422.
 */
void agt_problem_from_status(struct agt_problem *problem, const struct rpc_status *status);

/* Seconds for Retry-After; 0: none. 429 has one, and 503 unless a person must act first. */
int agt_problem_retry_after_s(const struct agt_problem *problem);

/* Appends the JSON body. Returns 0, or as cr_buf_add(). */
int agt_problem_write(const struct agt_problem *problem, struct cr_buf *buf);

/* Likewise, {"message":"…"}, as clients of a judge read it. */
int agt_problem_write_message(const struct agt_problem *problem, struct cr_buf *buf);
