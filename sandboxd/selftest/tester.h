/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/selftest/attacks.h"
#include "sandboxd/selftest/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_channel;
struct sbx_catalog;

/* One probe of the catalogue. */
struct sbx_item {
    const char *id;
    const char *name;
    uint32_t control;  /* enum sbx_control, or SBX_NO_CONTROL */
    char expected[64]; /* several with "|" between them */
    char weaker[64];   /* what this backend does in its place, which is a GAP; "": nothing is */
};

/* What became of it. All but SKIP come from the tester;
 * ERROR: it could not be tried. */
enum sbx_status {
    SBX_PROBE_NONE,
    SBX_PROBE_PASS,
    SBX_PROBE_FAIL,
    SBX_PROBE_GAP,
    SBX_PROBE_SKIP,
    SBX_PROBE_ERROR,
};

/* Sent to whoever started the tester, in one write. */
struct sbx_outcome {
    uint32_t index;
    uint32_t status;
    char seen[112];
};

#define SBX_EVERY_CONTROL UINT32_MAX

/* A process that attacks one stack. */
struct sbx_tester {
    struct sbx_stack *stack;
    const struct sbx_catalog *catalog;
    struct rpc_channel *channel;
    bool is_docker;
    int outcome_fd;
    uint32_t only;          /* the probes of one control, which is left out; or SBX_EVERY_CONTROL */
    const uint8_t *program; /* sbprobe */
    size_t program_size;
};

/* Probes that are tried together. */
struct sbx_group {
    size_t (*count)(void);
    void (*describe)(size_t index, struct sbx_item *ret_item);
    /* Tries all, or those of tester->only, and reports each; `first` is the group's first index. */
    void (*run)(struct sbx_tester *tester, size_t first);
};

extern const struct sbx_group sbx_group_calls;
extern const struct sbx_group sbx_group_places;
extern const struct sbx_group sbx_group_attacks;
extern const struct sbx_group sbx_group_outside;
extern const struct sbx_group sbx_group_meetings;
extern const struct sbx_group sbx_group_files;

/* True when a probe of `control` is to be tried. */
bool sbx_tester_wants(const struct sbx_tester *tester, uint32_t control);

void sbx_tester_report(struct sbx_tester *tester, size_t index, enum sbx_status status,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* PASS when it is what the item expects, GAP when it is the known weaker, else FAIL. */
void sbx_tester_compare(struct sbx_tester *tester, size_t index, const char *seen);
