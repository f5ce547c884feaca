/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/run_body.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* Bodies of /generate: read whole, or refused as a 422 that can be written. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Crisol__Agent__V1__GenerateRequest *request = NULL;
    struct agt_problem problem;
    CR_AUTO_BUF struct cr_buf buf = {0};
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    cr_buf_init(&buf, 1 << 20);
    if (agt_run_body_read(text, size, &request, &problem) == 0) {
        FUZZ_CHECK(request->task);
        crisol__agent__v1__generate_request__free_unpacked(request, NULL);
    } else {
        FUZZ_CHECK(problem.http_status == 422);
        FUZZ_CHECK(agt_problem_write(&problem, &buf) == 0);
    }
    free(text);
    return 0;
}
