/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <sys/socket.h>

/*
 * A box that is read from inside: sandbox-init ends it, says when it is empty
 * and collects its files; the relay passes them on. The engine's kill comes
 * when there is no answer, and the engine's word when the connection ended
 * and nobody said why.
 */
#define ANSWER_NS (2 * CR_NS_PER_S)
#define FLUSH_NS (500 * CR_NS_PER_MS)
#define KILL_MS 10000
#define INSPECT_MS 5000

static uint64_t tag_of(const struct sbx_docker_run *run)
{
    return (uint64_t)run->job.generation << 32 | run->job.slot;
}

/* The run that a call was for, while it waits for its box to be dead. */
static struct sbx_docker_run *find(struct sbx_docker *docker, uint64_t tag)
{
    struct sbx_docker_run *run = &docker->runs[tag & 0xff];

    return run->job.generation == (uint32_t)(tag >> 32) && run->job.state == SBX_JOB_KILLING ? run
                                                                                             : NULL;
}

/* The run that an answer is for; NULL when it is over. */
static struct sbx_docker_run *hear(struct sbx_docker *docker, uint64_t tag,
                                   const struct sbx_engine_answer *answer)
{
    if (answer->error != 0 && answer->is_gone)
        sbx_docker_lose_engine(docker, answer->text);
    return find(docker, tag);
}

/* ---- what sandbox-init tells ---- */

static uint64_t *place_of(struct sbx_docker_told *told, uint32_t counter)
{
    uint64_t *const places[SBX_COUNTER_COUNT] = {
        [SBX_COUNTER_CPU_TOTAL_US] = &told->usage.cpu_total_us,
        [SBX_COUNTER_CPU_USER_US] = &told->usage.cpu_user_us,
        [SBX_COUNTER_CPU_SYSTEM_US] = &told->usage.cpu_system_us,
        [SBX_COUNTER_CPU_THROTTLED_US] = &told->usage.cpu_throttled_us,
        [SBX_COUNTER_MEMORY_PEAK_BYTES] = &told->usage.memory_peak_bytes,
        [SBX_COUNTER_OOM_KILLS] = &told->usage.oom_kills,
        [SBX_COUNTER_PROCESSES_PEAK] = &told->usage.processes_peak,
        [SBX_COUNTER_PROCESS_LIMIT_HITS] = &told->usage.process_limit_hits,
        [SBX_COUNTER_WORKSPACE_BYTES] = &told->workspace_bytes,
        [SBX_COUNTER_WORKSPACE_INODES] = &told->workspace_inodes,
        [SBX_COUNTER_WORKSPACE_STATE] = &told->workspace_state,
    };

    return counter < SBX_COUNTER_COUNT ? places[counter] : NULL;
}

static bool on_counter(struct sbx_docker_run *run, const struct sbx_init_msg *msg)
{
    uint64_t *place = place_of(&run->told, msg->stage);

    if (!place)
        return false;
    *place = (uint64_t)msg->detail << 32 | msg->leftovers;
    if (msg->stage == SBX_COUNTER_OOM_KILLS && run->job.state == SBX_JOB_RUNNING) {
        run->job.oom_poll_ns = cr_clock_mono_ns(); /* at once, as if the group itself had said so */
        run->job.oom_until_ns = run->job.oom_poll_ns + 1;
    }
    return true;
}

static bool on_empty(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    if (run->job.state != SBX_JOB_KILLING)
        return false;
    run->answer_ns = INT64_MAX;
    run->job.dead_ns = cr_clock_mono_ns();
    sbx_job_on_empty(&docker->base, &run->job);
    return true;
}

bool sbx_docker_inside_on_message(struct sbx_docker *docker, struct sbx_docker_run *run,
                                  const struct sbx_init_msg *msg)
{
    switch (msg->event) {
    case SBX_INIT_COUNTER:
        return on_counter(run, msg);
    case SBX_INIT_EMPTY:
        return on_empty(docker, run);
    case SBX_INIT_COLLECTED:
        return run->job.state == SBX_JOB_DRAINING; /* the relay says the rest by its end */
    default:
        return false;
    }
}

void sbx_docker_inside_measure(struct sbx_docker_run *run)
{
    struct sbx_facts *facts = &run->job.facts;

    if (run->job.go_ns > 0)
        (void)sbx_job_read_counters(&run->job, NULL);
    facts->workspace_bytes = run->told.workspace_bytes;
    facts->workspace_inodes = run->told.workspace_inodes;
    facts->is_workspace_full = (run->told.workspace_state & SBX_WORKSPACE_FULL) != 0;
    facts->is_out_of_inodes = (run->told.workspace_state & SBX_WORKSPACE_NO_INODES) != 0;
}

/* It passes on what sandbox-init collects. */
bool sbx_docker_inside_take_collector(struct sbx_backend *backend, struct sbx_job *job,
                                      pid_t *ret_pid, int *ret_pidfd)
{
    struct sbx_docker_run *run = sbx_docker_run_of(job);

    if (!sbx_docker_of(backend)->plan.is_inside)
        return false;
    if (run->relay.pid < 0)
        return true; /* it is gone, and with it what could be collected */
    *ret_pid = run->relay.pid;
    *ret_pidfd = cr_take_fd(&run->relay.pidfd);
    run->relay.pid = -1;
    return true;
}

