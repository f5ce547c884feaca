/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/program.h"

#include "common/privilege.h"
#include "common/signals.h"
#include "common/slice.h"
#include "common/unconst.h"
#include "sandboxd/init/payload_map.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SOCKET_NOTICE (SECCOMP_RET_USER_NOTIF | 1U) /* not the answer of a forbidden call */
#define FILE_CREATION_MASK 022

_Noreturn static void fail(int report_fd, enum sbx_stage stage, int error)
{
    const struct sbx_program_failure failure = {.stage = (uint32_t)stage, .error = -error};

    (void)!write(report_fd, &failure, sizeof(failure));
    _exit(127);
}

/* The report socket becomes 3 and closes at exec; everything from `first` on goes now. */
static int close_inherited(int report_fd, int first)
{
    if (report_fd != SBX_PROGRAM_FD_REPORT && dup3(report_fd, SBX_PROGRAM_FD_REPORT, O_CLOEXEC) < 0)
        return -errno;
    return close_range((unsigned int)first, INT_MAX, 0) < 0 ? -errno : 0;
}

/* Deadly answers become held ones, or back. */
static void turn_answers(const struct sock_fprog *program, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < program->len; i++) {
        struct sock_filter *step = &program->filter[i];

        if (step->code == (BPF_RET | BPF_K) && step->k == from)
            step->k = to;
    }
}

/*
 * Without TSYNC and LOG: there is one thread, and a log line per denied call
 * would let a program fill the host's log. EBUSY: who started us is listening
 * already, and there is one listener per process; EINVAL: no such thing here.
 */
static int load_filter(const struct sock_fprog *program, int *ret_listener_fd, bool with_sockets)
{
    long fd = -1;

    if (ret_listener_fd) {
        turn_answers(program, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF);
        if (with_sockets)
            turn_answers(program, SBX_SECCOMP_SOCKET, SOCKET_NOTICE);
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                     program);
        *ret_listener_fd = (int)fd;
        if (fd >= 0)
            return 0;
        if (errno != EINVAL && errno != EBUSY)
            return -errno;
        turn_answers(program, SECCOMP_RET_USER_NOTIF, SECCOMP_RET_KILL_PROCESS);
        turn_answers(program, SOCKET_NOTICE, SBX_SECCOMP_SOCKET);
    }
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) < 0 ? -errno : 0;
}

/* Maps the filter, which is written before any payload exists and sealed. */
static int map_filter(int fd, struct sock_fprog *ret_program)
{
    struct stat info;
    void *data;

    if (fstat(fd, &info) < 0)
        return -errno;
    if (info.st_size <= 0 || (size_t)info.st_size % sizeof(struct sock_filter) != 0 ||
        (size_t)info.st_size / sizeof(struct sock_filter) > BPF_MAXINSNS)
        return -EPROTO;
    data = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return -errno;
    ret_program->len = (unsigned short)((size_t)info.st_size / sizeof(struct sock_filter));
    ret_program->filter = data;
    return 0;
}

/* "name=data" or "data" as a C string at `at`; returns the byte behind it. */
static char *copy_text(char *at, const struct sbx_payload_item *item)
{
    if (item->record.kind == SBX_PAYLOAD_ENV) {
        memcpy(at, item->name, item->record.name_size);
        at += item->record.name_size;
        *at++ = '=';
    }
    memcpy(at, item->data, (size_t)item->record.data_size);
    at += item->record.data_size;
    *at = 0;
    return at + 1;
}

/* Fills in one NULL-terminated vector from the records of one kind; returns its length. */
static int fill_vector(struct sbx_payload_reader reader, enum sbx_payload_kind kind, char **vector,
                       char **text)
{
    struct sbx_payload_item item;
    int count = 0;
    int r;

    while ((r = sbx_payload_next(&reader, &item)) == 1) {
        if (item.record.kind != (uint32_t)kind)
            continue;
        vector[count++] = *text;
        *text = copy_text(*text, &item);
    }
    vector[count] = NULL;
    return r < 0 ? r : count;
}

/* There is room for every pointer and text: a text needs no more than its record in the payload. */
int sbx_program_build_vectors(struct sbx_payload_reader reader,
                              struct sbx_program_vectors *ret_vectors)
{
    const size_t pointers = (size_t)reader.left + 2; /* and two NULLs */
    const size_t room = pointers * sizeof(char *) + reader.size;
    char **table;
    char *text;
    int count;
    int r;

