/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/wire/msg.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <string.h>

#include <sys/socket.h>

/* A control buffer that can hold more fds than a legal message carries, so that extra ones are
 * seen and closed and not only cut off. */
#define RECEIVE_FDS_MAX (SBX_RUN_FDS + 3)
#define SIGNAL_MAX 64
#define BACKEND_MAX 2U

/* The structs travel as they are: no padding, whose bytes would be somebody's stack. */
_Static_assert(sizeof(struct sbx_msg_header) == 16, "wire layout");
_Static_assert(sizeof(struct sbx_msg_hello) == 176, "wire layout");
_Static_assert(sizeof(struct sbx_msg_run) == 136, "wire layout");
_Static_assert(sizeof(struct sbx_msg_output_limit) == 32, "wire layout");
_Static_assert(sizeof(struct sbx_msg_drained) == 32, "wire layout");
_Static_assert(sizeof(struct sbx_msg_started) == 24, "wire layout");
_Static_assert(sizeof(struct sbx_msg_result) == 288, "wire layout");
_Static_assert(sizeof(struct sbx_msg_pool) == 24, "wire layout");
_Static_assert(sizeof(struct sbx_msg_counts) == 72, "wire layout");
_Static_assert(sizeof(struct sbx_msg_open) == 120, "wire layout");
_Static_assert(sizeof(struct sbx_msg_closed) == 24, "wire layout");
_Static_assert(sizeof(struct sbx_msg_signal) == 24, "wire layout");
_Static_assert(sizeof(struct sbx_msg_resize) == 24, "wire layout");

static const size_t msg_sizes[SBX_MSG_TYPE_END] = {
    [SBX_MSG_HELLO] = sizeof(struct sbx_msg_hello),
    [SBX_MSG_RUN] = sizeof(struct sbx_msg_run),
    [SBX_MSG_CANCEL] = sizeof(struct sbx_msg_cancel),
    [SBX_MSG_OUTPUT_LIMIT] = sizeof(struct sbx_msg_output_limit),
    [SBX_MSG_DRAINED] = sizeof(struct sbx_msg_drained),
    [SBX_MSG_STARTED] = sizeof(struct sbx_msg_started),
    [SBX_MSG_EXITED] = sizeof(struct sbx_msg_exited),
    [SBX_MSG_RESULT] = sizeof(struct sbx_msg_result),
    [SBX_MSG_POOL] = sizeof(struct sbx_msg_pool),
    [SBX_MSG_COUNTS] = sizeof(struct sbx_msg_counts),
    [SBX_MSG_OPEN] = sizeof(struct sbx_msg_open),
    [SBX_MSG_CLOSE] = sizeof(struct sbx_msg_close),
    [SBX_MSG_CLOSED] = sizeof(struct sbx_msg_closed),
    [SBX_MSG_SIGNAL] = sizeof(struct sbx_msg_signal),
    [SBX_MSG_RESIZE] = sizeof(struct sbx_msg_resize),
};

static const char *const limit_names[SBX_LIMIT_COUNT] = {
    [SBX_LIMIT_WALL_TIME] = "wall_time_ms",
    [SBX_LIMIT_CPU_TIME] = "cpu_time_ms",
    [SBX_LIMIT_MEMORY] = "memory_bytes",
    [SBX_LIMIT_PROCESSES] = "processes",
    [SBX_LIMIT_CPU_MILLICORES] = "cpu_millicores",
    [SBX_LIMIT_OPEN_FILES] = "open_files",
    [SBX_LIMIT_FILE_SIZE] = "file_size_bytes",
    [SBX_LIMIT_WORKSPACE_BYTES] = "workspace_bytes",
    [SBX_LIMIT_WORKSPACE_INODES] = "workspace_inodes",
    [SBX_LIMIT_STACK] = "stack_bytes",
    [SBX_LIMIT_OUTPUT] = "output_bytes",
};

static const char *const control_names[SBX_CONTROL_COUNT] = {
    [SBX_CONTROL_NETWORK] = "network",
    [SBX_CONTROL_MEMORY] = "memory",
    [SBX_CONTROL_SWAP] = "swap",
    [SBX_CONTROL_CPU] = "cpu",
    [SBX_CONTROL_PIDS] = "pids",
    [SBX_CONTROL_NO_NEW_PRIVS] = "no_new_privs",
    [SBX_CONTROL_CAPABILITIES] = "capabilities",
    [SBX_CONTROL_USER] = "user",
    [SBX_CONTROL_WALL_TIME] = "wall_time",
    [SBX_CONTROL_CPU_TIME] = "cpu_time",
    [SBX_CONTROL_ROOTFS] = "rootfs",
    [SBX_CONTROL_TMPFS] = "tmpfs",
    [SBX_CONTROL_SECCOMP] = "seccomp",
    [SBX_CONTROL_PROC] = "proc",
    [SBX_CONTROL_DEV] = "dev",
    [SBX_CONTROL_IPC] = "ipc",
    [SBX_CONTROL_OUTPUT] = "output",
    [SBX_CONTROL_RLIMITS] = "rlimits",
};

