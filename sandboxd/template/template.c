/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/template/template.h"

#include "common/auto.h"
#include "common/beside.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/template/enter.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/wire/fds.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define IMAGE "crisol-template.so"
#define IMAGE_MAX_BYTES (16 << 20)
#define LAST_WORDS_MAX 300

/* Pipes of a template's streams; what it writes on stdout nobody reads. */
struct pipes {
    int ours[3];
    int theirs[3];
};

int sbx_template_image_load(const char *path, int *ret_fd, struct cr_err *err)
{
    CR_AUTO_CLOSE int from = -1;
    CR_AUTO_CLOSE int fd = -1;
    char beside[PATH_MAX];
    struct stat stat;
    int r = path ? 0 : cr_beside_find(IMAGE, beside, err);

    if (r < 0)
        return r;
    path = path ? path : beside;
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &stat) < 0)
        return cr_err_sys(err, errno, "open '%s', the part of a template", path);
    if (!S_ISREG(stat.st_mode) || stat.st_size > IMAGE_MAX_BYTES)
        return cr_err_set(err, EINVAL, "'%s' is no library of a usual size", path);
    /* Its name is what a box sees in the list of its mappings, so it is no path of the host. */
    fd = memfd_create("crisol-template", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return cr_err_sys(err, errno, "make a memfd for '%s'", path);
    for (off_t left = stat.st_size; left > 0;) {
        ssize_t n = sendfile(fd, from, NULL, (size_t)left);

        if (n <= 0)
            return cr_err_sys(err, n < 0 ? errno : EIO, "copy '%s'", path);
        left -= n;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "seal the copy of '%s'", path);
    *ret_fd = cr_take_fd(&fd);
    return 0;
}

int sbx_template_userns_make(uint32_t uid_base, uint32_t places, int *ret_fd, struct cr_err *err)
{
    const struct sbx_userns_range ranges[] = {
        {.inside = 0, .outside = uid_base - 1, .count = 1},
        {.inside = SBX_TEMPLATE_PLACE_ID(0),
         .outside = uid_base,
         .count = places * SBX_USERNS_RANGE},
    };

    return sbx_userns_make_ranges(ranges, CR_ARRAY_SIZE(ranges), ret_fd, err);
}

/* Where the interpreter's own modules are: named as itself, python3 is a link to python3.N. */
static void find_library(const char *interpreter, char ret_path[PATH_MAX])
{
    char target[NAME_MAX + 1];
    ssize_t n = readlinkat(AT_FDCWD, interpreter, target, sizeof(target) - 1);
    const char *slash;

    target[n > 0 ? n : 0] = '\0';
    slash = strrchr(target, '/');
    (void)snprintf(ret_path, PATH_MAX, "/usr/lib/%s", slash ? slash + 1 : target);
}

uint64_t sbx_template_packages(enum sbx_template_kind kind)
{
    char library[PATH_MAX];
    /* A package manager that changes a package renames files in the folder that holds it. */
    const char *const folders[] = {
        sbx_template_runtime(kind)->argv[0],
        library,
        "/usr/lib/python3/dist-packages",
        "/usr/lib/python3/dist-packages/_pytest",
        "/usr/lib/python3/dist-packages/pluggy",
        "/usr/lib/python3",
        "/usr/lib",
    };
    uint64_t hash = CR_HASH_START;
    struct stat stat;

    find_library(folders[0], library);
    for (size_t i = 0; i < CR_ARRAY_SIZE(folders); i++) {
        if (fstatat(AT_FDCWD, folders[i], &stat, 0) < 0)
            continue; /* one that appears later is a change, too */
        hash = cr_hash_number(hash, i);
        hash = cr_hash_number(hash, (uint64_t)stat.st_ino);
        hash = cr_hash_number(hash, (uint64_t)stat.st_size);
        hash = cr_hash_number(hash, (uint64_t)stat.st_mtim.tv_sec);
        hash = cr_hash_number(hash, (uint64_t)stat.st_mtim.tv_nsec);
    }
    return hash;
}

