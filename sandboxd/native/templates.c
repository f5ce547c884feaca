/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/templates.h"

#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/native/native.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/suit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/wait.h>

/*
 * The boxes of one template share the layout of their memory and the seed of
 * their hashes, which their programs can read: one for ever would let a program
 * prepare what it does to its neighbours.
 */
#define BOXES_MAX 10000U
#define AGE_MAX_NS (INT64_C(600) * CR_NS_PER_S)
#define LOOK_NS (2 * CR_NS_PER_S)
#define START_DEADLINE_NS (INT64_C(150) * CR_NS_PER_S) /* more than its own trial may take */
#define RETRY_NS (1 * CR_NS_PER_S)
#define RETRY_DOUBLINGS_MAX 8U

void sbx_templates_init(struct sbx_templates *templates, const char *setting)
{
    *templates = (struct sbx_templates){
        .is_on = setting && strcmp(setting, "off") != 0,
        .is_by_caller = setting && strcmp(setting, "caller") == 0,
        .host = {.image_fd = -1, .userns_fd = -1, .init_fd = -1, .seccomp_fd = -1},
        .look_ns = INT64_MAX,
    };
    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++) {
        templates->list[i] = (struct sbx_template)SBX_TEMPLATE_INIT;
        templates->start_ns[i] = INT64_MAX;
    }
}

void sbx_templates_prepare(struct sbx_native *native, uint32_t places)
{
    struct sbx_templates *templates = &native->templates;
    struct cr_err err = CR_ERR_INIT;

    templates->host.places = places;
    if (!templates->is_on)
        return;
    if (sbx_template_image_load(NULL, &templates->host.image_fd, &err) == 0 &&
        sbx_template_userns_make(native->uid_base, places, &templates->host.userns_fd, &err) == 0)
        return;
    templates->is_on = false;
    cr_log_warn("going without templates error=\"%s\"", err.text);
}

static enum sbx_template_kind kind_of(uint32_t index)
{
    return index % SBX_TEMPLATE_KIND_COUNT;
}

/* Later each time, so that a host whose interpreter does not start is not kept busy by it. */
static void plan_start(struct sbx_templates *templates, uint32_t index)
{
    uint32_t doublings = templates->failures[index];

    if (doublings > RETRY_DOUBLINGS_MAX)
        doublings = RETRY_DOUBLINGS_MAX;
    templates->start_ns[index] = cr_clock_mono_ns();
    if (templates->failures[index] > 0)
        templates->start_ns[index] += RETRY_NS << doublings;
}

static void reap(struct sbx_templates *templates)
{
    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++) {
        if (templates->leaving[i] > 0 && waitpid(templates->leaving[i], NULL, WNOHANG) != 0)
            templates->leaving[i] = 0;
    }
}

/*
 * Ends one, whose memory takes a while to free: it is reaped later. A child of
 * ours that was just forked, as a collector, may have a copy of its connection
 * yet: closing ours would not end the watch, and its end would be heard of
 * again and again.
 */
static void end(struct sbx_native *native, uint32_t index)
{
    struct sbx_templates *templates = &native->templates;
    pid_t pid;

    sbx_backend_unwatch(&native->base, templates->list[index].fd);
    pid = sbx_template_leave(&templates->list[index]);
    for (uint32_t i = 0; pid > 0 && i < SBX_TEMPLATES_MAX; i++) {
        if (templates->leaving[i] == 0) {
            templates->leaving[i] = pid;
            return;
        }
    }
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}

static void start_one(struct sbx_native *native, uint32_t index)
{
    struct sbx_templates *templates = &native->templates;
    struct cr_err err = CR_ERR_INIT;
    int r;

    native->base.counts[SBX_COUNT_TEMPLATE_STARTS]++;
    templates->start_ns[index] = INT64_MAX;
    templates->asked[index] = 0;
    r = sbx_template_start(&templates->host, kind_of(index), &templates->list[index], &err);
    if (r == 0)
        r = sbx_backend_watch(&native->base, templates->list[index].fd, EPOLLIN,
                              SBX_NATIVE_WATCH_TEMPLATE + index, NULL);
    if (r == 0)
        return;
    cr_log_warn("cannot start a template kind=%s error=\"%s\"", sbx_template_name(kind_of(index)),
                err.text);
    end(native, index);
    templates->failures[index]++;
    plan_start(templates, index);
}

void sbx_templates_start(struct sbx_native *native)
{
    struct sbx_templates *templates = &native->templates;

    if (!templates->is_on)
        return;
    templates->host.init_fd = native->init_fd;
    templates->host.seccomp_fd = native->seccomp_fd;
    templates->look_ns = cr_clock_mono_ns() + LOOK_NS;
    for (uint32_t i = 0; i < SBX_TEMPLATE_KIND_COUNT && !templates->is_by_caller; i++)
        start_one(native, i);
}

