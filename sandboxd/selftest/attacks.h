/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `control` of a probe that is about no single control: the truth of results. */
#define SBX_NO_CONTROL SBX_CONTROL_COUNT

/*
 * What somebody outside saw of a run. Nothing in it but `out` was written by
 * the program.
 */
struct sbx_observed {
    uint32_t verdict;
    int exit_code;
    int signal;
    bool has_hit;
    const char *out; /* stdout, NUL-terminated; borrowed */
    size_t out_size;
    size_t err_size;
    uint64_t wall_us;
    uint64_t cpu_us;
    uint64_t memory_peak_bytes;
    uint32_t oom_kills;
    uint32_t process_limit_hits;
    uint32_t killed_leftovers;
    bool is_docker;
    uint32_t slowness; /* how many times slower than a usual machine the host is; 0: not at all */
};

/* A program that misbehaves as a whole, and what has to become of it. */
struct sbx_attack {
    const char *id; /* of docs/threat-model.md */
    const char *name;
    uint32_t control; /* enum sbx_control, or SBX_NO_CONTROL */
    const char *behaviour;
    const char *argument;
    uint64_t limits[SBX_LIMIT_COUNT]; /* 0: the default */
    enum sbx_verdict verdict;
    int exit_code;
    int signal;
    const char *reason; /* stdout is "N REASON\n" with least <= N <= most; NULL: not so */
    uint64_t least;
    uint64_t most;
    uint64_t docker_least; /* where each folder has a share of its own; 0: as least */
    const char *text;      /* all of stdout; NULL: anything */
    bool (*judge)(const struct sbx_observed *observed); /* NULL: nothing else */
    bool needs_front;                                   /* the front takes part in stopping it */
    bool shows_red;                                     /* tried when its control is left out */
};

/* The table that the self-test and the escape tests share. */
const struct sbx_attack *sbx_attacks(size_t *ret_count);

/* Pure. Returns true when it was stopped as it has to be; `ret_seen` says what was seen. */
bool sbx_attack_judge(const struct sbx_attack *attack, const struct sbx_observed *observed,
                      char *ret_seen, size_t size);

/* What has to be seen, for a person. */
void sbx_attack_expected(const struct sbx_attack *attack, char *ret_text, size_t size);
