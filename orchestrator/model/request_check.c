/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/model/dialect.h"

#include <string.h>

static int check_text(const char *text, const char *field, struct cr_err *err)
{
    if (!cr_utf8_is_valid(text, strlen(text)))
        return cr_err_set(err, EINVAL, "%s is not UTF-8", field);
    return 0;
}

int agt_model_request_check(const struct agt_model_request *request, struct cr_err *err)
{
    int r;

    if (!request->prompt || !*request->prompt)
        return cr_err_set(err, EINVAL, "the prompt is empty");
    r = check_text(request->prompt, "the prompt", err);
    if (r == 0 && request->system)
        r = check_text(request->system, "the system instruction", err);
    for (size_t i = 0; i < request->turn_count && r == 0; i++)
        r = check_text(request->turns[i].output, "the output of a call", err);
    return r;
}

size_t agt_model_turn_size(const struct agt_model_request *request, size_t first)
{
    uint32_t group = request->turns[first].group;
    size_t count = 1;

    while (group != 0 && first + count < request->turn_count &&
           request->turns[first + count].group == group)
        count++;
    return count;
}
