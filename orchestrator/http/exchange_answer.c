/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/log.h"
#include "orchestrator/http/exchange.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/routes.h"
#include "orchestrator/http/sse.h"

#include <errno.h>

void agt_exchange_answer(struct agt_exchange *exchange, int http_status)
{
    exchange->http_status = http_status;
}

void agt_exchange_fail(struct agt_exchange *exchange, const struct agt_problem *problem)
{
    cr_buf_clear(&exchange->out);
    exchange->type = NULL;
    exchange->policy = NULL;
    exchange->file = NULL;
    exchange->http_status = problem->http_status;
    exchange->retry_after_s = agt_problem_retry_after_s(problem);
    exchange->allow = problem->allow;
    if ((exchange->raw_url && agt_route_is_judge(exchange->raw_url)
             ? agt_problem_write_message(problem, &exchange->out)
             : agt_problem_write(problem, &exchange->out)) < 0)
        cr_buf_clear(&exchange->out); /* Out of memory: the status alone must do. */
}

void agt_exchange_fail_internal(struct agt_exchange *exchange, const char *what, int error)
{
    struct agt_problem problem;

    cr_log_error("http request failed path=%s what=%s errno=%d", exchange->route->path, what,
                 -error);
    agt_problem_set(&problem, MHD_HTTP_INTERNAL_SERVER_ERROR, RPC_INTERNAL,
                    "the answer could not be made: %s", what);
    agt_exchange_fail(exchange, &problem);
}

void agt_exchange_begin_stream(struct agt_exchange *exchange)
{
    exchange->http_status = MHD_HTTP_OK;
    exchange->is_stream = true;
    exchange->last_sent_ns = cr_clock_mono_ns();
    if (agt_sse_add_preamble(&exchange->out) < 0)
        agt_exchange_fail_internal(exchange, "begin a stream", -ENOMEM);
}
