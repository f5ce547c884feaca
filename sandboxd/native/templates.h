/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/template/template.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

struct sbx_cell;
struct sbx_job;
struct sbx_native;

#define SBX_TEMPLATE_OWNERS_MAX 4U /* callers that have templates at one time */
#define SBX_TEMPLATES_MAX (SBX_TEMPLATE_OWNERS_MAX * SBX_TEMPLATE_KIND_COUNT)

/* Whose boxes a group of templates forks; the first is everybody's when they are shared. */
struct sbx_template_owner {
    uint64_t caller; /* as in RUN */
    int64_t used_ns; /* 0: never */
};

/*
 * The templates of the backend, one of each kind for everybody, or for each of
 * the callers that used one last (--preload=caller): started, watched, replaced
 * when they get old or die. A template that cannot be had costs speed, never a
 * run: its boxes are made from nothing then.
 */
struct sbx_templates {
    bool is_on;
    struct sbx_template_host host;
    bool is_by_caller; /* each caller has templates of its own */
    struct sbx_template_owner owners[SBX_TEMPLATE_OWNERS_MAX];
    struct sbx_template list[SBX_TEMPLATES_MAX]; /* of each owner one of each kind */
    uint64_t last_id;                            /* of the boxes that were asked for */
    uint32_t asked[SBX_TEMPLATES_MAX];           /* boxes that were not answered yet */
    int64_t start_ns[SBX_TEMPLATES_MAX];         /* when to start one; INT64_MAX: there is one */
    uint32_t failures[SBX_TEMPLATES_MAX];        /* in a row: the next try comes later each time */
    int64_t look_ns;                             /* next look at their age */
    pid_t leaving[SBX_TEMPLATES_MAX];            /* killed, and not reaped yet; 0: none */
};

/* Nothing open yet. `setting` is that of --preload (on, caller or off); NULL is off. */
void sbx_templates_init(struct sbx_templates *templates, const char *setting);

/* What has to be done before the root file system is entered. Failures turn templates off. */
void sbx_templates_prepare(struct sbx_native *native, uint32_t places);

/* Has all of them started; those of callers come with their first runs. */
void sbx_templates_start(struct sbx_native *native);

/*
 * Asks the template that suits a job for the box of its cell, which is
 * furnished. Returns 0, and sbx_run_on_template() comes later; or -EAGAIN:
 * there is none.
 */
int sbx_templates_ask_for(struct sbx_native *native, const struct sbx_job *job,
                          struct sbx_cell *cell);

/* What a box of that template (of none: -1) is for its run. */
enum sbx_start_mode sbx_templates_mode(int index);

/* True when one of them may be asked for the box of a job. */
bool sbx_templates_suit(const struct sbx_native *native, const struct sbx_job *job);

/* True when a box that a template forks now is faster for the job than a plain one that waits. */
bool sbx_templates_are_faster(const struct sbx_native *native, const struct sbx_job *job);

/* A template spoke, or ended. */
void sbx_templates_on_event(struct sbx_native *native, uint32_t index);

/* Kills one that does not answer; its runs are told. */
void sbx_templates_give_up(struct sbx_native *native, uint32_t index);

int64_t sbx_templates_next_ns(const struct sbx_native *native);
void sbx_templates_on_time(struct sbx_native *native, int64_t now_ns);

/* Brings what the metrics tell of templates up to date. */
void sbx_templates_count(struct sbx_native *native);

/* Ends all. Safe to repeat. */
void sbx_templates_stop(struct sbx_templates *templates);
