/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The real sandbox-init as pid 1 of a small box of its own namespaces, with
 * the real filter, and this test in the place of the backend. Needs root.
 */
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

struct box {
    struct cr_buf payload;
    const char *workspace_options; /* of its tmpfs */
    const char *argument;          /* of sandbox-init; NULL: none */
    void (*before_exec)(void);     /* in pid 1, with its fds in place; NULL: nothing */
    pid_t pid;
    int control_fd;
    int output_fd;    /* read end of the program's stdout and stderr */
    int payload_fd;   /* not handed over yet; -1: none */
    int write_fd;     /* likewise, for stdout and stderr */
    int null_fd;      /* likewise, for stdin */
    bool is_go_along; /* GO comes with LOAD */
};

static int make_box(void **state)
{
    static struct box box;

    box = (struct box){
        .control_fd = -1, .output_fd = -1, .payload_fd = -1, .write_fd = -1, .null_fd = -1};
    box.workspace_options = "size=1m,mode=0755,uid=201000,gid=201000";
    cr_buf_init(&box.payload, SBX_PAYLOAD_MAX);
    *state = &box;
    return sbx_payload_begin(&box.payload);
}

static int remove_box(void **state)
{
    struct box *box = *state;

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

static void add(struct box *box, enum sbx_payload_kind kind, const char *name, const char *data)
{
    assert_int_equal(
        sbx_payload_add(&box->payload, kind, 0, 0, name, strlen(name), data, strlen(data)), 0);
}

static void add_read_only(struct box *box, const char *name, const char *data)
{
    assert_int_equal(sbx_payload_add(&box->payload, SBX_PAYLOAD_FILE, SBX_PAYLOAD_FILE_READ_ONLY, 0,
                                     name, strlen(name), data, strlen(data)),
                     0);
}

static void add_shell(struct box *box, const char *script)
{
    add(box, SBX_PAYLOAD_ARG, "", "/bin/sh");
    add(box, SBX_PAYLOAD_ARG, "", "-c");
    add(box, SBX_PAYLOAD_ARG, "", script);
    add(box, SBX_PAYLOAD_ENV, "PATH", "/usr/bin");
}

/* In the child: a root of /usr, a workspace and a /proc. Returns 0 or the line that failed. */
static int build_root(const struct box *box)
{
    static const char *const links[] = {"bin", "lib", "lib64"};
    char target[16];

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("root", ROOT, "tmpfs", 0, "mode=0755") < 0)
        return __LINE__;
    if (mkdir(ROOT "/usr", 0755) < 0 || mkdir(ROOT "/workspace", 0755) < 0 ||
        mkdir(ROOT "/proc", 0755) < 0 || mkdir(ROOT "/dev", 0755) < 0 ||
        mknod(ROOT "/dev/null", S_IFCHR | 0666, makedev(1, 3)) < 0 ||
        chmod(ROOT "/dev/null", 0666) < 0)
        return __LINE__;
    for (size_t i = 0; i < CR_ARRAY_SIZE(links); i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), ROOT "/%s", links[i]);
        (void)snprintf(target, sizeof(target), "usr/%s", links[i]);
        if (symlink(target, name) < 0)
            return __LINE__;
    }
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

_Noreturn static void run_init(const struct box *box, int init_fd,
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

static void start(struct box *box)
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

static void receive(const struct box *box, struct sbx_init_msg *ret_msg)
{
    struct pollfd poll_fd = {.fd = box->control_fd, .events = POLLIN};

    assert_int_equal(poll(&poll_fd, 1, DEADLINE_MS), 1);
    assert_int_equal(recv(box->control_fd, ret_msg, sizeof(*ret_msg), 0), sizeof(*ret_msg));
}

static void go(const struct box *box)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_GO};

    assert_int_equal(send(box->control_fd, &msg, sizeof(msg), MSG_NOSIGNAL), sizeof(msg));
}

static void load(struct box *box)
{
    const struct sbx_init_msg msg = {.event = box->is_go_along ? SBX_INIT_LOAD_GO : SBX_INIT_LOAD};
    const int fds[SBX_INIT_LOAD_FDS] = {box->payload_fd, box->null_fd, box->write_fd,
                                        box->write_fd};

    assert_int_equal(sbx_fds_send(box->control_fd, &msg, sizeof(msg), fds, SBX_INIT_LOAD_FDS), 0);
    cr_close_fd(&box->write_fd);
}

