/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/sandboxd/init_box.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
#include "sandboxd/backend/seccomp.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define HOST_BASE 200000 /* the box's user 0 on the host */
#define DEADLINE_MS 60000
#define ROOT "/mnt" /* in a mount namespace of its own */

int init_box_make(void **state)
{
    static struct init_box box;

    box = (struct init_box){
        .control_fd = -1, .output_fd = -1, .payload_fd = -1, .write_fd = -1, .null_fd = -1};
    box.workspace_options = "size=1m,mode=0755,uid=201000,gid=201000";
    cr_buf_init(&box.payload, SBX_PAYLOAD_MAX);
    *state = &box;
    return sbx_payload_begin(&box.payload);
}

int init_box_remove(void **state)
{
    struct init_box *box = *state;

    cr_buf_done(&box->payload);
    cr_close_fd(&box->control_fd);
    cr_close_fd(&box->output_fd);
    cr_close_fd(&box->payload_fd);
    cr_close_fd(&box->write_fd);
    cr_close_fd(&box->null_fd);
    if (box->pid > 0) {
        (void)kill(box->pid, SIGKILL);
        (void)waitpid(box->pid, NULL, 0);
    }
    return 0;
}

void init_box_add(struct init_box *box, enum sbx_payload_kind kind, const char *name,
                  const char *data)
{
    assert_int_equal(
        sbx_payload_add(&box->payload, kind, 0, 0, name, strlen(name), data, strlen(data)), 0);
}

void init_box_add_read_only(struct init_box *box, const char *name, const char *data)
{
    assert_int_equal(sbx_payload_add(&box->payload, SBX_PAYLOAD_FILE, SBX_PAYLOAD_FILE_READ_ONLY, 0,
                                     name, strlen(name), data, strlen(data)),
                     0);
}

void init_box_add_shell(struct init_box *box, const char *script)
{
    init_box_add(box, SBX_PAYLOAD_ARG, "", "/bin/sh");
    init_box_add(box, SBX_PAYLOAD_ARG, "", "-c");
    init_box_add(box, SBX_PAYLOAD_ARG, "", script);
    init_box_add(box, SBX_PAYLOAD_ENV, "PATH", "/usr/bin");
}

/* In the child: the folders, the null device and the links of a root. */
static bool make_places(void)
{
    static const char *const links[] = {"bin", "lib", "lib64"};

    if (mkdir(ROOT "/usr", 0755) < 0 || mkdir(ROOT "/workspace", 0755) < 0 ||
        mkdir(ROOT "/proc", 0755) < 0 || mkdir(ROOT "/dev", 0755) < 0 ||
        mknod(ROOT "/dev/null", S_IFCHR | 0666, makedev(1, 3)) < 0 ||
        chmod(ROOT "/dev/null", 0666) < 0)
        return false;
    for (size_t i = 0; i < CR_ARRAY_SIZE(links); i++) {
        char target[16];
        char name[32];

        (void)snprintf(name, sizeof(name), ROOT "/%s", links[i]);
        (void)snprintf(target, sizeof(target), "usr/%s", links[i]);
        if (symlink(target, name) < 0)
            return false;
    }
    return true;
}

