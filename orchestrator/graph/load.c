/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/graph/call.h"
#include "orchestrator/graph/event_log.h"
#include "orchestrator/graph/journal.h"
#include "orchestrator/graph/run.h"
#include "orchestrator/graph/terms.h"
#include "rpc/codec.h"
#include "rpc/status.h"

#include <stdlib.h>
#include <string.h>

#define RESULT CRISOL__AGENT__V1__RUN_EVENT__EVENT_RESULT

/* The ids come first: reading events is another query. */
struct found {
    struct found *next;
    char run_id[AGT_STORE_ID_SIZE];
    Crisol__Journal__V1__RunSpec *spec; /* owned; NULL: cannot be read */
    bool has_ended;
    bool is_elsewhere;
    uint64_t fence;
};

struct loader {
    struct agt_engine *engine;
    struct agt_run *run; /* whose events are read */
    uint32_t seq;        /* of the last of them */
    bool has_result;     /* it was the last of the run */
    bool is_newer;       /* a newer program wrote the run that is read */
    bool has_left_out;   /* a run that is to go on here */
    struct found *first;
    struct found **end;
};

static int on_found(void *user, const struct agt_store_run *row)
{
    struct loader *loader = user;
    struct found *found = calloc(1, sizeof(*found));

    if (!found)
        return -ENOMEM;
    found->spec = crisol__journal__v1__run_spec__unpack(NULL, row->spec_size, row->spec);
    found->has_ended = row->has_ended;
    found->is_elsewhere = row->is_elsewhere;
    found->fence = row->fence;
    (void)memccpy(found->run_id, row->run_id, '\0', sizeof(found->run_id) - 1);
    *loader->end = found;
    loader->end = &found->next;
    return 0;
}

/* Visible at once: it was before. */
static int show(struct agt_run *run, const struct agt_store_event *row, bool *ret_is_last)
{
    struct agt_event *event = malloc(sizeof(*event) + row->size);
    Crisol__Agent__V1__RunEvent *unpacked =
        crisol__agent__v1__run_event__unpack(NULL, row->size, row->payload);

    if (!event || !unpacked) {
        free(event);
        crisol__agent__v1__run_event__free_unpacked(unpacked, NULL);
        return event ? -EBADMSG : -ENOMEM;
    }
    *event = (struct agt_event){
        .refs = 1,
        .seq = row->seq,
        .is_state = true,
        .is_last = unpacked->event_case == RESULT,
        .size = (uint32_t)row->size,
    };
    memcpy(event->packed, row->payload, row->size);
    *ret_is_last = event->is_last;
    crisol__agent__v1__run_event__free_unpacked(unpacked, NULL);
    return agt_event_log_add(run->log, event) < 0 ? -ENOMEM : 0;
}

static int on_event(void *user, const struct agt_store_event *row)
{
    struct loader *loader = user;
    int r;

    if (row->seq != loader->seq + 1 || row->size == 0 || loader->has_result)
        return -EBADMSG;
    loader->seq++;
    r = show(loader->run, row, &loader->has_result);
    if (r < 0)
        return r;
    loader->run->guest_seq = row->seq;
    if (!loader->run->journal)
        return 0;
    r = agt_journal_add_stored(loader->run->journal, row);
    loader->is_newer |= r == -EPROTO;
    return r == -EPROTO ? -EBADMSG : r;
}

bool agt_run_is_guest(const struct agt_run *run)
{
    return run->is_guest;
}

uint32_t agt_guest_seq(const struct agt_run *run)
{
    return run->guest_seq;
}

int agt_guest_add(struct agt_run *run, const struct agt_store_event *row)
{
    bool is_last = false;
    int r;

    if (row->seq != run->guest_seq + 1 || row->size == 0 || agt_run_has_ended(run))
        return -EBADMSG;
    r = show(run, row, &is_last);
    run->guest_seq += r == 0; /* else it is read once more */
    return r;
}

void agt_guest_leave(struct agt_run *run)
{
    if (agt_run_has_ended(run))
        return;
    __atomic_store_n(&run->is_suspended, true, __ATOMIC_RELEASE);
    agt_event_log_end(run->log);
}

