/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/http/judge_text.h"
#include "rpc/status.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

/* A program that was made has one text and every other file beside it, or is named in a command
 * that does not take its name for an option. */
static void make_program(const Crisol__Judge__V1__JudgeRequest *request,
                         const Crisol__Sandbox__V1__Runtime *runtime)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_judge_program *program = NULL;
    const Crisol__Sandbox__V1__ExecuteRequest *made;
    int r = agt_judge_program_new(request, runtime, &program, &status);

    FUZZ_CHECK(r == 0 || (r == -EINVAL && status.code == RPC_INVALID_ARGUMENT));
    if (r < 0)
        return;
    made = agt_judge_program_request(program);
    FUZZ_CHECK(!*made->code == (made->n_command > 0));
    FUZZ_CHECK(made->n_files + (made->n_command == 0) == request->n_files);
    FUZZ_CHECK(made->n_command == 0 || !strchr("-+", made->command[1][0]));
    (void)agt_judge_program_free(program);
}

/* Bodies of POST /api/v2/execute: run, or refused with a text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "python";
    static char version[] = "Python 3.11.2";
    static char interpreter[] = "/usr/bin/python3";
    static char entry[] = "main.py";
    char *argv[] = {interpreter, entry};
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;
    Crisol__Sandbox__V1__Runtime *list[] = {&runtime};
    Crisol__Sandbox__V1__ListRuntimesResponse runtimes =
        CRISOL__SANDBOX__V1__LIST_RUNTIMES_RESPONSE__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    Crisol__Judge__V1__JudgeRequest *request = NULL;

    if (agt_judge_read((const char *)data, size, &request, &status) < 0) {
        FUZZ_CHECK(status.code != RPC_OK && status.message[0]);
        return 0;
    }
    runtime.name = name;
    runtime.version = version;
    runtime.entry_file = entry;
    runtime.argv = argv;
    runtime.n_argv = 2;
    runtimes.runtimes = list;
    runtimes.n_runtimes = 1;
    if (agt_judge_find(&runtimes, request->language, request->version))
        make_program(request, &runtime);
    crisol__judge__v1__judge_request__free_unpacked(request, NULL);
    return 0;
}
