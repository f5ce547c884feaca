/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/report.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* The JUnit XML that a program in the box has written. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sbx_report report;
    const Crisol__Sandbox__V1__TestReport *message = &report.message;

    sbx_report_parse(&report, data, size, NULL);
    FUZZ_CHECK(message->is_present == (*message->problem == '\0'));
    FUZZ_CHECK(message->passed + message->failed + message->errors + message->skipped ==
               message->tests);
    FUZZ_CHECK(message->n_cases <= SBX_REPORT_CASES_MAX && message->n_cases <= message->tests);
    for (size_t i = 0; i < message->n_cases; i++)
        FUZZ_CHECK(strlen(message->cases[i]->details) <= SBX_REPORT_DETAILS_MAX);
    sbx_report_done(&report);
    return 0;
}