/* Runs the payload to its end. */
static struct sbx_init_msg run(struct box *box)
{
    struct sbx_init_msg msg;

    start(box);
    receive(box, &msg);
    if (box->argument) {
        assert_int_equal(msg.event, SBX_INIT_WAITING);
        load(box);
        receive(box, &msg);
    }
    if (msg.event != SBX_INIT_READY)
        return msg;
    if (!box->is_go_along)
        go(box);
    receive(box, &msg);
    return msg;
}

static void assert_exited(struct sbx_init_msg msg, int wait_status)
{
    if (msg.event != SBX_INIT_EXITED)
        fail_msg("event %u, stage %s, errno %d", msg.event, sbx_stage_name(msg.stage), msg.error);
    assert_int_equal(msg.wait_status, wait_status);
}

static void assert_failed(struct sbx_init_msg msg, enum sbx_stage stage, int error)
{
    assert_int_equal(msg.event, SBX_INIT_FAILED);
    assert_string_equal(sbx_stage_name(msg.stage), sbx_stage_name((uint32_t)stage));
    assert_int_equal(msg.error, error);
}

/* Everything that the box wrote; pid 1 must have ended, or this would not end. */
static const char *output_of(const struct box *box)
{
    static char text[4096];
    size_t size = 0;
    ssize_t got;

    while ((got = read(box->output_fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    text[size] = 0;
    return text;
}

static void init_starts_the_program_as_nobody_in_particular(void **state)
{
    struct box *box = *state;

    add_shell(box, "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|SigBlk|SigIgn):' "
                   "/proc/self/status; umask; pwd");

    assert_exited(run(box), 0);

    assert_string_equal(output_of(box), "Uid:\t1000\t1000\t1000\t1000\n"
                                        "Gid:\t1000\t1000\t1000\t1000\n"
                                        "Groups:\t \n"
                                        "SigBlk:\t0000000000000000\n"
                                        "SigIgn:\t0000000000000000\n"
                                        "CapInh:\t0000000000000000\n"
                                        "CapPrm:\t0000000000000000\n"
                                        "CapEff:\t0000000000000000\n"
                                        "CapBnd:\t0000000000000000\n"
                                        "CapAmb:\t0000000000000000\n"
                                        "NoNewPrivs:\t1\n"
                                        "Seccomp:\t2\n"
                                        "0022\n"
                                        "/workspace\n");
}

static void init_passes_argv_and_environment_exactly(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_ENV, "B", "2");
    add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/env");
    add(box, SBX_PAYLOAD_ENV, "A", "");
    add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/printf");
    add(box, SBX_PAYLOAD_ARG, "", "%s|");
    add(box, SBX_PAYLOAD_ARG, "", "");
    add(box, SBX_PAYLOAD_ARG, "", "a b\n");

    assert_exited(run(box), 0);

    assert_string_equal(output_of(box), "|a b\n|");
}

static void init_passes_the_environment_in_order(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/env");
    add(box, SBX_PAYLOAD_ENV, "B", "2");
    add(box, SBX_PAYLOAD_ENV, "A", "1=1");

    assert_exited(run(box), 0);

    assert_string_equal(output_of(box), "B=2\nA=1=1\n");
}

static void init_leaves_the_program_three_fds(void **state)
{
    struct box *box = *state;

    /* 3 is the folder that ls itself reads. */
    add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/ls");
    add(box, SBX_PAYLOAD_ARG, "", "/proc/self/fd");

    assert_exited(run(box), 0);

    assert_string_equal(output_of(box), "0\n1\n2\n3\n");
}

static void init_puts_files_in_place(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_FILE, "d/hello", "hello\n");
    add_shell(box, "cat d/hello && echo more >> d/hello && stat -c '%u %g %a' d d/hello");

    assert_exited(run(box), 0);

    assert_string_equal(output_of(box), "hello\n1000 1000 755\n1000 1000 644\n");
}

static void init_protects_read_only_files(void **state)
{
    struct box *box = *state;

    add_read_only(box, "t/deep/fixed", "fixed\n");
    add_read_only(box, "top", "top\n");
    add(box, SBX_PAYLOAD_FILE, "t/free", "free\n");
    add_shell(box, "exec 2>&-\n"
                   "(echo x > top) && echo wrote\n"
                   "(: >> t/deep/fixed) && echo appended\n"
                   "chmod 777 top && echo chmod\n"
                   "rm -f top && echo removed\n"
                   "rm -rf t/deep && echo removed folder\n"
                   "mv top other && echo moved\n"
                   "mv t other && echo moved folder\n"
                   "mv t/deep other && echo moved deep folder\n"
                   "chmod 777 . t t/deep && echo chmod folder\n"
                   "mv t/free top && echo replaced\n"
                   "ln -sf /dev/null top && echo linked\n"
                   "cat top t/deep/fixed\n"
                   "echo new > t/new && echo new > new && rm t/new new && mkdir t/deep/d && "
                   "echo more >> t/free && rm t/free && echo can work");

    assert_exited(run(box), 0);

    assert_string_equal(output_of(box), "top\nfixed\ncan work\n");
}

static void init_reports_what_cannot_be_executed(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/no-such-program");

    assert_failed(run(box), SBX_STAGE_EXEC, ENOENT);
}

static void init_reports_a_file_without_the_right_to_execute(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_ARG, "", "/workspace/plain");
    add(box, SBX_PAYLOAD_FILE, "plain", "#!/bin/sh\n");

    assert_failed(run(box), SBX_STAGE_EXEC, EACCES);
}