static void fill_spec(const struct found *found, struct agt_run_spec *spec)
{
    const Crisol__Journal__V1__RunSpec *stored = found->spec;

    *spec = (struct agt_run_spec){
        .task = stored->task,
        .max_iterations = stored->max_iterations,
        .model = stored->model,
        .verify = stored->verify,
        .interrupts = stored->interrupts,
        .caller = stored->caller,
        .key = stored->idempotency_key,
        .run_id = found->run_id,
        .model_requested = stored->model_requested,
        .has_price = stored->has_price,
        .input_price = stored->input_price,
        .output_price = stored->output_price,
        .stall_same_code = stored->stall_same_code,
        .stall_same_failure = stored->stall_same_failure,
        .has_numbered_checks = stored->has_numbered_checks,
        .format = stored->format,
        .hints = stored->hints,
        .hint_count = stored->n_hints,
    };
    if (stored->has_sandbox_limits) {
        spec->sandbox_limits =
            stored->sandbox_limits.data ? stored->sandbox_limits.data : (const uint8_t *)"";
        spec->sandbox_limits_size = stored->sandbox_limits.len;
    }
    if (stored->terms.len > 0) {
        spec->terms = stored->terms.data;
        spec->terms_size = stored->terms.len;
    }
}

static bool goes_on_here(const struct found *found)
{
    return !found->has_ended && !found->is_elsewhere;
}

/*
 * Lets the engine's thread repeat it, and go on from there. All that needs
 * memory comes first: a run that is known, and that nobody works on, would
 * stay so for as long as this process holds it.
 */
static int hand_over(struct loader *loader, const struct found *found,
                     const struct agt_run_spec *spec, agt_engine_on_run on_run, void *user)
{
    struct agt_run *run = loader->run;
    struct agt_mail *mail = NULL;
    int r;

    if (goes_on_here(found)) {
        mail = agt_mail_new(AGT_MAIL_START, run, NULL, 0);
        if (!mail) {
            (void)agt_run_unref(run);
            return -ENOMEM;
        }
    }
    r = on_run(user, run, spec);
    if (r < 0 || !mail) {
        (void)agt_mail_free(mail);
        return r;
    }
    agt_engine_set_times(loader->engine, run);
    agt_engine_count_in(loader->engine);
    agt_engine_post(loader->engine, mail);
    return 0;
}

/* ---- what may be wrong with it ---- */

/* The first is the one that is told. */
static void note_damage(struct agt_run_spec *spec, const char *field)
{
    if (!spec->damaged)
        spec->damaged = field;
}

static int check_terms(struct agt_run_spec *spec)
{
    const ProtobufCMessageDescriptor *type = &crisol__agent__v1__task_terms__descriptor;
    struct rpc_status status = RPC_STATUS_INIT;
    Crisol__Agent__V1__TaskTerms *terms = NULL;
    bool is_sound =
        !spec->terms || (spec->terms_size <= AGT_TERMS_MAX &&
                         rpc_wire_check(type, spec->terms, spec->terms_size, &status) == 0);

    if (is_sound && spec->terms) {
        terms = crisol__agent__v1__task_terms__unpack(NULL, spec->terms_size, spec->terms);
        if (!terms)
            return -ENOMEM;
    }
    if (is_sound)
        agt_terms_check(terms, spec->verify, true, &status);
    crisol__agent__v1__task_terms__free_unpacked(terms, NULL);
    if (is_sound && status.code == RPC_OK)
        return 0;
    note_damage(spec, "terms");
    spec->terms = NULL;
    spec->terms_size = 0;
    return 0;
}

static bool are_sound_hints(const struct agt_run_spec *spec)
{
    bool are_sound = spec->hint_count <= AGT_HINTS_MAX;

    for (size_t i = 0; are_sound && i < spec->hint_count; i++)
        are_sound = strlen(spec->hints[i]) <= AGT_HINT_MAX;
    return are_sound;
}

/* As at its admission: a file that is repeated may come from anybody. What cannot be used is left
 * out, and named. Returns 0 or -ENOMEM. */
static int check_spec(struct agt_run_spec *spec)
{
    const ProtobufCMessageDescriptor *type = &crisol__sandbox__v1__limits__descriptor;
    struct rpc_status status = RPC_STATUS_INIT;

    if (spec->task[0] == '\0' || strlen(spec->task) > AGT_TASK_MAX)
        note_damage(spec, "task");
    if (spec->max_iterations < 0 || spec->max_iterations > AGT_ITERATIONS_MAX) {
        note_damage(spec, "max_iterations");
        spec->max_iterations = 0;
    }
    if (spec->verify < 0 || spec->verify > AGT_LEVEL_MAX) {
        note_damage(spec, "verify");
        spec->verify = 0;
    }
    if (spec->sandbox_limits &&
        rpc_wire_check(type, spec->sandbox_limits, spec->sandbox_limits_size, &status) < 0) {
        note_damage(spec, "sandbox_limits");
        spec->sandbox_limits = NULL;
        spec->sandbox_limits_size = 0;
    }
    if (!are_sound_hints(spec)) {
        note_damage(spec, "hints");
        spec->hint_count = 0;
    }
    return check_terms(spec);
}

