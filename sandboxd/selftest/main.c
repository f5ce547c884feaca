/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `sandboxd selftest`: attacks a sandboxd of its own and judges every control
 * of the policy, once with all controls and once without each of them.
 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/selftest/report.h"
#include "sandboxd/selftest/worker.h"
#include "sandboxd/supervisor/rootless.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/signalfd.h>

#define WORKERS 3U
#define RUN_COUNT (1U + SBX_CONTROL_COUNT)

struct settings {
    char *backend;
    struct sbx_target target;
    bool is_json;
    char *accepted;
    char *weaken;
    uint64_t slow_host;
};

#define DOCKER(name, member, text)                                                                 \
    {                                                                                              \
        .flag = (name), .type = CR_SETTING_STRING,                                                 \
        .offset = offsetof(struct settings, target.member), .help = (text)                         \
    }

static const struct cr_setting table[] = {
    {.flag = "backend",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct settings, backend),
     .fallback = "native",
     .help = "The backend to attack: native or docker."},
    DOCKER("docker-socket", docker_socket, "Unix socket of the engine."),
    DOCKER("docker-image", docker_image, "As of sandboxd."),
    DOCKER("docker-base", docker_base, "As of sandboxd."),
    DOCKER("docker-pull", docker_pull, "As of sandboxd: never or missing."),
    DOCKER("docker-runtime", docker_runtime, "As of sandboxd."),
    {.flag = "rootless",
     .type = CR_SETTING_BOOL,
     .offset = offsetof(struct settings, target.is_rootless),
     .help = "As of sandboxd: started by an ordinary user. What is weaker then must be accepted."},
    {.flag = "json",
     .type = CR_SETTING_BOOL,
     .offset = offsetof(struct settings, is_json),
     .help = "Print one JSON document instead of a table."},
    {.flag = "accept",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct settings, accepted),
     .is_list = true,
     .help = "Names, with commas: a control that may be missing or weaker here, or a single probe "
             "whose weaker answer (GAP) is no reason to fail. Repeatable."},
    CR_SLOWNESS_SETTING(offsetof(struct settings, slow_host)),
    {.flag = "weaken",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct settings, weaken),
     .help = "Attack sandboxes without this control: the self-test must then fail. For tests."},
};

/* ---- the runs ---- */

/* Number 0 is the one with every control; number N + 1 is without control N. */
struct runs {
    struct sbx_report *report;
    const struct sbx_target *target; /* borrowed */
    char folder[48];                 /* of the sockets */
    int signal_fd;
    int signal; /* that ended it; 0: none */
    struct sbx_worker workers[RUN_COUNT];
    uint32_t next;
    uint32_t live;
};

/* The first one tells most. */
static void note_problem(struct sbx_report *report, uint32_t run, const char *text)
{
    char *problem = run == 0 ? report->problem : report->red_problem[run - 1];

    if (!*problem)
        (void)snprintf(problem, sizeof(report->problem), "%s", text);
}

static void take_outcome(struct runs *runs, uint32_t run, const struct sbx_outcome *outcome)
{
    struct sbx_report *report = runs->report;

    if (outcome->index == SBX_OUTCOME_PROBLEM) {
        note_problem(report, run, outcome->seen);
    } else if (outcome->index == SBX_OUTCOME_GAPS) {
        if (run == 0)
            report->gaps = outcome->status;
    } else if (outcome->index < report->catalog.count && run == 0) {
        report->status[outcome->index] = outcome->status;
        (void)snprintf(report->seen[outcome->index], sizeof(report->seen[0]), "%s", outcome->seen);
    } else if (outcome->index < report->catalog.count) {
        report->red[run - 1] += outcome->status == SBX_PROBE_FAIL &&
                                report->catalog.items[outcome->index].control == run - 1;
        /* Told when no probe fails: why one of them could not be made. */
        if (outcome->status == SBX_PROBE_ERROR)
            note_problem(report, run, outcome->seen);
    }
}

