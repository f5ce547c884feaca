/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/limits.h"

#include "common/auto.h"
#include "rpc/status.h"
#include "sandboxd/runtimes/table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    size_t offset;
    bool is_64_bit;
} fields[] = {

#define FIELD_32(name)                                                                             \
    {                                                                                              \
        offsetof(Crisol__Sandbox__V1__Limits, name), false                                         \
    }
#define FIELD_64(name)                                                                             \
    {                                                                                              \
        offsetof(Crisol__Sandbox__V1__Limits, name), true                                          \
    }
    [SBX_LIMIT_WALL_TIME] = FIELD_32(wall_time_ms),
    [SBX_LIMIT_CPU_TIME] = FIELD_32(cpu_time_ms),
    [SBX_LIMIT_MEMORY] = FIELD_64(memory_bytes),
    [SBX_LIMIT_PROCESSES] = FIELD_32(processes),
    [SBX_LIMIT_CPU_MILLICORES] = FIELD_32(cpu_millicores),
    [SBX_LIMIT_OPEN_FILES] = FIELD_32(open_files),
    [SBX_LIMIT_FILE_SIZE] = FIELD_64(file_size_bytes),
    [SBX_LIMIT_WORKSPACE_BYTES] = FIELD_64(workspace_bytes),
    [SBX_LIMIT_WORKSPACE_INODES] = FIELD_32(workspace_inodes),
    [SBX_LIMIT_STACK] = FIELD_64(stack_bytes),
    [SBX_LIMIT_OUTPUT] = FIELD_64(output_bytes),
#undef FIELD_32
#undef FIELD_64
};
_Static_assert(CR_ARRAY_SIZE(fields) == SBX_LIMIT_COUNT, "one row per limit");

static uint64_t get_field(const Crisol__Sandbox__V1__Limits *message, size_t index)
{
    const char *slot = (const char *)message + fields[index].offset;
    uint32_t narrow;
    uint64_t wide;

    if (fields[index].is_64_bit) {
        memcpy(&wide, slot, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, slot, sizeof(narrow));
    return narrow;
}

static void set_field(Crisol__Sandbox__V1__Limits *message, size_t index, uint64_t value)
{
    char *slot = (char *)message + fields[index].offset;
    uint32_t narrow = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;

    if (fields[index].is_64_bit)
        memcpy(slot, &value, sizeof(value));
    else
        memcpy(slot, &narrow, sizeof(narrow));
}

void sbx_limits_default(const struct sbx_limits *maximum, const struct sbx_runtime *runtime,
                        struct sbx_limits *ret_limits)
{
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        uint64_t value = runtime && runtime->defaults.value[i] > 0 ? runtime->defaults.value[i]
                                                                   : sbx_default_limits.value[i];

        ret_limits->value[i] = value > maximum->value[i] ? maximum->value[i] : value;
    }
}

void sbx_limits_default_compile(const struct sbx_limits *maximum, const struct sbx_runtime *runtime,
                                struct sbx_limits *ret_limits)
{
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        uint64_t value = runtime->compile_limits.value[i] > 0 ? runtime->compile_limits.value[i]
                                                              : sbx_compile_limits.value[i];

        ret_limits->value[i] = value > maximum->value[i] ? maximum->value[i] : value;
    }
}

static void check(const char *message, size_t index, uint64_t value, uint64_t maximum,
                  struct rpc_status *status)
{
    char field[64];

    (void)snprintf(field, sizeof(field), "%s.%s", message, sbx_limit_name((uint32_t)index));
    if (value > maximum)
        rpc_status_add_violation(status, field, "%" PRIu64 " is more than the maximum of %" PRIu64,
                                 value, maximum);
    else if (value < sbx_minimum_limits.value[index])
        rpc_status_add_violation(status, field, "%" PRIu64 " is less than the minimum of %" PRIu64,
                                 value, sbx_minimum_limits.value[index]);
}

/* The default of the CPU limit is the wall limit of the same request. */
static uint64_t default_cpu_ms(const struct sbx_limits *maximum, const struct sbx_limits *limits)
{
    uint64_t wall_ms = limits->value[SBX_LIMIT_WALL_TIME];
    uint64_t cpu_max_ms = maximum->value[SBX_LIMIT_CPU_TIME];

    return wall_ms < cpu_max_ms ? wall_ms : cpu_max_ms;
}

/* Puts what is set in the message in place of the defaults. */
static void read_fields(const Crisol__Sandbox__V1__Limits *message, const char *name,
                        const struct sbx_limits *maximum, struct sbx_limits *limits,
                        uint32_t *ret_requested, struct rpc_status *status)
{
    *ret_requested = 0;
    for (size_t i = 0; message && i < SBX_LIMIT_COUNT; i++) {
        uint64_t value = get_field(message, i);

        if (value == 0)
            continue;
        *ret_requested |= UINT32_C(1) << i;
        limits->value[i] = value;
        check(name, i, value, maximum->value[i], status);
    }
}

void sbx_limits_read(const Crisol__Sandbox__V1__Limits *message, const struct sbx_limits *maximum,
                     const struct sbx_runtime *runtime, struct sbx_limits *ret_limits,
                     uint32_t *ret_requested, struct rpc_status *status)
{
    sbx_limits_default(maximum, runtime, ret_limits);
    read_fields(message, "limits", maximum, ret_limits, ret_requested, status);
    if (!(*ret_requested & (UINT32_C(1) << SBX_LIMIT_CPU_TIME)) &&
        !(runtime && runtime->defaults.value[SBX_LIMIT_CPU_TIME] > 0))
        ret_limits->value[SBX_LIMIT_CPU_TIME] = default_cpu_ms(maximum, ret_limits);
}

void sbx_limits_read_compile(const Crisol__Sandbox__V1__Limits *message,
                             const struct sbx_limits *maximum, const struct sbx_runtime *runtime,
                             struct sbx_limits *ret_limits, uint32_t *ret_requested,
                             struct rpc_status *status)
{
    sbx_limits_default_compile(maximum, runtime, ret_limits);
    read_fields(message, "compile_limits", maximum, ret_limits, ret_requested, status);
    if (*ret_requested & (UINT32_C(1) << SBX_LIMIT_OUTPUT))
        rpc_status_add_violation(status, "compile_limits.output_bytes",
                                 "cannot be set: what is kept of a compiler's output is fixed");
}

void sbx_limits_write(const struct sbx_limits *limits, Crisol__Sandbox__V1__Limits *message)
{
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++)
        set_field(message, i, limits->value[i]);
}