/* What it means cannot be known. Whoever adds a field need not think of the format. */
static bool is_newer(const struct found *found)
{
    const Crisol__Journal__V1__RunSpec *spec = found->spec;

    return spec && (spec->format > AGT_JOURNAL_FORMAT ||
                    (goes_on_here(found) && spec->base.n_unknown_fields > 0));
}

/* The run without its events. */
static int begin_run(struct loader *loader, const struct found *found, struct agt_run_spec *spec)
{
    int r;

    loader->run = NULL;
    loader->seq = 0;
    loader->has_result = false;
    loader->is_newer = is_newer(found);
    if (!found->spec || loader->is_newer)
        return -EBADMSG;
    fill_spec(found, spec);
    r = check_spec(spec);
    if (r == 0 && spec->damaged && agt_engine_options(loader->engine)->replay)
        return -EBADMSG;
    if (r < 0)
        return r;
    return agt_run_new(loader->engine, spec, &loader->run);
}

static int load_run(struct loader *loader, const struct found *found, struct agt_run_spec *spec,
                    struct cr_err *err)
{
    struct agt_store *store = agt_engine_options(loader->engine)->store;
    const struct agt_replay_watch *watch = agt_engine_options(loader->engine)->replay;
    int r = begin_run(loader, found, spec);

    if (r < 0)
        return r;
    loader->run->is_guest = found->is_elsewhere;
    if (goes_on_here(found))
        r = agt_journal_new(loader->run, store, false, found->fence);
    else
        loader->run->engine = NULL; /* nothing to cancel */
    if (r == 0)
        r = store->ops->load_events(store, found->run_id, on_event, loader, err);
    if (r == 0 && loader->has_result != found->has_ended && !watch && !found->is_elsewhere)
        r = -EBADMSG;
    if (r == 0 && watch)
        agt_journal_watch(loader->run->journal, watch);
    if (r < 0)
        loader->run = agt_run_unref(loader->run);
    return r;
}

/*
 * One run that cannot be read keeps the others from nothing: it stays in the
 * store, for a program that can, and this one holds it no more. True when the
 * error was of that kind.
 */
static bool leave_out(struct loader *loader, const struct found *found, int error)
{
    if (error != -EBADMSG)
        return false;
    loader->has_left_out |= goes_on_here(found) || loader->is_newer;
    if (loader->is_newer)
        cr_log_error("journal: a newer version of this program wrote the run (format %u, this one "
                     "knows up to %d and not all that is in it), leaving it out run=%s",
                     found->spec->format, AGT_JOURNAL_FORMAT, found->run_id);
    else
        cr_log_error("journal: the run cannot be read behind event %u, leaving it out run=%s",
                     loader->seq, found->run_id);
    return true;
}

static void free_found(struct found *first)
{
    struct found *next;

    for (; first; first = next) {
        next = first->next;
        crisol__journal__v1__run_spec__free_unpacked(first->spec, NULL);
        free(first);
    }
}

static int load_found(struct loader *loader, agt_engine_on_run on_run, void *user,
                      struct cr_err *err)
{
    struct agt_run_spec spec;
    uint32_t resumed = 0;
    int r = 0;

    for (const struct found *found = loader->first; r == 0 && found; found = found->next) {
        r = load_run(loader, found, &spec, err);
        if (r < 0 && leave_out(loader, found, r)) {
            r = 0;
            continue;
        }
        if (r == 0)
            r = hand_over(loader, found, &spec, on_run, user);
        resumed += r == 0 && goes_on_here(found);
    }
    free_found(loader->first);
    if (r == 0 && resumed > 0)
        cr_log_info("taking up runs that were going on runs=%u", resumed);
    return r;
}

int agt_engine_take_up(struct agt_engine *engine, const struct agt_store_run *row,
                       agt_engine_on_run on_run, void *user, struct cr_err *err)
{
    struct loader loader = {.engine = engine, .end = &loader.first};
    int r = on_found(&loader, row);

    if (r == 0)
        r = load_found(&loader, on_run, user, err);
    return r == 0 && loader.has_left_out ? -EPROTO : r;
}

int agt_engine_load(struct agt_engine *engine, agt_engine_on_run on_run, void *user,
                    struct cr_err *err)
{
    struct agt_store *store = agt_engine_options(engine)->store;
    struct loader loader = {.engine = engine, .end = &loader.first};
    int r;

    if (!store)
        return 0;
    r = store->ops->load_runs(store, on_found, &loader, err);
    if (r == 0)
        r = load_found(&loader, on_run, user, err);
    else
        free_found(loader.first);
    if (r < 0 && err && err->code == 0)
        return cr_err_set(err, -r, "read the journal: a run cannot be read");
    return r;
}