static int start_next(struct runs *runs, struct cr_err *err)
{
    const uint32_t number = runs->next;
    char socket[sizeof(runs->folder) + 16];
    int r;

    (void)snprintf(socket, sizeof(socket), "%s/%" PRIu32, runs->folder, number);
    r = sbx_worker_start(
        &(struct sbx_task){
            .target = runs->target,
            .socket = socket,
            .weakened = number == 0 ? runs->report->weakened : number - 1,
            .only = number == 0 ? SBX_EVERY_CONTROL : number - 1,
        },
        &runs->workers[number], err);

    if (r < 0)
        return r;
    runs->next++;
    runs->live++;
    return 0;
}

static void read_one(struct runs *runs, uint32_t run)
{
    struct sbx_worker *worker = &runs->workers[run];
    struct sbx_outcome outcome;
    const ssize_t size = read(worker->outcome_fd, &outcome, sizeof(outcome));

    if (size == (ssize_t)sizeof(outcome)) {
        outcome.seen[sizeof(outcome.seen) - 1] = '\0';
        take_outcome(runs, run, &outcome);
        return;
    }
    if (sbx_worker_end(worker, false) < 0)
        note_problem(runs->report, run, "the tester ended before it was done");
    runs->live--;
}

static void wait_some(struct runs *runs)
{
    struct pollfd watches[RUN_COUNT + 1];
    struct signalfd_siginfo info;

    for (uint32_t i = 0; i < runs->next; i++)
        watches[i] = (struct pollfd){
            .fd = runs->workers[i].pid > 0 ? runs->workers[i].outcome_fd : -1, .events = POLLIN};
    watches[runs->next] = (struct pollfd){.fd = runs->signal_fd, .events = POLLIN};
    (void)poll(watches, runs->next + 1, 1000);
    if (watches[runs->next].revents != 0 &&
        read(runs->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        runs->signal = (int)info.ssi_signo;
    for (uint32_t i = 0; i < runs->next; i++) {
        if (runs->workers[i].pid <= 0)
            continue;
        if (watches[i].revents != 0) {
            read_one(runs, i);
        } else if (cr_clock_mono_ns() >= runs->workers[i].deadline_ns) {
            (void)sbx_worker_end(&runs->workers[i], true);
            note_problem(runs->report, i, "it was not done in time, and was ended");
            runs->live--;
        }
    }
}

static int open_runs(struct runs *runs, struct cr_err *err)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* fails only for a bad first argument */
    runs->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (runs->signal_fd < 0)
        return cr_err_sys(err, errno, "watch signals");
    (void)snprintf(runs->folder, sizeof(runs->folder), "/tmp/crisol-selftest-%d-XXXXXX", getpid());
    if (mkdtemp(runs->folder))
        return 0;
    cr_close_fd(&runs->signal_fd);
    return cr_err_sys(err, errno, "make a folder for the sockets");
}

/* Also what a worker that was killed could not remove. */
static void close_runs(struct runs *runs)
{
    char path[sizeof(runs->folder) + 16];

    for (uint32_t i = 0; i < runs->next; i++) {
        if (runs->workers[i].pid > 0)
            (void)sbx_worker_end(&runs->workers[i], true);
        (void)snprintf(path, sizeof(path), "%s/%" PRIu32, runs->folder, i);
        (void)unlinkat(AT_FDCWD, path, 0);
        (void)snprintf(path, sizeof(path), "%s/%" PRIu32 ".lock", runs->folder, i);
        (void)unlinkat(AT_FDCWD, path, 0);
    }
    (void)unlinkat(AT_FDCWD, runs->folder, AT_REMOVEDIR);
    cr_close_fd(&runs->signal_fd);
}

/* Ends as the signal would have ended us. */
static void die_of(int number)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)kill(getpid(), number);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int run_all(struct sbx_report *report, const struct settings *settings, struct cr_err *err)
{
    /* A slow host has no time to spare between the steps of one. */
    const uint32_t workers = cr_patience() > 1 ? 1 : WORKERS;
    struct runs runs = {.report = report, .target = &settings->target, .signal_fd = -1};
    struct cr_err clean = CR_ERR_INIT;
    int r = open_runs(&runs, err);

    if (r < 0)
        return r;
    /* Where the boxes with all controls do not work, those with one less say nothing. */
    while (r == 0 && runs.signal == 0 && !report->problem[0] &&
           (runs.next < RUN_COUNT || runs.live > 0)) {
        while (r == 0 && runs.next < RUN_COUNT && runs.live < workers)
            r = start_next(&runs, err);
        if (r == 0)
            wait_some(&runs);
    }
    close_runs(&runs);
    if (settings->target.is_docker && sbx_stack_clean(&settings->target, &clean) < 0)
        cr_log_error("%s", clean.text);
    if (runs.signal != 0)
        die_of(runs.signal);
    return r;
}