static const char *const stage_names[SBX_STAGE_COUNT] = {
    [SBX_STAGE_NONE] = "none",           [SBX_STAGE_REFUSED] = "refused",
    [SBX_STAGE_CLONE] = "clone",         [SBX_STAGE_CGROUP] = "cgroup",
    [SBX_STAGE_NAMESPACE] = "namespace", [SBX_STAGE_MOUNT] = "mount",
    [SBX_STAGE_LIMITS] = "limits",       [SBX_STAGE_IDENTITY] = "identity",
    [SBX_STAGE_INIT] = "init",           [SBX_STAGE_PAYLOAD] = "payload",
    [SBX_STAGE_SECCOMP] = "seccomp",     [SBX_STAGE_EXEC] = "exec",
    [SBX_STAGE_MEASURE] = "measure",
};

static const struct {
    uint32_t verdict;
    const char *name;
} verdict_names[] = {
    {SBX_VERDICT_OK, "OK"},
    {SBX_VERDICT_NONZERO_EXIT, "NONZERO_EXIT"},
    {SBX_VERDICT_SIGNALED, "SIGNALED"},
    {SBX_VERDICT_WALL_TIME_LIMIT, "WALL_TIME_LIMIT"},
    {SBX_VERDICT_CPU_TIME_LIMIT, "CPU_TIME_LIMIT"},
    {SBX_VERDICT_MEMORY_LIMIT, "MEMORY_LIMIT"},
    {SBX_VERDICT_PROCESS_LIMIT, "PROCESS_LIMIT"},
    {SBX_VERDICT_OUTPUT_LIMIT, "OUTPUT_LIMIT"},
    {SBX_VERDICT_FILE_SIZE_LIMIT, "FILE_SIZE_LIMIT"},
    {SBX_VERDICT_DISK_LIMIT, "DISK_LIMIT"},
    {SBX_VERDICT_SECURITY_VIOLATION, "SECURITY_VIOLATION"},
    {SBX_VERDICT_EXEC_FAILED, "EXEC_FAILED"},
    {SBX_VERDICT_COLLECT_FAILED, "COLLECT_FAILED"},
    {SBX_VERDICT_CANCELLED, "CANCELLED"},
    {SBX_VERDICT_SANDBOX_ERROR, "SANDBOX_ERROR"},
    {SBX_VERDICT_SANDBOX_LOST, "SANDBOX_LOST"},
};

static const char *name_at(const char *const *names, size_t count, uint32_t index)
{
    return index < count && names[index] ? names[index] : "unknown";
}

static bool is_verdict(uint32_t verdict)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(verdict_names); i++) {
        if (verdict_names[i].verdict == verdict)
            return true;
    }
    return false;
}

static bool are_limits_valid(const struct sbx_limits *limits)
{
    for (size_t i = 0; i < SBX_LIMIT_COUNT; i++) {
        if (limits->value[i] == 0)
            return false;
    }
    return true;
}

static bool is_hello_valid(const struct sbx_msg_hello *hello)
{
    for (size_t i = 0; i < SBX_CONTROL_COUNT; i++) {
        if (hello->controls[i] < SBX_ENFORCED || hello->controls[i] > SBX_GAP)
            return false;
    }
    return hello->backend >= 1 && hello->backend <= BACKEND_MAX && hello->slots > 0 &&
           hello->runtime_count > 0 && hello->cgroup_version <= 2 &&
           are_limits_valid(&hello->maximum) && hello->is_image_root <= 1 &&
           (hello->sessions == 0) == (hello->session_life_ms == 0) &&
           (hello->features & ~SBX_FEATURES) == 0 && hello->reserved == 0;
}

static bool is_hit_valid(const struct sbx_limit_hit *hit)
{
    return hit->limit < SBX_LIMIT_COUNT && hit->killed_by <= SBX_KILLED_BY_SECCOMP;
}

static bool is_ending_valid(const struct sbx_msg_result *result)
{
    return is_verdict(result->verdict) && result->exit_code >= 0 &&
           result->exit_code <= UINT8_MAX && result->signal >= 0 && result->signal <= SIGNAL_MAX &&
           result->stage < SBX_STAGE_COUNT && result->stage_errno >= 0;
}

/* The fields that say yes or no. */
static bool are_claims_valid(const struct sbx_msg_result *result)
{
    return result->has_hit <= 1 && result->is_pool_hit <= 1 && result->has_forbidden_call <= 1 &&
           result->is_inferred <= 1 && result->is_early <= 1;
}