static void init_refuses_a_payload_without_a_program(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_ARG, "", "relative");

    assert_failed(run(box), SBX_STAGE_PAYLOAD, EPROTO);
}

static void init_refuses_a_malformed_payload(void **state)
{
    struct box *box = *state;

    add(box, SBX_PAYLOAD_ARG, "", "/bin/true");
    add(box, SBX_PAYLOAD_FILE, "../escape", "x");

    assert_failed(run(box), SBX_STAGE_PAYLOAD, EPROTO);
}

static void init_reports_files_that_do_not_fit(void **state)
{
    static char text[200 * 1024];
    struct box *box = *state;

    box->workspace_options = "size=64k,mode=0755,uid=201000,gid=201000";
    memset(text, 'x', sizeof(text) - 1);
    add(box, SBX_PAYLOAD_ARG, "", "/bin/true");
    add(box, SBX_PAYLOAD_FILE, "large", text);

    assert_failed(run(box), SBX_STAGE_PAYLOAD, ENOSPC);
}

static void init_reports_the_raw_status(void **state)
{
    struct box *box = *state;

    add_shell(box, "kill -SEGV $$");

    assert_exited(run(box), SIGSEGV);
}

static void init_kills_and_counts_leftovers(void **state)
{
    struct box *box = *state;
    struct sbx_init_msg msg;

    add_shell(box, "sleep 1000 & setsid sleep 1000 & true & wait $!; exit 4");

    msg = run(box);

    assert_exited(msg, 4 << 8);
    assert_int_equal(msg.leftovers, 2);
    assert_string_equal(output_of(box), "");
}

static void init_adopts_and_reaps_orphans(void **state)
{
    struct box *box = *state;
    struct sbx_init_msg msg;

    /* The inner shells end at once; their children become those of pid 1, and a zombie that it
     * does not reap stays in /proc, where else there is only the leader. */
    add_shell(box, "for i in 1 2 3 4 5; do (true &); done;"
                   "until set -- /proc/[0-9]*; [ $# -eq 1 ]; do :; done; exit 6");

    msg = run(box);

    assert_exited(msg, 6 << 8);
    assert_int_equal(msg.leftovers, 0);
}

static void init_cannot_be_reached_by_the_program(void **state)
{
    struct box *box = *state;

    add_shell(box, "exec 2>&-; kill -9 1 && echo killed; kill -STOP 1 && echo stopped;"
                   "ls /proc/1/fd && echo seen; cat /proc/1/environ && echo read; exit 5");

    assert_exited(run(box), 5 << 8);

    assert_string_equal(output_of(box), "");
}

static void init_does_not_start_anything_without_the_backend(void **state)
{
    struct box *box = *state;
    struct sbx_init_msg msg;
    int status;

    add_shell(box, "echo started");
    start(box);
    receive(box, &msg);
    assert_int_equal(msg.event, SBX_INIT_READY);

    cr_close_fd(&box->control_fd);

    assert_int_equal(waitpid(box->pid, &status, 0), box->pid);
    box->pid = 0;
    assert_int_equal(status, 1 << 8);
    assert_string_equal(output_of(box), "");
}

#define BOX_TEST(function) cmocka_unit_test_setup_teardown(function, make_box, remove_box)

