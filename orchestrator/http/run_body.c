/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/run_body.h"

#include "orchestrator/graph/engine.h"
#include "orchestrator/http/problem.h"
#include "rpc/json.h"

#include <errno.h>
#include <stdbool.h>

#include <cjson/cJSON.h>

static bool has_value(const cJSON *root, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);

    return item && !cJSON_IsNull(item);
}

/* Fills in violations for what the message no longer shows. False when there are any. */
static bool check_presence(const cJSON *root, const Crisol__Agent__V1__GenerateRequest *request,
                           struct agt_problem *problem)
{
    struct rpc_status status = RPC_STATUS_INIT;

    if (!has_value(root, "task")) {
        rpc_status_add_violation(&status, "task", "field required: say what to build");
        agt_problem_from_status(problem, &status);
        problem->type = "missing";
        return false;
    }
    /* Below this the answer would name 0, gRPC's word for the default, which is none here. */
    if ((request->max_iterations < 1 || request->max_iterations > AGT_ITERATIONS_MAX) &&
        (has_value(root, "max_iterations") || has_value(root, "maxIterations"))) {
        rpc_status_add_violation(&status, "max_iterations",
                                 "must be 1 to %d; leave it out for the default",
                                 AGT_ITERATIONS_MAX);
        agt_problem_from_status(problem, &status);
        return false;
    }
    return true;
}

int agt_run_body_read(const char *text, size_t size,
                      Crisol__Agent__V1__GenerateRequest **ret_request,
                      struct agt_problem *ret_problem)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    Crisol__Agent__V1__GenerateRequest *request;
    cJSON *root;
    bool is_good;
    int r;

    r = rpc_json_read(&crisol__agent__v1__generate_request__descriptor, text, size, &message,
                      &status);
    if (r < 0) {
        agt_problem_from_status(ret_problem, &status);
        ret_problem->place = "body"; /* whatever its fields are called */
        return r;
    }
    request = (Crisol__Agent__V1__GenerateRequest *)message;
    /* The text is known to be sound by now; parsed again for the names alone. */
    root = cJSON_ParseWithLength(text, size);
    is_good = check_presence(root, request, ret_problem);
    cJSON_Delete(root);
    if (!is_good) {
        protobuf_c_message_free_unpacked(message, NULL);
        return -EINVAL;
    }
    *ret_request = request;
    return 0;
}