static int ask(struct sbx_native *native, uint32_t index, struct sbx_cell *cell,
               const struct sbx_limits *limits, struct cr_err *err)
{
    struct sbx_templates *templates = &native->templates;
    const struct sbx_template_box box = {
        .group = &cell->group,
        .limits = limits,
        .workspace_fd = cell->workspace_fd,
        .place = cell->place,
        .id = templates->last_id + 1,
    };
    int r;

    if (!templates->is_on || !templates->list[index].is_ready ||
        !sbx_cell_allows(limits, templates->list[index].memory_bytes))
        return -EAGAIN;
    r = sbx_template_ask(&templates->list[index], &box, &cell->box.control_fd, err);
    if (r < 0)
        return r;
    templates->last_id++;
    templates->asked[index]++;
    cell->asked = box.id;
    cell->asked_of = (int)index;
    cell->shared_bytes = templates->list[index].memory_bytes;
    return 0;
}

/* True when nobody waits for one of its templates. */
static bool is_idle(const struct sbx_templates *templates, uint32_t owner)
{
    uint32_t first = owner * SBX_TEMPLATE_KIND_COUNT;

    for (uint32_t i = first; i < first + SBX_TEMPLATE_KIND_COUNT; i++) {
        if (templates->asked[i] > 0)
            return false;
    }
    return true;
}

/* Who used templates longest ago loses them: the next caller must not get boxes of them. */
static int make_room(struct sbx_native *native)
{
    struct sbx_templates *templates = &native->templates;
    int oldest = -1;

    for (uint32_t i = 0; i < SBX_TEMPLATE_OWNERS_MAX; i++) {
        if (is_idle(templates, i) &&
            (oldest < 0 || templates->owners[i].used_ns < templates->owners[oldest].used_ns))
            oldest = (int)i;
    }
    for (uint32_t i = 0; oldest >= 0 && i < SBX_TEMPLATE_KIND_COUNT; i++) {
        uint32_t index = (uint32_t)oldest * SBX_TEMPLATE_KIND_COUNT + i;

        end(native, index);
        templates->start_ns[index] = INT64_MAX;
        templates->failures[index] = 0;
    }
    return oldest;
}

/* The caller's place among the owners, or -1. */
static int find_owner(const struct sbx_templates *templates, uint64_t caller)
{
    for (uint32_t i = 0; templates->is_by_caller && i < SBX_TEMPLATE_OWNERS_MAX; i++) {
        if (templates->owners[i].used_ns > 0 && templates->owners[i].caller == caller)
            return (int)i;
    }
    return templates->is_by_caller ? -1 : 0;
}

static int take_owner(struct sbx_native *native, uint64_t caller)
{
    struct sbx_templates *templates = &native->templates;
    int owner = find_owner(templates, caller);

    if (owner < 0)
        owner = make_room(native);
    if (owner >= 0)
        templates->owners[owner] =
            (struct sbx_template_owner){.caller = caller, .used_ns = cr_clock_mono_ns()};
    return owner;
}

int sbx_templates_ask_for(struct sbx_native *native, const struct sbx_job *job,
                          struct sbx_cell *cell)
{
    struct sbx_templates *templates = &native->templates;
    struct cr_err err = CR_ERR_INIT;

    for (uint32_t i = 0; i < SBX_TEMPLATE_KIND_COUNT && templates->is_on; i++) {
        int owner = sbx_template_suits(i, job) ? take_owner(native, job->caller) : -1;
        uint32_t index = (uint32_t)owner * SBX_TEMPLATE_KIND_COUNT + i;
        int r;

        if (owner < 0)
            continue;
        if (templates->list[index].pid < 0 && templates->start_ns[index] == INT64_MAX)
            start_one(native, index); /* for the caller's next run */
        r = ask(native, index, cell, &job->limits, &err);
        if (r == 0)
            return 0;
        if (r != -EAGAIN)
            cr_log_warn("a template takes no box kind=%s error=\"%s\"", sbx_template_name(i),
                        err.text);
    }
    return -EAGAIN;
}

bool sbx_templates_suit(const struct sbx_native *native, const struct sbx_job *job)
{
    bool is_suited = false;

    for (uint32_t i = 0; native->templates.is_on && i < SBX_TEMPLATE_KIND_COUNT; i++)
        is_suited = is_suited || sbx_template_suits(i, job);
    return is_suited;
}