static bool is_result_valid(const struct sbx_msg_result *result)
{
    if (result->other_hit_count > SBX_OTHER_HITS_MAX)
        return false;
    for (size_t i = 0; i < result->other_hit_count; i++) {
        if (!is_hit_valid(&result->other_hits[i]))
            return false;
    }
    return is_ending_valid(result) && are_claims_valid(result) && is_hit_valid(&result->hit) &&
           result->cgroup_version <= 2 && result->start_mode < SBX_START_MODE_COUNT &&
           (result->kept & ~SBX_KEPT_ALL) == 0 && result->reserved == 0;
}

/* What is only for sessions says which. */
static bool is_run_valid(const struct sbx_msg_run *run)
{
    const uint32_t of_session = SBX_RUN_HAS_CELL | SBX_RUN_NO_PROGRAM;
    const bool has_terminal = (run->flags & SBX_RUN_HAS_TERMINAL) != 0;

    return (run->flags & ~SBX_RUN_FLAGS) == 0 && (run->flags & of_session) != of_session &&
           (run->session != 0 || (run->flags & of_session) == 0) &&
           (!has_terminal || (run->flags & of_session) == 0) &&
           ((run->flags & SBX_RUN_STOPS_EARLY) == 0 || (run->flags & SBX_RUN_HAS_ARGS) != 0) &&
           (run->columns > 0) == has_terminal && (run->rows > 0) == has_terminal &&
           run->reserved == 0 && are_limits_valid(&run->limits);
}

static bool is_body_valid(const union sbx_msg *msg)
{
    switch ((enum sbx_msg_type)msg->header.type) {
    case SBX_MSG_HELLO:
        return is_hello_valid(&msg->hello);
    case SBX_MSG_RUN:
        return is_run_valid(&msg->run);
    case SBX_MSG_OUTPUT_LIMIT:
        return msg->output_limit.stream >= 1 && msg->output_limit.stream <= 2 &&
               msg->output_limit.reserved == 0;
    case SBX_MSG_DRAINED:
        return msg->drained.overflow_stream <= 2 && msg->drained.collect_failed <= 1;
    case SBX_MSG_RESULT:
        return is_result_valid(&msg->result);
    case SBX_MSG_OPEN:
        return msg->open.idle_ms > 0 && msg->open.life_ms > 0 &&
               are_limits_valid(&msg->open.limits);
    case SBX_MSG_SIGNAL:
        return msg->signal.number > 0 && msg->signal.number <= SBX_SIGNAL_MAX &&
               msg->signal.reserved == 0;
    case SBX_MSG_RESIZE:
        return msg->resize.columns > 0 && msg->resize.rows > 0 && msg->resize.reserved == 0;
    case SBX_MSG_CLOSED:
        return msg->closed.reason > 0 && msg->closed.reason < SBX_CLOSED_END &&
               msg->closed.reserved == 0;
    case SBX_MSG_CLOSE:
    case SBX_MSG_CANCEL:
    case SBX_MSG_STARTED:
    case SBX_MSG_EXITED:
    case SBX_MSG_POOL:
    case SBX_MSG_COUNTS:
        return true;
    case SBX_MSG_TYPE_END:
        break;
    }
    return false;
}

static bool is_about_no_run(uint16_t type)
{
    return type == SBX_MSG_HELLO || type == SBX_MSG_POOL || type == SBX_MSG_COUNTS;
}

size_t sbx_msg_size(uint16_t type)
{
    return type < SBX_MSG_TYPE_END ? msg_sizes[type] : 0;
}

int sbx_msg_parse(const void *data, size_t size, union sbx_msg *ret_msg, struct cr_err *err)
{
    union sbx_msg msg = {0};

    if (size < sizeof(msg.header) || size > sizeof(msg))
        return cr_err_set(err, EPROTO, "wire message of %zu bytes", size);
    memcpy(&msg, data, size);
    if (msg.header.version != SBX_WIRE_VERSION)
        return cr_err_set(err, EPROTO, "wire version %u, expected %u", msg.header.version,
                          SBX_WIRE_VERSION);
    if (msg.header.size != size || sbx_msg_size(msg.header.type) != size)
        return cr_err_set(err, EPROTO, "wire message type %u says %u bytes and has %zu",
                          (unsigned int)msg.header.type, (unsigned int)msg.header.size, size);
    if ((msg.header.run == 0) != is_about_no_run(msg.header.type))
        return cr_err_set(err, EPROTO, "wire message type %u with run %llu",
                          (unsigned int)msg.header.type, (unsigned long long)msg.header.run);
    if (!is_body_valid(&msg))
        return cr_err_set(err, EPROTO, "wire message type %u has a field out of range",
                          (unsigned int)msg.header.type);
    *ret_msg = msg;
    return 0;
}