/* In the child: a root of /usr, a workspace and a /proc. Returns 0 or the line that failed. */
static int build_root(const struct init_box *box)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("root", ROOT, "tmpfs", 0, "mode=0755") < 0)
        return __LINE__;
    if (!make_places())
        return __LINE__;
    if (mount("/usr", ROOT "/usr", NULL, MS_BIND, NULL) < 0 ||
        mount("workspace", ROOT "/workspace", "tmpfs", MS_NOSUID | MS_NODEV,
              box->workspace_options) < 0 ||
        mount("proc", ROOT "/proc", "proc", 0, "subset=pid,hidepid=invisible") < 0)
        return __LINE__;
    /* Not chroot(2), after which no user namespace may be made. */
    if (chdir(ROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return __LINE__;
    return chdir("/") < 0 ? __LINE__ : 0;
}

/* In the child, after everything that needs the host's user namespace. */
static int become_root_of_box(int ready_fd, int mapped_fd)
{
    char byte = 0;

    if (unshare(CLONE_NEWUSER) < 0 || write(ready_fd, "u", 1) != 1 ||
        read(mapped_fd, &byte, 1) != 1)
        return __LINE__;
    return setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ? __LINE__ : 0;
}

_Noreturn static void run_init(const struct init_box *box, int init_fd,
                               const int fds[SBX_INIT_FD_SECCOMP + 1])
{
    char *const argv[] = {(char[]){"sandbox-init"}, cr_unconst(box->argument), NULL};
    char *const envp[] = {NULL};
    int spare[SBX_INIT_FD_SECCOMP + 1];

    init_fd = fcntl(init_fd, F_DUPFD_CLOEXEC, 64);
    for (int i = 0; i <= SBX_INIT_FD_SECCOMP; i++)
        spare[i] = fcntl(fds[i], F_DUPFD, 64); /* one that sandbox-init has to close */
    for (int i = 0; i <= SBX_INIT_FD_SECCOMP; i++)
        (void)dup2(spare[i], i);
    if (box->before_exec)
        box->before_exec();
    (void)syscall(SYS_execveat, init_fd, "", argv, envp, AT_EMPTY_PATH);
    _exit(90);
}

static void write_map(pid_t pid, const char *name)
{
    CR_AUTO_CLOSE int fd = -1;
    char text[64];

    (void)snprintf(text, sizeof(text), "/proc/%d/%s", pid, name);
    fd = open(text, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)snprintf(text, sizeof(text), "0 %d 65536\n", HOST_BASE);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

void init_box_start(struct init_box *box)
{
    CR_AUTO_CLOSE int init_fd = open(SANDBOX_INIT, O_RDONLY | O_CLOEXEC);
    CR_AUTO_CLOSE int seccomp_fd = -1;
    int control[2];
    int output[2];
    int ready[2];
    int mapped[2];
    char byte;

    sbx_payload_end(&box->payload);
    box->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    box->payload_fd = sbx_payload_seal(&box->payload, NULL);
    assert_int_equal(sbx_seccomp_build(&seccomp_fd, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(mapped, O_CLOEXEC), 0);
    box->pid = (pid_t)syscall(
        SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0);
    assert_true(box->pid >= 0);
    if (box->pid == 0) {
        const int late = box->argument ? box->null_fd : -1; /* what it gets comes with LOAD */
        const int output_fd = late >= 0 ? late : output[1];
        const int fds[] = {
            box->null_fd, output_fd, output_fd, control[1], late >= 0 ? late : box->payload_fd,
            seccomp_fd};
        int line = build_root(box);

        if (line == 0)
            line = become_root_of_box(ready[1], mapped[0]);
        if (line != 0)
            _exit(91);
        run_init(box, init_fd, fds);
    }
    assert_int_equal(close(ready[1]), 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    write_map(box->pid, "uid_map");
    write_map(box->pid, "gid_map");
    assert_int_equal(write(mapped[1], "m", 1), 1);
    assert_int_equal(close(ready[0]) | close(mapped[0]) | close(mapped[1]), 0);
    assert_int_equal(close(control[1]), 0);
    box->control_fd = control[0];
    box->output_fd = output[0];
    box->write_fd = output[1];
    if (!box->argument)
        cr_close_fd(&box->write_fd);
}

void init_box_receive(const struct init_box *box, struct sbx_init_msg *ret_msg)
{
    struct pollfd poll_fd = {.fd = box->control_fd, .events = POLLIN};

    assert_int_equal(poll(&poll_fd, 1, DEADLINE_MS), 1);
    assert_int_equal(recv(box->control_fd, ret_msg, sizeof(*ret_msg), 0), sizeof(*ret_msg));
}

void init_box_go(const struct init_box *box)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_GO};

    assert_int_equal(send(box->control_fd, &msg, sizeof(msg), MSG_NOSIGNAL), sizeof(msg));
}

void init_box_load(struct init_box *box)
{
    const struct sbx_init_msg msg = {.event = box->is_go_along ? SBX_INIT_LOAD_GO : SBX_INIT_LOAD};
    const int fds[SBX_INIT_LOAD_FDS] = {box->payload_fd, box->null_fd, box->write_fd,
                                        box->write_fd};

    assert_int_equal(sbx_fds_send(box->control_fd, &msg, sizeof(msg), fds, SBX_INIT_LOAD_FDS), 0);
    cr_close_fd(&box->write_fd);
}

struct sbx_init_msg init_box_run(struct init_box *box)
{
    struct sbx_init_msg msg;

    init_box_start(box);
    init_box_receive(box, &msg);
    if (box->argument) {
        assert_int_equal(msg.event, SBX_INIT_WAITING);
        init_box_load(box);
        init_box_receive(box, &msg);
    }
    if (msg.event != SBX_INIT_READY)
        return msg;
    if (!box->is_go_along)
        init_box_go(box);
    init_box_receive(box, &msg);
    return msg;
}

void init_assert_exited(struct sbx_init_msg msg, int wait_status)
{
    if (msg.event != SBX_INIT_EXITED)
        fail_msg("event %u, stage %s, errno %d", msg.event, sbx_stage_name(msg.stage), msg.error);
    assert_int_equal(msg.wait_status, wait_status);
}

void init_assert_failed(struct sbx_init_msg msg, enum sbx_stage stage, int error)
{
    assert_int_equal(msg.event, SBX_INIT_FAILED);
    assert_string_equal(sbx_stage_name(msg.stage), sbx_stage_name((uint32_t)stage));
    assert_int_equal(msg.error, error);
}

const char *init_box_output(const struct init_box *box)
{
    static char text[4096];
    size_t size = 0;
    ssize_t got;

    while ((got = read(box->output_fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = 0;
    return text;
}

void init_box_ignore_signals(void)
{
    const uint64_t action[4] = {(uint64_t)(uintptr_t)SIG_IGN};

    assert_int_equal(syscall(SYS_rt_sigaction, 32, action, NULL, 8), 0);
    assert_int_equal(syscall(SYS_rt_sigaction, 33, action, NULL, 8), 0);
}
