/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/native/probe.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/patience.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/box.h"
#include "sandboxd/native/native.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/payload.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#define PROBE_GROUP UINT32_MAX /* a number that the pool does not reach */
#define DEADLINE_NS (10 * CR_NS_PER_S)
#define PAUSE_MS 2
#define PAYLOAD_CAP 4096

/* What usually stands behind a step that a host refuses. */
static const struct {
    enum sbx_stage stage;
    const char *hint;
} hints[] = {
    {SBX_STAGE_CGROUP,
     "are the control groups mounted writable, and do limits above ours allow it?"},
    {SBX_STAGE_NAMESPACE, "are network namespaces allowed (sysctl user.max_net_namespaces)?"},
    {SBX_STAGE_MOUNT, "a container needs an unmasked /proc and permission to mount"},
    {SBX_STAGE_IDENTITY,
     "are user namespaces allowed (sysctl user.max_user_namespaces, AppArmor)?"},
    {SBX_STAGE_INIT, "is sandbox-init a static program of this machine?"},
    {SBX_STAGE_SECCOMP, "does the kernel have CONFIG_SECCOMP_FILTER?"},
    {SBX_STAGE_EXEC, "is /usr the host's programs, readable by everybody?"},
};

static const char *hint(uint32_t stage)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(hints); i++) {
        if (hints[i].stage == stage)
            return hints[i].hint;
    }
    return "see the documentation of what a host needs";
}

static int make_payload(const char *const *argv, struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf buf = {0};
    int r;

    cr_buf_init(&buf, PAYLOAD_CAP);
    r = sbx_payload_begin(&buf);
    for (size_t i = 0; r == 0 && argv[i]; i++)
        r = sbx_payload_add(&buf, SBX_PAYLOAD_ARG, 0, 0, "", 0, argv[i], strlen(argv[i]));
    if (r < 0)
        return cr_err_sys(err, -r, "make the payload of the trial box");
    sbx_payload_end(&buf);
    return sbx_payload_seal(&buf, err);
}

/* The next message of sandbox-init; its end counts as one of a failed start. */
static int receive(const struct sbx_box *box, int64_t deadline_ns, struct sbx_init_msg *ret_msg,
                   struct cr_err *err)
{
    struct pollfd watch = {.fd = box->control_fd, .events = POLLIN};
    int64_t left_ns = deadline_ns - cr_clock_mono_ns();
    ssize_t n;

    if (left_ns < 0 || poll(&watch, 1, (int)(left_ns / CR_NS_PER_MS)) != 1)
        return cr_err_set(err, ETIMEDOUT, "the trial box does not answer in time");
    n = recv(box->control_fd, ret_msg, sizeof(*ret_msg), 0);
    if (n != sizeof(*ret_msg))
        return cr_err_set(err, EPROTO, "the trial box ended without a word");
    if (ret_msg->event == SBX_INIT_FAILED)
        return cr_err_sys(err, ret_msg->error, "the trial box failed at the step '%s' (%s)",
                          sbx_stage_name(ret_msg->stage), hint(ret_msg->stage));
    return 0;
}

static int talk(const struct sbx_box *box, const struct sbx_cgroup *group, const char *program,
                uint64_t *ret_box_bytes, struct cr_err *err)
{
    const struct sbx_init_msg go = {.event = SBX_INIT_GO};
    int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(DEADLINE_NS);
    struct sbx_init_msg msg = {0};
    int r = receive(box, deadline_ns, &msg, err);

    if (r < 0)
        return r;
    /* Nothing but sandbox-init is in it yet. */
    r = sbx_cgroup_memory_bytes(group, ret_box_bytes);
    if (r < 0)
        return cr_err_sys(err, -r, "read the memory of the trial box");
    if (msg.event != SBX_INIT_READY ||
        send(box->control_fd, &go, sizeof(go), MSG_NOSIGNAL) != sizeof(go))
        return cr_err_set(err, EPROTO, "the trial box does not speak as expected");
    r = receive(box, deadline_ns, &msg, err);
    if (r < 0)
        return r;
    if (msg.event != SBX_INIT_EXITED || msg.wait_status != 0)
        return cr_err_set(err, EIO, "%s did not end well in the trial box (wait status 0x%x)",
                          program, (unsigned int)msg.wait_status);
    return 0;
}

