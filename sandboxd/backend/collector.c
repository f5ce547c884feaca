/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/collector.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/bpf.h"
#include "sandboxd/backend/collect_walk.h"
#include "sandboxd/backend/disarm.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define WORKSPACE_FD 3
#define PAYLOAD_FD 4
#define OUT_FD 5
#define PLACES_FD 6 /* the first of them */
#define FDS_MAX (3 + SBX_COLLECTOR_PLACES)
#define SPARE_FD 16 /* free ones from here on, for the way there */

#define FILE_BYTES_MAX (16U << 20)
#define TOTAL_BYTES_MAX (64U << 20)
#define CPU_SECONDS_MAX 30

/* Numbers of crisol.sandbox.v1.CollectStatus. */
enum collect_status {
    COLLECT_OK = 1,
    COLLECT_NOT_FOUND = 2,
    COLLECT_NOT_REGULAR = 3,
    COLLECT_TOO_LARGE = 4,
    COLLECT_UNREADABLE = 5,
    COLLECT_TOO_MANY = 6,
};

/* The runtime of a sanitizer makes system calls of its own. */
#ifdef CRISOL_SANITIZED
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

struct collector {
    uint8_t *buffer; /* FILE_BYTES_MAX + 1 */
    size_t total;    /* bytes of content so far */
    struct sbx_walk *walk;
};

static int write_all(const void *data, size_t size)
{
    const uint8_t *at = data;

    while (size > 0) {
        const ssize_t written = write(OUT_FD, at, size);

        if (written >= 0) {
            at += written;
            size -= (size_t)written;
        } else if (errno == EAGAIN) {
            /* The reader may have made the pipe non-blocking for both of us. */
            struct pollfd poll_fd = {.fd = OUT_FD, .events = POLLOUT};

            (void)poll(&poll_fd, 1, -1);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

static enum collect_status status_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return COLLECT_NOT_FOUND;
    case ELOOP: /* a link on the way or at its end */
    case EXDEV: /* another mount, or out of the workspace */
    case ENXIO: /* a socket */
        return COLLECT_NOT_REGULAR;
    default:
        return COLLECT_UNREADABLE;
    }
}

/* Reads at most `limit` bytes; one more means that it is too large, whatever fstat() said. */
static enum collect_status read_file(struct collector *collector, int fd, size_t limit,
                                     size_t *ret_size)
{
    size_t size = 0;

    while (size <= limit) {
        const ssize_t got = read(fd, collector->buffer + size, limit + 1 - size);

        if (got < 0 && errno != EINTR)
            return COLLECT_UNREADABLE;
        if (got == 0) {
            *ret_size = size;
            return COLLECT_OK;
        }
        if (got > 0)
            size += (size_t)got;
    }
    return COLLECT_TOO_LARGE;
}

/*
 * Nothing in the box runs any more, but the path is still the program's: it
 * may lead through links, to a FIFO that nobody writes, or to a terminal.
 */
static enum collect_status collect_file(struct collector *collector, const char *path,
                                        uint32_t max_bytes, size_t *ret_size)
{
    CR_AUTO_CLOSE int fd = sbx_open_beneath(WORKSPACE_FD, path, 0);
    size_t limit = max_bytes < FILE_BYTES_MAX ? max_bytes : FILE_BYTES_MAX;
    struct stat info;

    if (fd < 0)
        return status_of(-fd);
    if (fstat(fd, &info) < 0)
        return COLLECT_UNREADABLE;
    /* A second name may be one that the program has no right to read. */
    if (!S_ISREG(info.st_mode) || info.st_nlink != 1)
        return COLLECT_NOT_REGULAR;
    if (limit > TOTAL_BYTES_MAX - collector->total)
        limit = TOTAL_BYTES_MAX - collector->total;
    if (info.st_size > (off_t)limit) /* sparse: one page may claim to be a terabyte */
        return COLLECT_TOO_LARGE;
    return read_file(collector, fd, limit, ret_size);
}

/* `name` is NULL for a path that was asked for: the reader knows it. */
static int send_file(struct collector *collector, const char *path, const char *name,
                     uint32_t max_bytes)
{
    struct sbx_collect_header header = {.name_size = name ? (uint32_t)strlen(name) : 0};
    size_t size = 0;
    int r;

    header.status = (uint32_t)collect_file(collector, path, max_bytes, &size);
    header.size = (uint32_t)size;
    collector->total += size;
    r = write_all(&header, sizeof(header));
    if (r == 0)
        r = write_all(name, header.name_size);
    return r == 0 ? write_all(collector->buffer, size) : r;
}

static int collect_path(struct collector *collector, const struct sbx_payload_item *item)
{
    char path[SBX_PAYLOAD_NAME_MAX + 1];

    memcpy(path, item->name, item->record.name_size);
    path[item->record.name_size] = 0;
    return send_file(collector, path, NULL, item->record.mode);
}

static int collect_glob(struct collector *collector, const struct sbx_payload_item *item)
{
    struct sbx_collect_header last = {.status = COLLECT_OK};
    bool is_whole;
    int r = 0;

    sbx_walk_match(collector->walk, WORKSPACE_FD, item->name, item->record.name_size,
                   sbx_payload_glob_files(item), &is_whole);
    for (uint32_t i = 0; r == 0 && i < sbx_walk_count(collector->walk); i++) {
        const char *path = sbx_walk_path(collector->walk, i);

        r = send_file(collector, path, path, item->record.mode);
    }
    if (!is_whole)
        last.status = COLLECT_TOO_MANY;
    else if (sbx_walk_count(collector->walk) == 0)
        last.status = COLLECT_NOT_FOUND;
    return r == 0 ? write_all(&last, sizeof(last)) : r;
}

static int collect_all(struct collector *collector, struct sbx_payload_reader reader)
{
    struct sbx_payload_item item;
    int r;

    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        if (item.record.kind != SBX_PAYLOAD_COLLECT)
            continue;
        r = item.record.flags & SBX_PAYLOAD_COLLECT_GLOB ? collect_glob(collector, &item)
                                                         : collect_path(collector, &item);
        if (r < 0)
            return r;
    }
    return r;
}