bool sbx_templates_are_faster(const struct sbx_native *native, const struct sbx_job *job)
{
    const struct sbx_templates *templates = &native->templates;
    int owner = find_owner(templates, job->caller);

    for (uint32_t i = 0; templates->is_on && i < SBX_TEMPLATE_KIND_COUNT; i++) {
        if (i == SBX_TEMPLATE_PYTHON || !sbx_template_suits(i, job))
            continue;
        /* One that is missing is started when it is asked for. */
        return owner < 0 ||
               templates->list[(uint32_t)owner * SBX_TEMPLATE_KIND_COUNT + i].is_ready ||
               templates->is_by_caller;
    }
    return templates->is_on && templates->is_by_caller &&
           sbx_template_suits(SBX_TEMPLATE_PYTHON, job);
}

enum sbx_start_mode sbx_templates_mode(int index)
{
    return index < 0 ? SBX_START_COLD : sbx_template_start_mode(kind_of((uint32_t)index));
}

/* ---- answers ---- */

static bool is_wanted(const struct sbx_cell *cell, uint32_t index, uint64_t id)
{
    return cell->asked != 0 && cell->asked_of == (int)index && (id == 0 || cell->asked == id);
}

/*
 * Tells who asked for box `id` (0: for any of the kind) that it is `box`, or
 * that there is none. Returns how many were told.
 */
static uint32_t tell(struct sbx_native *native, uint32_t index, uint64_t id,
                     const struct sbx_box *box)
{
    uint32_t told = 0;

    for (uint32_t i = 0; i < native->base.slot_count; i++) {
        struct sbx_run *run = &native->runs[i];

        if (run->job.state != SBX_JOB_STARTING || !is_wanted(&run->cell, index, id))
            continue;
        run->cell.asked = 0;
        sbx_run_on_template(native, run, box);
        told++;
    }
    for (uint32_t i = 0; i < native->pool.slot_count; i++) {
        struct sbx_pool_slot *slot = &native->pool.slots[i];

        if (slot->state == SBX_POOL_FREE || !is_wanted(&slot->cell, index, id))
            continue;
        slot->cell.asked = 0;
        sbx_pool_on_started(native, slot, box);
        told++;
    }
    return told;
}

/* Its boxes are made from nothing; another one is started. */
static void on_gone(struct sbx_native *native, uint32_t index)
{
    struct sbx_templates *templates = &native->templates;

    end(native, index);
    templates->failures[index]++;
    plan_start(templates, index);
    templates->asked[index] = 0;
    (void)tell(native, index, 0, NULL);
}

static void on_box(struct sbx_native *native, uint32_t index,
                   const struct sbx_template_event *event)
{
    struct sbx_box box = {.pid = event->pid, .pidfd = event->pidfd, .control_fd = -1};
    bool is_box = event->kind == SBX_TEMPLATE_EVENT_BOX;

    if (native->templates.asked[index] > 0)
        native->templates.asked[index]--;
    native->base.counts[SBX_COUNT_TEMPLATE_FORKS] += is_box;
    if (!is_box)
        cr_log_warn("a template cannot fork a box kind=%s error=%s",
                    sbx_template_name(kind_of(index)), strerrordesc_np(event->error));
    if (tell(native, index, event->id, is_box ? &box : NULL) > 0 || !is_box)
        return;
    cr_log_error("a template made a box that nobody asked for kind=%s",
                 sbx_template_name(kind_of(index)));
    sbx_box_kill(&box);
    sbx_box_reap(&box);
}

/* The next thing that it said. False when there is nothing, or it is gone. */
static bool hear(struct sbx_native *native, uint32_t index)
{
    struct sbx_templates *templates = &native->templates;
    struct sbx_template *template = &templates->list[index];
    struct sbx_template_event event;
    int r = sbx_template_receive(template, &event);

    if (r < 0 && r != -EAGAIN)
        on_gone(native, index);
    if (r < 0)
        return false;
    if (event.kind == SBX_TEMPLATE_EVENT_READY) {
        templates->failures[index] = 0;
        cr_log_info("template ready kind=%s start_ms=%" PRId64, sbx_template_name(kind_of(index)),
                    (cr_clock_mono_ns() - template->started_ns) / CR_NS_PER_MS);
    } else {
        on_box(native, index, &event);
    }
    return true;
}

void sbx_templates_on_event(struct sbx_native *native, uint32_t index)
{
    (void)hear(native, index);
}

/* On a machine that stood still its answers are there by now. Boxes in them are ours to reap. */
void sbx_templates_give_up(struct sbx_native *native, uint32_t index)
{
    while (hear(native, index)) {
    }
    if (native->templates.list[index].pid < 0)
        return; /* it was gone, and all know */
    cr_log_warn("a template does not answer, ending it kind=%s", sbx_template_name(kind_of(index)));
    on_gone(native, index);
}

