/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/inside.h"

#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/backend/folders.h"
#include "sandboxd/init/program.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/wait.h>

#define PIECE_MAX (32U << 10)
#define LOOKS_PER_TELL 5U

_Static_assert((int)SBX_COUNTER_COUNT <= (int)SBX_STAGE_COUNT,
               "a counter is as plausible as a stage");

void sbx_inside_open(struct sbx_inside *inside)
{
    static const char *const folders[SBX_INSIDE_FOLDERS] = {"/workspace", "/tmp", "/dev/shm"};

    inside->is_on = true;
    for (int i = 0; i < SBX_INSIDE_FOLDERS; i++)
        inside->folder_fds[i] = open(folders[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (sbx_cgroup_host_find(&inside->host, NULL) < 0)
        return;
    sbx_cgroup_host_observe(&inside->host);
    inside->has_group = inside->host.hierarchy[SBX_CONTROLLER_MEMORY] >= 0 &&
                        sbx_cgroup_open_of(&inside->host, getpid(), "", &inside->group, NULL) == 0;
}

static void read_group(const struct sbx_inside *inside, uint64_t *values)
{
    struct sbx_cgroup_usage usage;

    if (!inside->has_group || sbx_cgroup_usage(&inside->group, &usage, NULL) < 0)
        return;
    values[SBX_COUNTER_CPU_TOTAL_US] = usage.cpu_total_us;
    values[SBX_COUNTER_CPU_USER_US] = usage.cpu_user_us;
    values[SBX_COUNTER_CPU_SYSTEM_US] = usage.cpu_system_us;
    values[SBX_COUNTER_CPU_THROTTLED_US] = usage.cpu_throttled_us;
    values[SBX_COUNTER_MEMORY_PEAK_BYTES] = usage.memory_peak_bytes;
    values[SBX_COUNTER_OOM_KILLS] = usage.oom_kills;
    values[SBX_COUNTER_PROCESSES_PEAK] = usage.processes_peak;
    values[SBX_COUNTER_PROCESS_LIMIT_HITS] = usage.process_limit_hits;
}

static void read_folders(const struct sbx_inside *inside, uint64_t *values)
{
    struct sbx_folders folders = {0};

    for (int i = 0; i < SBX_INSIDE_FOLDERS; i++)
        sbx_folders_add(&folders, inside->folder_fds[i]);
    values[SBX_COUNTER_WORKSPACE_BYTES] = folders.bytes;
    values[SBX_COUNTER_WORKSPACE_INODES] = folders.inodes;
    values[SBX_COUNTER_WORKSPACE_STATE] = (folders.is_full ? SBX_WORKSPACE_FULL : 0) |
                                          (folders.is_out_of_inodes ? SBX_WORKSPACE_NO_INODES : 0);
}

void sbx_inside_tell(struct sbx_inside *inside, void (*send)(struct sbx_init_msg msg))
{
    uint64_t values[SBX_COUNTER_COUNT] = {0};

    read_group(inside, values);
    read_folders(inside, values);
    for (uint32_t i = 0; i < SBX_COUNTER_COUNT; i++) {
        if (values[i] == inside->told[i])
            continue;
        inside->told[i] = values[i];
        send((struct sbx_init_msg){.event = SBX_INIT_COUNTER,
                                   .stage = i,
                                   .leftovers = (uint32_t)values[i],
                                   .detail = (uint32_t)(values[i] >> 32)});
    }
}

/* More processes were killed for memory than was told. Cheap. */
static bool has_oom(const struct sbx_inside *inside)
{
    uint64_t count = 0;

    return inside->has_group && sbx_cgroup_oom_kills(&inside->group, &count) == 0 &&
           count != inside->told[SBX_COUNTER_OOM_KILLS];
}

void sbx_inside_look(struct sbx_inside *inside, void (*send)(struct sbx_init_msg msg))
{
    int64_t now_ns = cr_clock_mono_ns();

    if (now_ns < inside->look_ns)
        return;
    inside->look_ns = now_ns + SBX_INSIDE_LOOK_MS * CR_NS_PER_MS;
    if (inside->looks++ % LOOKS_PER_TELL == 0 || has_oom(inside))
        sbx_inside_tell(inside, send);
}

static uint64_t file_size_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                   : 0;
}

static void add_places(const struct sbx_inside *inside, struct sbx_collector_plan *plan)
{
    _Static_assert(SBX_INSIDE_FOLDERS <= SBX_COLLECTOR_PLACES, "each is looked into");

    for (int i = 0; i < SBX_INSIDE_FOLDERS; i++) {
        if (inside->folder_fds[i] >= 0)
            plan->places[plan->place_count++] = inside->folder_fds[i];
    }
}

uint32_t sbx_inside_collect(const struct sbx_inside *inside, int payload_fd, bool must_find_size,
                            void (*send)(void *data, size_t size))
{
    static uint8_t piece[PIECE_MAX];
    struct sbx_collector_plan plan = {
        .workspace_fd = inside->folder_fds[0],
        .payload_fd = payload_fd,
        .id = SBX_PROGRAM_UID,
        .size = must_find_size ? file_size_limit() : 0,
    };
    CR_AUTO_CLOSE int from = -1;
    CR_AUTO_CLOSE int to = -1;
    int ends[2];
    int status = 0;
    pid_t pid;
    ssize_t n;
    int r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return 0;
    from = ends[0];
    to = ends[1];
    plan.out_fd = to;
    add_places(inside, &plan);
    r = sbx_collector_start(&plan, &pid, NULL);
    if (r < 0)
        return 0; /* the reader sees no file, and says which is missing */
    cr_close_fd(&to);
    while ((n = read(from, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0)
            send(piece, (size_t)n);
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return 0;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == SBX_COLLECTOR_SIZE_SEEN ? SBX_INIT_SIZE_SEEN
                                                                               : 0;
}