/* ---- settings ---- */

static int read_settings(const struct settings *settings, struct sbx_report *report,
                         struct cr_err *err)
{
    if (strcmp(settings->backend, "native") != 0 && strcmp(settings->backend, "docker") != 0)
        return cr_err_set(err, EINVAL, "--backend: '%s' is neither native nor docker",
                          settings->backend);
    report->backend = settings->backend;
    report->weakened = SBX_NO_CONTROL;
    if (settings->weaken) {
        report->weakened = sbx_report_find_control(settings->weaken, strlen(settings->weaken));
        if (report->weakened == SBX_NO_CONTROL)
            return cr_err_set(err, EINVAL, "--weaken: '%s' is no control", settings->weaken);
    }
    if (geteuid() != 0 && !settings->target.is_rootless)
        return cr_err_set(err, EPERM,
                          "the self-test must be started as root (try sudo), or with --rootless");
    if (settings->target.is_docker && settings->target.is_rootless)
        return cr_err_set(err, EINVAL, "--rootless: is for the native backend");
    return 0;
}

static int enter_rootless(struct sbx_target *target, struct cr_err *err)
{
    uint32_t ids = 0;
    int r = sbx_rootless_enter(&ids, err);

    target->has_ids = ids > 0;
    return r;
}

static int run(struct settings *settings, struct cr_err *err)
{
    static struct sbx_report report; /* large, and there is one */
    int r;

    settings->target.is_docker = strcmp(settings->backend, "docker") == 0;
    r = read_settings(settings, &report, err);
    if (r < 0)
        return r;
    r = settings->target.is_rootless ? enter_rootless(&settings->target, err) : 0;
    if (r < 0)
        return r;
    sbx_catalog_load(&report.catalog, sbx_target_answers(&settings->target));
    r = sbx_report_accept(&report, settings->accepted, err);
    if (r == 0)
        r = run_all(&report, settings, err);
    if (r < 0)
        return r;
    sbx_report_settle(&report);
    if (settings->is_json)
        sbx_report_print_json(&report);
    else
        sbx_report_print_text(&report);
    return sbx_report_is_good(&report) ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("sandboxd-selftest", CR_LOG_ERROR, CR_LOG_TEXT);
    r = cr_config_load(
        table, CR_ARRAY_SIZE(table), "sandboxd selftest",
        "Attacks sandboxes of its own, with every control of the policy and without "
        "each of\nthem in turn, and judges from outside. Must be started as root, or with "
        "--rootless. "
        "Exits with 0 when all\ncontrols hold or are accepted by name, and each of "
        "them was seen to be what stops its\nattacks.",
        argc, argv, &settings, &err);
    if (r == 1) { /* --help */
        cr_config_done(table, CR_ARRAY_SIZE(table), &settings);
        return EXIT_SUCCESS;
    }
    cr_patience_set(settings.slow_host);
    if (r == 0)
        r = run(&settings, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_config_done(table, CR_ARRAY_SIZE(table), &settings);
    return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
