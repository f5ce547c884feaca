/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/template/suit.h"

#include "sandboxd/backend/job.h"
#include "sandboxd/template/kind.h"

#include <string.h>

#define PROCESSES_LEAST 2

/* Deep is past the arguments, but for the one that it can be told late; what shallow is slower at,
 * it does not do without them. */
static bool fits_args(enum sbx_template_kind kind, uint32_t flags)
{
    bool is_late = (flags & SBX_RUN_HAS_ARGS) == 0 || (flags & SBX_RUN_STOPS_EARLY) != 0;

    return kind == SBX_TEMPLATE_PYTHON || is_late == (kind == SBX_TEMPLATE_PYTEST);
}

bool sbx_template_suits(enum sbx_template_kind kind, const struct sbx_job *job)
{
    size_t count;
    const struct sbx_runtime *runtime = &sbx_runtimes(&count)[job->runtime];

    /* The libc of the interpreter has read the limit of its stack at its start. And it exists
     * already while sandbox-init needs a process for the files. */
    return runtime->preload && strcmp(runtime->preload, sbx_template_runtime(kind)->name) == 0 &&
           fits_args(kind, job->flags) && (job->flags & SBX_RUN_HAS_OWN) == 0 &&
           job->limits.value[SBX_LIMIT_STACK] == sbx_default_limits.value[SBX_LIMIT_STACK] &&
           job->limits.value[SBX_LIMIT_PROCESSES] >= PROCESSES_LEAST;
}

enum sbx_start_mode sbx_template_start_mode(enum sbx_template_kind kind)
{
    static const enum sbx_start_mode modes[SBX_TEMPLATE_KIND_COUNT] = {
        [SBX_TEMPLATE_PYTHON] = SBX_START_PRELOAD,
        [SBX_TEMPLATE_PYTEST] = SBX_START_PRELOAD_DEEP,
        [SBX_TEMPLATE_PYTEST_SHALLOW] = SBX_START_PRELOAD_SHALLOW,
    };

    return modes[kind];
}