/* ---- the end of a box ---- */

void sbx_docker_inside_kill(struct sbx_docker_run *run)
{
    const struct sbx_init_msg kill = {.event = SBX_INIT_KILL};

    if (run->relay.pid < 0)
        return;
    run->answer_ns = cr_clock_mono_ns() + cr_patience_ns(ANSWER_NS);
    if (run->job.facts.has_leader || run->job.facts.has_forbidden_call)
        return; /* it ends the box by itself */
    if (run->job.go_ns == 0 ||
        send(run->job.control_fd, &kill, sizeof(kill), MSG_NOSIGNAL) != sizeof(kill))
        sbx_relay_kill(&run->relay); /* the end of its input ends sandbox-init */
}

/* Dead or not there any more: what was on its way to the front may come yet. */
static void on_killed(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = hear(docker, tag, answer);

    if (run)
        run->job.deadline_ns = cr_clock_mono_ns() + cr_patience_ns(FLUSH_NS);
}

void sbx_docker_inside_on_time(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    char path[128];
    const struct sbx_engine_request request = {
        .method = "POST", .path = path, .deadline_ms = KILL_MS};

    run->answer_ns = INT64_MAX;
    if (run->job.state != SBX_JOB_KILLING)
        return;
    cr_log_warn("sandbox-init does not end its box, asking the engine run=%" PRIu64
                " container=%.12s",
                run->job.id, run->box.container);
    (void)snprintf(path, sizeof(path), "/containers/%s/kill?signal=KILL", run->box.container);
    if (sbx_engine_call(docker->engine, &request, on_killed, docker, tag_of(run)) < 0)
        sbx_relay_kill(&run->relay);
}

static void ask(struct sbx_docker *docker, struct sbx_docker_run *run, const char *method,
                const char *path, sbx_engine_on_answer on_answer)
{
    const struct sbx_engine_request request = {
        .method = method, .path = path, .deadline_ms = INSPECT_MS};

    if (docker->is_engine_lost ||
        sbx_engine_call(docker->engine, &request, on_answer, docker, tag_of(run)) < 0)
        sbx_job_on_empty(&docker->base, &run->job);
}

static void ask_of_container(struct sbx_docker *docker, struct sbx_docker_run *run,
                             const char *method, const char *what, sbx_engine_on_answer on_answer)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/containers/%s/%s", run->box.container, what);
    ask(docker, run, method, path, on_answer);
}

/* Nobody told how the box ended: its last process may have been killed for memory. */
static void end(struct sbx_docker *docker, struct sbx_docker_run *run, bool is_oom)
{
    if (is_oom) {
        run->told.usage.oom_kills++;
        run->job.is_lost = false;
    }
    sbx_job_on_empty(&docker->base, &run->job);
}

static void on_events(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = hear(docker, tag, answer);

    if (run)
        end(docker, run,
            answer->error == 0 && answer->status == 200 && sbx_container_has_oom(answer->body));
}

static void on_inspected(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = hear(docker, tag, answer);
    struct sbx_container_end ended = {0};
    char path[SBX_CONTAINER_OOM_PATH_SIZE];

    if (!run)
        return;
    if (answer->error != 0 || answer->status != 200 ||
        sbx_container_read_end(answer->body, &ended) < 0 || ended.is_oom ||
        sbx_container_oom_path(run->box.container, ended.finish_s, path, sizeof(path)) < 0)
        end(docker, run, ended.is_oom);
    else
        ask(docker, run, "GET", path, on_events);
}

/* Before that it knows neither. */
static void on_waited(void *user, uint64_t tag, const struct sbx_engine_answer *answer)
{
    struct sbx_docker *docker = user;
    struct sbx_docker_run *run = hear(docker, tag, answer);

    if (run)
        ask_of_container(docker, run, "GET", "json", on_inspected);
}

/* The connection ends before the engine has heard of the end of the container. */
static void ask_how_it_ended(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    ask_of_container(docker, run, "POST", "wait", on_waited);
}

/* All that it had passed on before its end. */
static void read_last_words(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    char byte;

    while (run->job.state != SBX_JOB_FREE && run->job.control_fd >= 0 &&
           sbx_job_receive(&run->job, &byte, sizeof(byte), MSG_PEEK) > 0)
        sbx_job_on_control(&docker->base, &run->job);
}

void sbx_docker_inside_on_relay(struct sbx_docker *docker, struct sbx_docker_run *run)
{
    struct sbx_job *job = &run->job;

    read_last_words(docker, run);
    if (job->state == SBX_JOB_FREE || run->relay.pid < 0)
        return; /* its last words were of the end; it is the job's collector now, or gone */
    sbx_docker_run_note_loss(docker, run);
    (void)sbx_relay_reap(&run->relay);
    cr_close_fd(&job->control_fd);
    run->answer_ns = INT64_MAX;
    if (job->state != SBX_JOB_KILLING)
        return;
    job->dead_ns = cr_clock_mono_ns();
    if (job->is_lost)
        ask_how_it_ended(docker, run);
    else
        sbx_job_on_empty(&docker->base, job);
}