/* Some supervisors start us with them ignored; sigaction(3) refuses them, the kernel does not. */
static void ignore_signals_of_the_libc(void)
{
    const uint64_t action[4] = {(uint64_t)(uintptr_t)SIG_IGN};

    assert_int_equal(syscall(SYS_rt_sigaction, 32, action, NULL, 8), 0);
    assert_int_equal(syscall(SYS_rt_sigaction, 33, action, NULL, 8), 0);
}

/* Made ahead: everything that the run is about comes later. */

static void waiting_init_runs_what_comes_with_load(void **state)
{
    struct box *box = *state;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    add(box, SBX_PAYLOAD_FILE, "hello", "hello\n");
    add_shell(box, "cat hello; ls /proc/self/fd; exit 3");

    assert_exited(run(box), 3 << 8);

    assert_string_equal(output_of(box), "hello\n0\n1\n2\n3\n");
}

static void waiting_init_goes_at_once_when_it_is_told_so(void **state)
{
    struct box *box = *state;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    box->is_go_along = true;
    add(box, SBX_PAYLOAD_FILE, "hello", "hello\n");
    add_shell(box, "cat hello; ls /proc/self/fd; exit 3");

    assert_exited(run(box), 3 << 8);

    assert_string_equal(output_of(box), "hello\n0\n1\n2\n3\n");
}

/* They are another process' work, and the program a second one's. */
static void waiting_init_puts_read_only_files_in_place(void **state)
{
    struct box *box = *state;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    add_read_only(box, "fixed", "fixed\n");
    add(box, SBX_PAYLOAD_FILE, "hello", "hello\n");
    add_shell(box, "cat fixed hello; rm -f fixed 2>/dev/null; cat fixed; exit 4");

    assert_exited(run(box), 4 << 8);

    assert_string_equal(output_of(box), "fixed\nhello\nfixed\n");
}

static void waiting_init_never_goes_at_once_with_read_only_files(void **state)
{
    struct box *box = *state;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    box->is_go_along = true;
    add_read_only(box, "fixed", "fixed\n");
    add_shell(box, "exit 0");

    assert_failed(run(box), SBX_STAGE_PAYLOAD, EPROTO);
}

/* Only what has made none is as good as new; the calls themselves work as ever. */
static void init_tells_whether_a_socket_was_made(void **state)
{
    static const struct {
        const char *code;
        bool has_none;
    } rows[] = {
        {"pass", true},
        {"import socket; socket.socket().close()", false},
        {"import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'",
         false},
        {"import os, socket\nif os.fork() == 0:\n    socket.socket(socket.AF_UNIX)\n"
         "    os._exit(0)\nos.wait()",
         false},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        struct box *box;
        struct sbx_init_msg msg;

        assert_int_equal(make_box(state), 0);
        box = *state;
        add(box, SBX_PAYLOAD_ARG, "", "/usr/bin/python3");
        add(box, SBX_PAYLOAD_ARG, "", "-ISc");
        add(box, SBX_PAYLOAD_ARG, "", rows[i].code);
        msg = run(box);
        assert_exited(msg, 0);
        if (msg.detail & SBX_INIT_WATCHED) /* else the kernel has no listener for us */
            assert_int_equal((msg.detail & SBX_INIT_NO_SOCKET) != 0, rows[i].has_none);
        (void)remove_box(state);
    }
    assert_int_equal(make_box(state), 0);
}

static void waiting_init_that_goes_at_once_reports_what_cannot_be_executed(void **state)
{
    struct box *box = *state;
    struct sbx_init_msg msg;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    box->is_go_along = true;
    add(box, SBX_PAYLOAD_ARG, "", "/no/such/program");
    start(box);
    receive(box, &msg);
    load(box);
    receive(box, &msg);

    assert_failed(msg, SBX_STAGE_EXEC, ENOENT);
}

static void waiting_init_ends_with_its_backend(void **state)
{
    struct box *box = *state;
    struct sbx_init_msg msg;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    add_shell(box, "exit 0");
    start(box);
    receive(box, &msg);
    cr_close_fd(&box->control_fd);

    assert_int_equal(waitpid(box->pid, NULL, 0), box->pid);
    box->pid = 0;
}

static void waiting_init_refuses_go_before_load(void **state)
{
    struct box *box = *state;
    struct sbx_init_msg msg;

    box->argument = SBX_INIT_WAIT_ARGUMENT;
    add_shell(box, "exit 0");
    start(box);
    receive(box, &msg);
    go(box);
    receive(box, &msg);

    assert_failed(msg, SBX_STAGE_INIT, EPROTO);
}