void sbx_msg_init(union sbx_msg *msg, enum sbx_msg_type type, uint64_t run)
{
    memset(msg, 0, sizeof(*msg));
    msg->header = (struct sbx_msg_header){
        .version = SBX_WIRE_VERSION,
        .type = (uint16_t)type,
        .size = (uint16_t)sbx_msg_size((uint16_t)type),
        .run = run,
    };
}

int sbx_msg_send(int socket_fd, const union sbx_msg *msg, const int *fds, size_t fd_count)
{
    union {
        struct cmsghdr header;
        char data[CMSG_SPACE(SBX_RUN_FDS * sizeof(int))];
    } control = {0};
    union sbx_msg copy = *msg; /* iov_base is not const */
    struct iovec iov = {.iov_base = &copy, .iov_len = msg->header.size};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (fd_count > SBX_RUN_FDS || msg->header.size > sizeof(*msg))
        return -EINVAL;
    if (fd_count > 0) {
        header.msg_control = control.data;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
    }
    do {
        sent = sendmsg(socket_fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 0;
    return errno == ECONNRESET ? -EPIPE : -errno;
}

/* Appends the fds of every SCM_RIGHTS block; returns how many there are. */
static size_t take_fds(struct msghdr *header, int fds[RECEIVE_FDS_MAX])
{
    size_t count = 0;

    for (struct cmsghdr *block = CMSG_FIRSTHDR(header); block; block = CMSG_NXTHDR(header, block)) {
        size_t block_count;

        if (block->cmsg_level != SOL_SOCKET || block->cmsg_type != SCM_RIGHTS)
            continue;
        block_count = (block->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (block_count > RECEIVE_FDS_MAX - count)
            block_count = RECEIVE_FDS_MAX - count; /* cannot be: the buffer has no room for more */
        memcpy(fds + count, CMSG_DATA(block), block_count * sizeof(int));
        count += block_count;
    }
    return count;
}

static void close_fds(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* One message and its fds, unchecked. Returns its size, -EAGAIN, -EPIPE or another -errno. */
static ssize_t receive_raw(int socket_fd, union sbx_msg *ret_data, int fds[RECEIVE_FDS_MAX],
                           size_t *ret_fd_count, bool *ret_is_cut)
{
    union {
        struct cmsghdr header;
        char data[CMSG_SPACE(RECEIVE_FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = ret_data, .iov_len = sizeof(*ret_data)};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.data,
                            .msg_controllen = sizeof(control.data)};
    ssize_t size;

    do {
        size = recvmsg(socket_fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (size < 0 && errno == EINTR);
    if (size < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    *ret_fd_count = take_fds(&header, fds);
    *ret_is_cut = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    return size;
}

int sbx_msg_receive(int socket_fd, union sbx_msg *ret_msg, int ret_fds[SBX_RUN_FDS],
                    size_t *ret_fd_count, struct cr_err *err)
{
    union sbx_msg data = {0};
    union sbx_msg msg = {0};
    int fds[RECEIVE_FDS_MAX] = {0};
    size_t fd_count = 0;
    bool is_cut = false;
    ssize_t size = receive_raw(socket_fd, &data, fds, &fd_count, &is_cut);
    int r;

    if (size < 0)
        return (int)size;
    if (size == 0 && fd_count == 0)
        return -EPIPE;
    if (is_cut)
        r = cr_err_set(err, EPROTO, "wire message or its file descriptors were cut off");
    else
        r = sbx_msg_parse(&data, (size_t)size, &msg, err);
    if (r == 0 && fd_count != (msg.header.type == SBX_MSG_RUN ? SBX_RUN_FDS : 0))
        r = cr_err_set(err, EPROTO, "wire message type %u with %zu file descriptors",
                       (unsigned int)msg.header.type, fd_count);
    if (r < 0) {
        close_fds(fds, fd_count);
        return r;
    }
    *ret_msg = msg;
    memcpy(ret_fds, fds, fd_count * sizeof(int));
    *ret_fd_count = fd_count;
    return 0;
}

const char *sbx_limit_name(uint32_t limit)
{
    return name_at(limit_names, SBX_LIMIT_COUNT, limit);
}

const char *sbx_control_name(uint32_t control)
{
    return name_at(control_names, SBX_CONTROL_COUNT, control);
}

const char *sbx_stage_name(uint32_t stage)
{
    return name_at(stage_names, SBX_STAGE_COUNT, stage);
}

const char *sbx_verdict_name(uint32_t verdict)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(verdict_names); i++) {
        if (verdict_names[i].verdict == verdict)
            return verdict_names[i].name;
    }
    return "unknown";
}