static int run_box(struct sbx_native *native, const struct sbx_cgroup *group,
                   const char *const *argv, struct cr_err *err)
{
    CR_AUTO_CLOSE int null_fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
    CR_AUTO_CLOSE int payload_fd = make_payload(argv, err);
    CR_AUTO_CLOSE int workspace_fd = -1;
    const struct sbx_limits limits = sbx_backend_usual_limits(&native->base);
    struct sbx_box box = SBX_BOX_INIT;
    int r;

    if (payload_fd < 0)
        return payload_fd;
    if (null_fd < 0)
        return cr_err_sys(err, errno, "open /dev/null of the boxes");
    r = sbx_cgroup_limit(group, &limits, err);
    if (r == 0)
        r = sbx_workspace_make(
            limits.value[SBX_LIMIT_WORKSPACE_BYTES], limits.value[SBX_LIMIT_WORKSPACE_INODES],
            sbx_cell_owner(native, &(struct sbx_cell){.place = 0}), &workspace_fd, err);
    if (r == 0)
        r = sbx_box_begin(
            &(struct sbx_box_shell){.spawner = &native->spawner, .group = group, .net_fd = -1},
            &box, err);
    if (r < 0)
        return r;
    r = sbx_box_finish(
        &box,
        &(struct sbx_box_plan){.limits = &limits,
                               .userns_fd = native->places[0].userns_fd,
                               .root_fd = -1,
                               .is_watched = native->base.cgroups.ops->look_ns > 0,
                               .has_one_id = native->is_rootless && native->own_ids == 0,
                               .workspace_fd = workspace_fd,
                               .payload_fd = payload_fd,
                               .stdio_fds = {null_fd, null_fd, null_fd}},
        err);
    if (r == 0)
        r = talk(&box, group, argv[0], &native->box_bytes, err);
    sbx_box_kill(&box);
    sbx_box_reap(&box);
    return r;
}

static void remove_group(const struct sbx_native *native)
{
    int64_t deadline_ns = cr_clock_mono_ns() + cr_patience_ns(DEADLINE_NS);

    /* Busy for a moment after the reap; what stays is removed with our folder at the end. */
    while (sbx_cgroup_remove(&native->base.cgroups, PROBE_GROUP) == -EBUSY &&
           cr_clock_mono_ns() < deadline_ns)
        (void)poll(NULL, 0, PAUSE_MS);
}

static int open_group(struct sbx_native *native, struct sbx_cgroup *ret_group, struct cr_err *err)
{
    int r = sbx_cgroup_make(&native->base.cgroups, PROBE_GROUP, err);

    if (r == 0)
        r = sbx_cgroup_open(&native->base.cgroups, PROBE_GROUP, ret_group, err);
    if (r < 0)
        return r;
    r = sbx_cgroup_open_files(ret_group, err);
    if (r < 0)
        sbx_cgroup_close(ret_group);
    return r;
}

int sbx_probe(struct sbx_native *native, const char *const *argv, struct cr_err *err)
{
    struct sbx_cgroup group;
    int r = open_group(native, &group, err);

    if (r < 0)
        return r;
    r = run_box(native, &group, argv, err);
    sbx_cgroup_close(&group);
    remove_group(native);
    return r;
}

int sbx_probe_group(struct sbx_native *native, struct cr_err *err)
{
    const struct sbx_limits limits = sbx_backend_usual_limits(&native->base);
    struct sbx_cgroup group;
    int r = open_group(native, &group, err);

    if (r < 0)
        return r;
    r = sbx_cgroup_limit(&group, &limits, err);
    if (r == 0)
        r = sbx_cgroup_limit_cpu(&group, &limits, err);
    sbx_cgroup_close(&group);
    remove_group(native);
    return r;
}
