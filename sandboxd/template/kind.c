/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/template/kind.h"

#include "common/auto.h"

static const struct {
    const char *name;
    const char *runtime;
} kinds[] = {
    [SBX_TEMPLATE_PYTHON] = {"python", "python"},
    [SBX_TEMPLATE_PYTEST] = {"pytest", "pytest"},
    [SBX_TEMPLATE_PYTEST_SHALLOW] = {"pytest-shallow", "pytest"},
};

_Static_assert(CR_ARRAY_SIZE(kinds) == SBX_TEMPLATE_KIND_COUNT, "one row per kind");

const struct sbx_runtime *sbx_template_runtime(enum sbx_template_kind kind)
{
    size_t count;
    int index = sbx_runtime_find(kinds[kind].runtime);

    return index < 0 ? NULL : &sbx_runtimes(&count)[index];
}

const char *sbx_template_name(enum sbx_template_kind kind)
{
    return kinds[kind].name;
}