void sbx_templates_count(struct sbx_native *native)
{
    uint64_t *counts = native->base.counts;

    counts[SBX_COUNT_TEMPLATES] = 0;
    counts[SBX_COUNT_TEMPLATE_SINCE] = 0;
    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++) {
        const struct sbx_template *template = &native->templates.list[i];
        uint64_t since = (uint64_t) template->started_ns;

        if (!template->is_ready)
            continue;
        counts[SBX_COUNT_TEMPLATES]++;
        if (counts[SBX_COUNT_TEMPLATE_SINCE] == 0 || since < counts[SBX_COUNT_TEMPLATE_SINCE])
            counts[SBX_COUNT_TEMPLATE_SINCE] = since;
    }
}

int64_t sbx_templates_next_ns(const struct sbx_native *native)
{
    const struct sbx_templates *templates = &native->templates;
    int64_t next = templates->look_ns;

    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++) {
        if (templates->start_ns[i] < next)
            next = templates->start_ns[i];
    }
    return templates->is_on && !native->base.is_stopping ? next : INT64_MAX;
}

/* One that is old goes when nobody waits for it: its boxes go on without it, and those that wait
 * are as good as before, unless they are of other packages than a new one would be. */
static void look_at(struct sbx_native *native, uint32_t index, int64_t now_ns)
{
    struct sbx_templates *templates = &native->templates;
    struct sbx_template *template = &templates->list[index];
    bool has_changed;

    if (template->pid < 0)
        return;
    if (!template->is_ready) {
        if (now_ns - template->started_ns > cr_patience_ns(START_DEADLINE_NS))
            sbx_templates_give_up(native, index);
        return;
    }
    if (templates->asked[index] > 0 || !sbx_template_is_stale(template, BOXES_MAX, AGE_MAX_NS))
        return;
    cr_log_info("replacing a template kind=%s boxes=%" PRIu32, sbx_template_name(kind_of(index)),
                template->boxes);
    has_changed = sbx_template_has_changed(template);
    end(native, index);
    plan_start(templates, index);
    if (has_changed)
        sbx_pool_drop_forked(native, (int)index);
}

void sbx_templates_on_time(struct sbx_native *native, int64_t now_ns)
{
    struct sbx_templates *templates = &native->templates;

    reap(templates);
    if (!templates->is_on || native->base.is_stopping)
        return;
    if (now_ns >= templates->look_ns) {
        templates->look_ns = now_ns + LOOK_NS;
        for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++)
            look_at(native, i, now_ns);
    }
    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++) {
        if (now_ns >= templates->start_ns[i])
            start_one(native, i);
    }
}

void sbx_templates_stop(struct sbx_templates *templates)
{
    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++)
        sbx_template_stop(&templates->list[i]);
    for (uint32_t i = 0; i < SBX_TEMPLATES_MAX; i++) {
        if (templates->leaving[i] > 0)
            (void)waitpid(templates->leaving[i], NULL, 0);
    }
    cr_close_fd(&templates->host.image_fd);
    cr_close_fd(&templates->host.userns_fd);
}

/* ---- kinds of slots of the pool ---- */

static bool is_ready(const struct sbx_native *native, enum sbx_template_kind kind)
{
    return native->templates.is_on && native->templates.list[kind].is_ready;
}

/* A box that waits has the most that anybody may ask for: only that can be lowered later. */
static int start_box(struct sbx_native *native, enum sbx_template_kind kind, struct sbx_cell *cell,
                     struct cr_err *err)
{
    return ask(native, kind, cell, &native->base.link.maximum, err);
}

#define STARTER(function, kind, count, label)                                                      \
    static bool function##_is_ready(const struct sbx_native *native)                               \
    {                                                                                              \
        return is_ready(native, kind);                                                             \
    }                                                                                              \
    static int function##_start(struct sbx_native *native, struct sbx_cell *cell,                  \
                                struct cr_err *err)                                                \
    {                                                                                              \
        return start_box(native, kind, cell, err);                                                 \
    }                                                                                              \
    static bool function##_serves(const struct sbx_native *native, const struct sbx_job *job)      \
    {                                                                                              \
        (void)native;                                                                              \
        return sbx_template_suits(kind, job);                                                      \
    }                                                                                              \
    const struct sbx_starter sbx_starter_##function = {                                            \
        .name = (label),                                                                           \
        .standard = (count),                                                                       \
        .needs_templates = true,                                                                   \
        .is_ready = function##_is_ready,                                                           \
        .start = function##_start,                                                                 \
        .serves = function##_serves,                                                               \
    }

STARTER(python, SBX_TEMPLATE_PYTHON, 1, "python");
/* A task with one repair: the tests twice, and the three checks that are asked for at once. One
 * more, so that the last does not find the pool empty. */
STARTER(pytest, SBX_TEMPLATE_PYTEST, 6, "pytest");
/* Forked when it is asked for, a sandbox costs more than the tests of most runs with arguments. */
STARTER(pytest_shallow, SBX_TEMPLATE_PYTEST_SHALLOW, 1, "pytest-shallow");
