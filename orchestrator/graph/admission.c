/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/admission.h"

#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/terms.h"
#include "orchestrator/model/model.h"
#include "orchestrator/sandbox/sandbox.h"
#include "rpc/codec.h"
#include "rpc/status.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MODEL_NAME_MAX 128

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n\v\f")] == '\0';
}

static void check_task(const char *task, struct rpc_status *status)
{
    size_t size = task ? strnlen(task, AGT_TASK_MAX + 1) : 0;

    if (size == 0 || is_blank(task))
        rpc_status_add_violation(status, "task", "is required: say what to build");
    else if (size > AGT_TASK_MAX)
        rpc_status_add_violation(status, "task", "is longer than %u bytes; shorten it",
                                 AGT_TASK_MAX);
    else if (!cr_utf8_is_valid(task, size))
        rpc_status_add_violation(status, "task", "is not UTF-8");
}

/* The name becomes part of a URL: nothing in it may change the path. */
static void check_model(const char *model, struct rpc_status *status)
{
    size_t size = model ? strnlen(model, MODEL_NAME_MAX + 1) : 0;
    bool is_clean = true;

    if (size > MODEL_NAME_MAX) {
        rpc_status_add_violation(status, "model", "is longer than %d bytes", MODEL_NAME_MAX);
        return;
    }
    for (size_t i = 0; i < size; i++)
        is_clean &= isascii(model[i]) && (isalnum(model[i]) || strchr("._-/:@", model[i]));
    if (!is_clean || (size > 0 && (strstr(model, "..") || !isalnum(model[0]))))
        rpc_status_add_violation(status, "model",
                                 "is no model name: letters, digits and ._-/:@, no \"..\"");
}

/* Every field of Limits is a number of one of two widths. */
static uint64_t read_limit(const Crisol__Sandbox__V1__Limits *limits,
                           const ProtobufCFieldDescriptor *field)
{
    const char *slot = (const char *)limits + field->offset;
    uint64_t wide;
    uint32_t narrow;

    if (field->type == PROTOBUF_C_TYPE_UINT64) {
        memcpy(&wide, slot, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, slot, sizeof(narrow));
    return narrow;
}

/* 0 is the default in a limit, and no bound in a bound. */
static void check_bounds(const Crisol__Sandbox__V1__Limits *limits,
                         const struct agt_sandbox_bounds *bounds, struct rpc_status *status)
{
    const ProtobufCMessageDescriptor *type = &crisol__sandbox__v1__limits__descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        uint64_t value = read_limit(limits, &type->fields[i]);
        uint64_t least = read_limit(&bounds->least, &type->fields[i]);
        uint64_t most = read_limit(&bounds->most, &type->fields[i]);
        char name[64];

        (void)snprintf(name, sizeof(name), "sandbox_limits.%s", type->fields[i].name);
        if (most > 0 && value > most)
            rpc_status_add_violation(status, name,
                                     "%" PRIu64 " is more than sandboxd's maximum of %" PRIu64,
                                     value, most);
        else if (value > 0 && value < least)
            rpc_status_add_violation(status, name,
                                     "%" PRIu64 " is less than sandboxd's minimum of %" PRIu64,
                                     value, least);
    }
}

static void check_limits(const struct agt_run_spec *spec, struct agt_sandbox *sandbox,
                         struct rpc_status *status)
{
    struct rpc_status problem = RPC_STATUS_INIT;
    struct agt_sandbox_bounds bounds;
    Crisol__Sandbox__V1__Limits *limits;

    if (!spec->sandbox_limits)
        return;
    if (rpc_wire_check(&crisol__sandbox__v1__limits__descriptor, spec->sandbox_limits,
                       spec->sandbox_limits_size, &problem) < 0) {
        rpc_status_add_violation(status, "sandbox_limits", "%.200s", problem.message);
        return;
    }
    if (!sandbox->ops->get_bounds || !sandbox->ops->get_bounds(sandbox, &bounds))
        return; /* sandboxd will say so itself */
    limits =
        crisol__sandbox__v1__limits__unpack(NULL, spec->sandbox_limits_size, spec->sandbox_limits);
    if (limits)
        check_bounds(limits, &bounds, status);
    crisol__sandbox__v1__limits__free_unpacked(limits, NULL);
}

static void check_level(int level, struct rpc_status *status)
{
    if (level < 0 || level > AGT_LEVEL_MAX)
        rpc_status_add_violation(
            status, "verify",
            "is no level of this version; allowed are OFF to %s, and 0 for the "
            "default, %s",
            agt_level_name(AGT_LEVEL_MAX), agt_level_name(AGT_LEVEL_DEFAULT));
}

#define PAUSES (1U << AGT_NODE_PLANNER | 1U << AGT_NODE_GENERATOR)

uint32_t agt_node_bit(int node)
{
    return node > 0 && node < AGT_NODE_COUNT ? 1U << node : 1U;
}

static void check_interrupts(const struct agt_run_spec *spec, struct rpc_status *status)
{
    if (spec->interrupts & ~PAUSES)
        rpc_status_add_violation(status, "interrupt_after",
                                 "has a node that a run cannot pause behind; allowed are "
                                 "NODE_PLANNER and NODE_GENERATOR");
    else if (spec->interrupts && spec->is_waited_for)
        rpc_status_add_violation(status, "interrupt_after",
                                 "nobody could see the pause here; use GenerateStream, SubmitRun, "
                                 "/api/v1/stream or POST /api/v1/runs");
}

int agt_admission_check(struct agt_model *model, struct agt_sandbox *sandbox,
                        const struct agt_run_spec *spec, struct rpc_status *ret_status)
{
    struct rpc_status status = RPC_STATUS_INIT;

    check_task(spec->task, &status);
    if (spec->max_iterations < 0 || spec->max_iterations > AGT_ITERATIONS_MAX)
        rpc_status_add_violation(&status, "max_iterations",
                                 "is %d; allowed are 1 to %d, and 0 for the default of %d",
                                 spec->max_iterations, AGT_ITERATIONS_MAX, AGT_ITERATIONS_DEFAULT);
    check_model(spec->model, &status);
    check_limits(spec, sandbox, &status);
    check_level(spec->verify, &status);
    agt_terms_check_packed(spec->terms, spec->terms_size, spec->verify, false, &status);
    check_interrupts(spec, &status);
    if (status.code != RPC_OK) {
        *ret_status = status;
        return -EINVAL;
    }
    if (!model->ops->is_configured(model)) {
        rpc_status_set(ret_status, RPC_FAILED_PRECONDITION, "%s", agt_gemini_no_key_help);
        (void)memccpy(ret_status->reason, "MODEL_KEY_MISSING", '\0', sizeof(ret_status->reason));
        return -ENOKEY;
    }
    return 0;
}
