/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/budget.h"

#include "orchestrator/graph/call.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/model/catalog.h"

#include <string.h>

/* A token has three bytes or more in most texts; some are spent on the frame of a request. */
#define BYTES_PER_TOKEN 3
#define FRAME_TOKENS 64U
/* With fewer tokens than this no answer is worth asking for. */
#define ANSWER_TOKENS_MIN 256U

static const Crisol__Agent__V1__Budget *budget_of(const struct agt_run *run)
{
    return run->terms ? run->terms->budget : NULL;
}

static const struct agt_catalog_entry *entry_of(const struct agt_run *run, const char *model)
{
    return agt_catalog_find(agt_engine_options(run->engine)->catalog, model);
}

static struct agt_catalog_entry price_of(const struct agt_run *run)
{
    return (struct agt_catalog_entry){.has_price = run->has_price,
                                      .input_price = run->input_price,
                                      .output_price = run->output_price};
}

static void spent(struct agt_run *run, const char *what, uint64_t used, uint64_t allowed)
{
    agt_run_fail(run, CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_BUDGET,
                 "The budget is spent: %s, %llu of %llu used, and another question could take "
                 "more than is left.",
                 what, (unsigned long long)used, (unsigned long long)allowed);
}

static uint64_t size_of(const char *text)
{
    return text ? strlen(text) : 0;
}

/* An estimate from above, for all but texts of the rarest characters. */
static uint64_t estimate(const struct agt_model_request *request)
{
    uint64_t bytes = size_of(request->prompt) + size_of(request->system) + size_of(request->schema);

    for (size_t i = 0; i < request->function_count; i++)
        bytes +=
            size_of(request->functions[i].description) + size_of(request->functions[i].parameters);
    for (size_t i = 0; i < request->turn_count; i++)
        bytes += size_of(request->turns[i].arguments) + size_of(request->turns[i].output);
    return bytes / BYTES_PER_TOKEN + FRAME_TOKENS;
}

static void limit_answer(struct agt_model_request *request, uint64_t tokens)
{
    if (tokens > UINT32_MAX)
        tokens = UINT32_MAX;
    if (request->max_output_tokens == 0 || tokens < request->max_output_tokens)
        request->max_output_tokens = (uint32_t)tokens;
}

static bool reserve_calls(struct agt_run *run, const Crisol__Agent__V1__Budget *budget,
                          struct agt_model_request *request)
{
    if (budget->max_calls == 0)
        return true;
    if (run->usage.calls >= budget->max_calls) {
        spent(run, "requests to the model", run->usage.calls, budget->max_calls);
        return false;
    }
    request->max_calls = budget->max_calls - run->usage.calls;
    return true;
}

static bool reserve_tokens(struct agt_run *run, const Crisol__Agent__V1__Budget *budget,
                           struct agt_model_request *request)
{
    uint64_t wanted = (uint64_t)run->usage.total_tokens + estimate(request);

    if (budget->max_tokens == 0)
        return true;
    if (wanted + ANSWER_TOKENS_MIN > budget->max_tokens) {
        spent(run, "tokens", run->usage.total_tokens, budget->max_tokens);
        return false;
    }
    limit_answer(request, budget->max_tokens - wanted);
    return true;
}

static bool reserve_cost(struct agt_run *run, const Crisol__Agent__V1__Budget *budget,
                         struct agt_model_request *request)
{
    const struct agt_catalog_entry price = price_of(run);
    uint64_t tokens = estimate(request);
    uint64_t wanted;
    uint64_t left;

    if (budget->max_cost_micro_usd == 0 || !run->has_price)
        return true;
    if (tokens > UINT32_MAX)
        tokens = UINT32_MAX;
    wanted =
        run->usage.cost_micro_usd + agt_catalog_cost(&price, (uint32_t)tokens, ANSWER_TOKENS_MIN);
    if (wanted > budget->max_cost_micro_usd) {
        spent(run, "millionths of a dollar", run->usage.cost_micro_usd, budget->max_cost_micro_usd);
        return false;
    }
    left = budget->max_cost_micro_usd - run->usage.cost_micro_usd -
           agt_catalog_cost(&price, (uint32_t)tokens, 0);
    if (price.output_price > 0)
        limit_answer(request, left * 1000000 / price.output_price);
    return true;
}

bool agt_budget_reserve(struct agt_run *run, struct agt_model_request *request)
{
    const Crisol__Agent__V1__Budget *budget = budget_of(run);
    const struct agt_catalog_entry *entry = entry_of(run, run->model_requested);

    if (entry) {
        request->max_output_tokens = entry->max_output_tokens;
        request->has_temperature = entry->has_temperature;
        request->temperature = entry->temperature;
        request->has_thinking = entry->has_thinking;
        request->thinking_budget = entry->thinking_budget;
    }
    return !budget || (reserve_calls(run, budget, request) &&
                       reserve_tokens(run, budget, request) && reserve_cost(run, budget, request));
}

void agt_budget_settle(const struct agt_run *run, Crisol__Agent__V1__ModelUsage *usage)
{
    const struct agt_catalog_entry price = price_of(run);
    uint64_t output = (uint64_t)usage->answer_tokens + usage->thought_tokens;
    uint64_t cost;

    if (!run->has_price)
        return;
    /* Thoughts are charged as the answer is. */
    cost = agt_catalog_cost(&price, usage->prompt_tokens,
                            output > UINT32_MAX ? UINT32_MAX : (uint32_t)output);
    usage->cost_is_known = true;
    usage->cost_micro_usd = cost > UINT32_MAX ? UINT32_MAX : (uint32_t)cost;
}

int64_t agt_budget_wall_ms(const struct agt_run *run, int64_t bound_ms)
{
    const Crisol__Agent__V1__Budget *budget = budget_of(run);

    return budget && budget->wall_time_ms > 0 && budget->wall_time_ms < bound_ms
               ? budget->wall_time_ms
               : bound_ms;
}

void agt_budget_set_price(struct agt_run *run, const struct agt_run_spec *spec)
{
    const struct agt_catalog_entry *entry = entry_of(run, run->model_requested);

    if (spec->run_id) {
        run->has_price = spec->has_price;
        run->input_price = spec->input_price;
        run->output_price = spec->output_price;
    } else if (entry && entry->has_price) {
        run->has_price = true;
        run->input_price = entry->input_price;
        run->output_price = entry->output_price;
    }
}

bool agt_budget_is_payable(const struct agt_run *run, struct rpc_status *ret_status)
{
    const Crisol__Agent__V1__Budget *budget = budget_of(run);

    if (!budget || budget->max_cost_micro_usd == 0 || run->has_price)
        return true;
    rpc_status_add_violation(ret_status, "terms.budget.max_cost_micro_usd",
                             "cannot be kept: the price of the model '%.80s' is not known here; "
                             "the operator has to name it (--model-file)",
                             run->model_requested);
    return false;
}