/* What the program of a template does, in short. */
_Noreturn static void be_adopted(int channel_fd, bool is_willing)
{
    const struct sbx_adopt_hello hello = {.version = SBX_ADOPT_VERSION};
    const struct sbx_adopt_failure failure = {.stage = SBX_STAGE_EXEC, .error = ENOEXEC};
    struct sbx_adopt_go go;
    int fds[SBX_INIT_LOAD_FDS];

    if (sbx_fds_send(channel_fd, &hello, sizeof(hello), NULL, 0) < 0 ||
        sbx_fds_receive(channel_fd, &go, sizeof(go), fds, SBX_INIT_LOAD_FDS, 0) !=
            SBX_INIT_LOAD_FDS)
        _exit(92);
    if (!is_willing)
        (void)sbx_fds_send(channel_fd, &failure, sizeof(failure), NULL, 0);
    (void)close(channel_fd);
    (void)dprintf(fds[2], "%d %d\n", getpid() == SBX_INIT_ADOPTED_PID, getppid());
    _exit(4);
}

static void fork_adopted(bool is_willing)
{
    int pair[2];
    pid_t first = fork(); /* as where files are unpacked: the program is the second */

    if (first == 0)
        _exit(0);
    (void)waitpid(first, NULL, 0);
    (void)socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
    if (fork() == 0) {
        (void)close(pair[0]);
        be_adopted(pair[1], is_willing);
    }
    (void)dup2(pair[0], SBX_INIT_FD_ADOPTED);
    (void)close(pair[1]);
}

static void fork_willing(void)
{
    fork_adopted(true);
}

static void fork_unwilling(void)
{
    fork_adopted(false);
}

static void init_adopts_a_program_that_exists(void **state)
{
    struct box *box = *state;

    box->argument = SBX_INIT_ADOPT_ARGUMENT;
    box->before_exec = fork_willing;
    add_shell(box, "exit 0");

    assert_exited(run(box), 4 << 8);

    assert_string_equal(output_of(box), "1 1\n");
}

static void init_reports_a_program_that_cannot_be_adopted(void **state)
{
    struct box *box = *state;

    box->argument = SBX_INIT_ADOPT_ARGUMENT;
    box->before_exec = fork_unwilling;
    add_shell(box, "exit 0");

    assert_failed(run(box), SBX_STAGE_EXEC, ENOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(init_starts_the_program_as_nobody_in_particular),
        BOX_TEST(init_passes_argv_and_environment_exactly),
        BOX_TEST(init_passes_the_environment_in_order),
        BOX_TEST(init_leaves_the_program_three_fds),
        BOX_TEST(init_puts_files_in_place),
        BOX_TEST(init_protects_read_only_files),
        BOX_TEST(init_reports_what_cannot_be_executed),
        BOX_TEST(init_reports_a_file_without_the_right_to_execute),
        BOX_TEST(init_refuses_a_payload_without_a_program),
        BOX_TEST(init_refuses_a_malformed_payload),
        BOX_TEST(init_reports_files_that_do_not_fit),
        BOX_TEST(init_reports_the_raw_status),
        BOX_TEST(init_kills_and_counts_leftovers),
        BOX_TEST(init_adopts_and_reaps_orphans),
        BOX_TEST(init_cannot_be_reached_by_the_program),
        BOX_TEST(init_does_not_start_anything_without_the_backend),
        BOX_TEST(waiting_init_runs_what_comes_with_load),
        BOX_TEST(init_tells_whether_a_socket_was_made),
        BOX_TEST(waiting_init_goes_at_once_when_it_is_told_so),
        BOX_TEST(waiting_init_puts_read_only_files_in_place),
        BOX_TEST(waiting_init_never_goes_at_once_with_read_only_files),
        BOX_TEST(waiting_init_that_goes_at_once_reports_what_cannot_be_executed),
        BOX_TEST(waiting_init_ends_with_its_backend),
        BOX_TEST(waiting_init_refuses_go_before_load),
        BOX_TEST(init_adopts_a_program_that_exists),
        BOX_TEST(init_reports_a_program_that_cannot_be_adopted),
    };

    if (geteuid() != 0) {
        (void)fprintf(stderr, "needs root for mounts and user id maps\n");
        return 77;
    }
    ignore_signals_of_the_libc();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