/* The fds at their places, nothing else open. */
static int place_fds(const struct sbx_collector_plan *plan)
{
    int fds[FDS_MAX] = {plan->workspace_fd, plan->payload_fd, plan->out_fd};
    const int count = 3 + (int)plan->place_count;

    for (size_t i = 0; i < plan->place_count; i++)
        fds[3 + i] = plan->places[i];
    for (int i = 0; i < count; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, SPARE_FD);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++) {
        if (dup3(fds[i], WORKSPACE_FD + i, O_CLOEXEC) < 0)
            return -errno;
    }
    if (close_range(0, WORKSPACE_FD - 1, 0) < 0 ||
        close_range((unsigned int)(WORKSPACE_FD + count), INT_MAX, 0) < 0)
        return -errno;
    return 0;
}

static int limit_self(void)
{
    static const struct sbx_disarm_limit limits[] = {
        {RLIMIT_FSIZE, 0}, /* pipes have no size */
        {RLIMIT_NOFILE, WORKSPACE_FD + FDS_MAX + 1},
        {RLIMIT_CPU, CPU_SECONDS_MAX},
    };

    return sbx_disarm_limit(limits, CR_ARRAY_SIZE(limits));
}

/* What the rest of this process calls; everything else ends it. */
static int load_filter(void)
{
    struct sock_filter code[] = {
        SBX_BPF_HEAD,
        SBX_BPF_ALLOW(openat2),
        SBX_BPF_ALLOW(fstat),
        SBX_BPF_ALLOW(newfstatat), /* fstat() of glibc */
        SBX_BPF_ALLOW(read),
        SBX_BPF_ALLOW(write),
        SBX_BPF_ALLOW(close),
        SBX_BPF_ALLOW(getdents64),
#ifdef __NR_poll
        SBX_BPF_ALLOW(poll),
#endif
        SBX_BPF_ALLOW(ppoll),
        SBX_BPF_ALLOW(rt_sigreturn),
        SBX_BPF_ALLOW(restart_syscall),
        SBX_BPF_ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };

    return sbx_disarm_filter(code, CR_ARRAY_SIZE(code));
}

/* As sandbox-init does: by an unprivileged process, at the end of its life. */
static int map_payload(struct sbx_payload_reader *ret_reader)
{
    struct stat info;
    void *data;

    if (fstat(PAYLOAD_FD, &info) < 0)
        return -errno;
    if (info.st_size <= 0 || info.st_size > (off_t)SBX_PAYLOAD_MAX)
        return -EPROTO;
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, PAYLOAD_FD, 0);
    if (data == MAP_FAILED)
        return -errno;
    return sbx_payload_open(ret_reader, data, (size_t)info.st_size);
}

static bool has_size(const struct collector *collector, const struct sbx_collector_plan *plan)
{
    for (size_t i = 0; plan->size > 0 && i < plan->place_count; i++) {
        if (sbx_walk_has_size(collector->walk, PLACES_FD + (int)i, plan->size))
            return true;
    }
    return false;
}

/* Returns the exit code. */
static int run(const struct sbx_collector_plan *plan, pid_t parent)
{
    struct collector collector = {0};
    struct sbx_payload_reader reader;
    int r;

    r = sbx_disarm_signals();
    if (r == 0)
        r = place_fds(plan);
    if (r == 0)
        r = limit_self();
    if (r == 0)
        r = sbx_disarm_drop(plan->id, plan->id, parent);
    if (r < 0)
        return SBX_COLLECTOR_FAILED;
    collector.buffer = mmap(NULL, FILE_BYTES_MAX + 1, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    collector.walk = sbx_walk_new();
    if (collector.buffer == MAP_FAILED || !collector.walk)
        return SBX_COLLECTOR_FAILED;
    r = map_payload(&reader);
    if (r == 0 && !is_sanitized)
        r = load_filter();
    if (r == 0)
        r = collect_all(&collector, reader);
    if (r < 0)
        return SBX_COLLECTOR_FAILED;
    return has_size(&collector, plan) ? SBX_COLLECTOR_SIZE_SEEN : SBX_COLLECTOR_DONE;
}

int sbx_collector_start(const struct sbx_collector_plan *plan, pid_t *ret_pid, struct cr_err *err)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();

    if (pid < 0)
        return cr_err_sys(err, errno, "fork the collector");
    if (pid == 0)
        _exit(run(plan, parent));
    *ret_pid = pid;
    return 0;
}
