/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_body.h"
#include "rpc/json.h"
#include "rpc/status.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* The other bodies that REST takes. */
static void read_others(const char *text, size_t size)
{
    static const ProtobufCMessageDescriptor *const bodies[] = {
        &crisol__sandbox__v1__execute_request__descriptor,
        &crisol__agent__v1__resume_run_request__descriptor,
        &crisol__agent__v1__fork_run_request__descriptor,
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(bodies); i++) {
        struct rpc_status status = RPC_STATUS_INIT;
        ProtobufCMessage *message = NULL;
        int r = rpc_json_read(bodies[i], text, size, &message, &status);

        FUZZ_CHECK(r == 0 ? message != NULL : status.code == RPC_INVALID_ARGUMENT);
        if (message)
            protobuf_c_message_free_unpacked(message, NULL);
    }
}

/* Bodies of /generate: read whole, or refused as a 422 that can be written. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Crisol__Agent__V1__GenerateRequest *request = NULL;
    struct agt_problem problem;
    CR_AUTO_BUF struct cr_buf buf = {0};
    char *text = fuzz_text(data, size);

    cr_buf_init(&buf, 1 << 20);
    if (agt_run_body_read(text, size, &request, &problem) == 0) {
        FUZZ_CHECK(request->task);
        crisol__agent__v1__generate_request__free_unpacked(request, NULL);
    } else {
        FUZZ_CHECK(problem.http_status == 422);
        FUZZ_CHECK(agt_problem_write(&problem, &buf) == 0);
    }
    read_others(text, size);
    free(text);
    return 0;
}
