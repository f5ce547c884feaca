/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "orchestrator/verify/json_value.h"
#include "orchestrator/verify/oracle.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define MARK "0123456789abcdef"

/* What was read equals itself, and is one value for the check of a task, too. */
static void read_value(const char *text, size_t size)
{
    struct agt_json_value *first = NULL;
    struct agt_json_value *again = NULL;

    if (agt_json_value_parse(text, size, &first, NULL) < 0)
        return;
    FUZZ_CHECK(agt_json_value_parse(text, size, &again, NULL) == 0);
    FUZZ_CHECK(agt_json_value_equals(first, again));
    agt_json_value_free(first);
    agt_json_value_free(again);
}

/* What a driver wrote in the box, where a program may have written in its place. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "adds";
    static char expression[] = "add(1, 2)";
    static char expected[] = "3";
    Crisol__Agent__V1__OracleCase one = CRISOL__AGENT__V1__ORACLE_CASE__INIT;
    Crisol__Agent__V1__OracleCase *cases[] = {&one};
    char *text = fuzz_text(data, size);
    char summary[256];
    int finding;

    one.name = name;
    one.expression = expression;
    one.expected_json = expected;
    read_value(text, size);
    finding = agt_oracle_judge(cases, 1, MARK, text, true, summary, sizeof(summary));
    /* Without the mark nothing is an answer. */
    FUZZ_CHECK(finding != AGT_ORACLE_SHOWN || strstr(text, MARK));
    FUZZ_CHECK(strlen(summary) < sizeof(summary) && !strchr(summary, '\n'));
    finding = agt_oracle_judge(cases, 1, MARK, text, false, summary, sizeof(summary));
    FUZZ_CHECK(finding != AGT_ORACLE_SHOWN);
    free(text);
    return 0;
}