static void close_pipes(struct pipes *pipes)
{
    for (int i = 0; i < 3; i++) {
        cr_close_fd(&pipes->ours[i]);
        cr_close_fd(&pipes->theirs[i]);
    }
}

static int open_pipes(struct pipes *pipes)
{
    *pipes = (struct pipes){.ours = {-1, -1, -1}, .theirs = {-1, -1, -1}};
    for (int i = 0; i < 3; i++) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
            return -errno;
        pipes->ours[i] = ends[i == 0 ? 1 : 0];
        pipes->theirs[i] = ends[i == 0 ? 0 : 1];
    }
    return fcntl(pipes->ours[2], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* Forks it; the parent gets its pid. */
static pid_t fork_template(const struct sbx_template_host *host, enum sbx_template_kind kind,
                           const struct pipes *pipes, int control_fd)
{
    const struct sbx_template_fds fds = {
        .stdio = {pipes->theirs[0], pipes->theirs[1], pipes->theirs[2]},
        .control = control_fd,
    };
    pid_t pid = fork();

    if (pid == 0)
        sbx_template_enter(host, kind, &fds);
    return pid < 0 ? -errno : pid;
}

static int begin(const struct sbx_template_host *host, const struct sbx_template *template)
{
    struct sbx_template_msg msg = {.op = SBX_TEMPLATE_BEGIN,
                                   .kind = template->kind,
                                   .places = host->places,
                                   .slowness = cr_patience()};

    return sbx_fds_send(template->fd, &msg, sizeof(msg), NULL, 0);
}

int sbx_template_start(const struct sbx_template_host *host, enum sbx_template_kind kind,
                       struct sbx_template *ret_template, struct cr_err *err)
{
    CR_AUTO_CLOSE int theirs = -1;
    struct sbx_template template = SBX_TEMPLATE_INIT;
    struct pipes pipes;
    int pair[2];
    int r = open_pipes(&pipes);

    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = -errno;
    if (r == 0) {
        template.fd = pair[0];
        theirs = pair[1];
        template.kind = kind;
        template.packages = sbx_template_packages(kind);
        template.started_ns = cr_clock_mono_ns();
        r = begin(host, &template);
    }
    if (r == 0)
        r = fork_template(host, kind, &pipes, theirs);
    if (r > 0) {
        template.pid = (pid_t)r;
        template.pidfd = pidfd_open(template.pid, 0);
        template.text_fd = cr_take_fd(&pipes.ours[2]);
        r = template.pidfd < 0 || fcntl(template.fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
    }
    close_pipes(&pipes);
    if (r < 0) {
        sbx_template_stop(&template);
        return cr_err_sys(err, -r, "start a template for %s", sbx_template_name(kind));
    }
    *ret_template = template;
    return 0;
}

int sbx_template_ask(struct sbx_template *template, const struct sbx_template_box *box,
                     int *ret_control_fd, struct cr_err *err)
{
    struct sbx_template_msg msg = {
        .op = SBX_TEMPLATE_BOX, .id = box->id, .place = box->place, .limits = *box->limits};
    int fds[SBX_TEMPLATE_BOX_FDS_MIN + SBX_TEMPLATE_GROUPS_MAX];
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    size_t count = SBX_TEMPLATE_BOX_FDS_MIN;
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return cr_err_sys(err, errno, "open the control socket of a box");
    ours = pair[0];
    theirs = pair[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return cr_err_sys(err, errno, "open the control socket of a box");
    fds[0] = theirs;
    fds[1] = box->workspace_fd;
    count += sbx_cgroup_entries(box->group, fds + SBX_TEMPLATE_BOX_FDS_MIN);
    r = sbx_fds_send(template->fd, &msg, sizeof(msg), fds, count);
    if (r < 0)
        return cr_err_sys(err, -r, "ask a template for a box");
    template->boxes++;
    *ret_control_fd = cr_take_fd(&ours);
    return 0;
}

/* The end of what it wrote on stderr, in one line. */
static void read_last_words(const struct sbx_template *template, char *text, size_t size)
{
    ssize_t n = template->text_fd < 0 ? 0 : read(template->text_fd, text, size - 1);

    text[n > 0 ? n : 0] = '\0';
    for (char *at = text; *at; at++) {
        if (*at < ' ' || *at == '"' || *at > '~')
            *at = ' ';
    }
}

static int on_gone(const struct sbx_template *template, const char *step, int error)
{
    char text[LAST_WORDS_MAX];

    read_last_words(template, text, sizeof(text));
    cr_log_warn("a template ended kind=%s boxes=%" PRIu32 " step=\"%s\" error=%s words=\"%s\"",
                sbx_template_name(template->kind), template->boxes, step,
                error > 0 ? strerrordesc_np(error) : "none", text);
    return -EPIPE;
}

static int on_boxed(const struct sbx_template_msg *msg, int pidfd,
                    struct sbx_template_event *ret_event)
{
    bool is_box = msg->error == 0 && pidfd >= 0 && msg->pid > 0;

    *ret_event = (struct sbx_template_event){
        .kind = is_box ? SBX_TEMPLATE_EVENT_BOX : SBX_TEMPLATE_EVENT_NO_BOX,
        .id = msg->id,
        .error = is_box || msg->error > 0 ? msg->error : EPROTO,
        .pid = is_box ? msg->pid : -1,
        .pidfd = is_box ? pidfd : -1,
    };
    if (!is_box && pidfd >= 0)
        (void)close(pidfd);
    return 0;
}

int sbx_template_receive(struct sbx_template *template, struct sbx_template_event *ret_event)
{
    struct sbx_template_msg msg;
    int pidfd = -1;
    int r;

    if (template->fd < 0)
        return -EPIPE;
    r = sbx_fds_receive(template->fd, &msg, sizeof(msg), &pidfd, 1, MSG_DONTWAIT);
    if (r == -EAGAIN)
        return r;
    if (r < 0)
        return on_gone(template, "run", r == -EPIPE ? 0 : -r);
    msg.text[sizeof(msg.text) - 1] = '\0';
    switch ((enum sbx_template_op)msg.op) {
    case SBX_TEMPLATE_READY:
        template->is_ready = true;
        template->memory_bytes = msg.memory_bytes;
        *ret_event = (struct sbx_template_event){.kind = SBX_TEMPLATE_EVENT_READY, .pidfd = -1};
        break;
    case SBX_TEMPLATE_BOXED:
        return on_boxed(&msg, pidfd, ret_event);
    default:
        cr_close_fd(&pidfd);
        return on_gone(template, msg.op == SBX_TEMPLATE_FAILED ? msg.text : "talk", msg.error);
    }
    cr_close_fd(&pidfd);
    return 0;
}

bool sbx_template_has_changed(const struct sbx_template *template)
{
    return sbx_template_packages(template->kind) != template->packages;
}

bool sbx_template_is_stale(const struct sbx_template *template, uint32_t most_boxes,
                           int64_t most_age_ns)
{
    return template->boxes >= most_boxes ||
           cr_clock_mono_ns() - template->started_ns >= most_age_ns ||
           sbx_template_has_changed(template);
}

pid_t sbx_template_leave(struct sbx_template *template)
{
    pid_t pid = template->pid;

    if (template->pidfd >= 0)
        (void)pidfd_send_signal(template->pidfd, SIGKILL, NULL, 0);
    cr_close_fd(&template->pidfd);
    cr_close_fd(&template->fd);
    cr_close_fd(&template->text_fd);
    template->pid = -1;
    template->is_ready = false;
    return pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 ? pid : -1;
}

void sbx_template_stop(struct sbx_template *template)
{
    pid_t pid = sbx_template_leave(template);

    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}