    table = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return -ENOMEM;
    text = (char *)(table + pointers);
    count = fill_vector(reader, SBX_PAYLOAD_ARG, table, &text);
    if (count < 0)
        return count;
    if (count == 0 || table[0][0] != '/')
        return -EPROTO;
    r = fill_vector(reader, SBX_PAYLOAD_ENV, table + count + 1, &text);
    if (r < 0)
        return r;
    ret_vectors->argv = table;
    ret_vectors->envp = table + count + 1;
    return 0;
}

int sbx_program_load_filter(int fd, int *ret_listener_fd)
{
    struct sock_fprog filter = {0};
    int r = map_filter(fd, &filter);

    if (r < 0)
        return r;
    r = load_filter(&filter, ret_listener_fd, false);
    (void)munmap(filter.filter, filter.len * sizeof(struct sock_filter));
    return r;
}

int sbx_program_read_vectors(int payload_fd, struct sbx_program_vectors *ret_vectors)
{
    struct sbx_payload_reader reader;
    int r = sbx_payload_map(payload_fd, &reader);

    if (r < 0)
        return r;
    r = sbx_program_build_vectors(reader, ret_vectors);
    (void)munmap(cr_unconst(reader.data), reader.size);
    return r;
}

static int drop_privileges(void)
{
    int r = cr_privilege_drop(SBX_PROGRAM_UID, SBX_PROGRAM_GID, NULL);

    if (r < 0)
        return r;
    /* A change of ids clears it, so it comes behind. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    return getppid() == 1 ? 0 : -ESRCH;
}

int sbx_program_prepare(void)
{
    return setsid() < 0 ? -errno : drop_privileges();
}

int sbx_program_confine(int seccomp_fd, int report_fd, int first_closed,
                        enum sbx_program_watch watch)
{
    int listener_fd = -1;
    struct sock_fprog filter = {0};
    int r = map_filter(seccomp_fd, &filter);

    if (r < 0)
        fail(report_fd, SBX_STAGE_SECCOMP, r);
    r = close_inherited(report_fd, first_closed);
    if (r < 0)
        fail(report_fd, SBX_STAGE_INIT, r);
    (void)umask(FILE_CREATION_MASK);
    cr_slice_set(0); /* ours is shorter */
    /* Last: from here on only what the filter allows. */
    r = load_filter(&filter, watch == SBX_WATCH_NOTHING ? NULL : &listener_fd,
                    watch == SBX_WATCH_SOCKETS);
    if (r < 0)
        fail(SBX_PROGRAM_FD_REPORT, SBX_STAGE_SECCOMP, r);
    return listener_fd;
}

_Noreturn void sbx_program_execute(const struct sbx_program_vectors *vectors)
{
    (void)execve(vectors->argv[0], vectors->argv, vectors->envp);
    fail(SBX_PROGRAM_FD_REPORT, SBX_STAGE_EXEC, -errno);
}

/* The filter lets a socket be written to; only the program itself holds the listener then. */
static void give_listener_away(int listener_fd)
{
    const struct sbx_program_failure report = {.stage = SBX_STAGE_NONE};
    int r = sbx_fds_send(SBX_PROGRAM_FD_REPORT, &report, sizeof(report), &listener_fd, 1);

    (void)close(listener_fd);
    if (r < 0)
        fail(SBX_PROGRAM_FD_REPORT, SBX_STAGE_SECCOMP, r);
}

_Noreturn void sbx_program_become(int payload_fd, int seccomp_fd, int report_fd, bool is_watched)
{
    struct sbx_program_vectors vectors = {NULL, NULL};
    int listener_fd;
    int r = cr_signals_reset(); /* what was left behind is not the program's */

    if (r == 0)
        r = sbx_program_prepare();
    if (r < 0)
        fail(report_fd, SBX_STAGE_IDENTITY, r);
    /* Where it is a terminal, it becomes that of the session which prepare() began. */
    (void)ioctl(STDIN_FILENO, TIOCSCTTY, 0);
    r = sbx_program_read_vectors(payload_fd, &vectors);
    if (r != 0)
        fail(report_fd, SBX_STAGE_PAYLOAD, r);
    listener_fd = sbx_program_confine(seccomp_fd, report_fd, SBX_PROGRAM_FD_REPORT + 1,
                                      is_watched ? SBX_WATCH_CALLS : SBX_WATCH_NOTHING);
    if (listener_fd >= 0)
        give_listener_away(listener_fd);
    sbx_program_execute(&vectors);
}
