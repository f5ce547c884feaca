/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/backend/seccomp.h"
#include "sandboxd/backend/seccomp_policy.h"
#include "sandboxd/wire/boxctl.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#else
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)

static struct sock_filter code[BPF_MAXINSNS];
static size_t code_size;

static int build(void **state)
{
    CR_AUTO_CLOSE int fd = -1;
    ssize_t size;

    (void)state;
    if (sbx_seccomp_build(&fd, NULL) != 0)
        return -1;
    size = read(fd, code, sizeof(code));
    code_size = size > 0 ? (size_t)size / sizeof(code[0]) : 0;
    return code_size > 0 ? 0 : -1;
}

/* What the kernel would answer: an interpreter of the few instructions in use. */
static uint32_t answer(const struct seccomp_data *data)
{
    uint32_t accumulator = 0;

    for (size_t at = 0; at < code_size; at++) {
        const struct sock_filter *line = &code[at];
        bool is_true = false;

        switch (line->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(line->k <= sizeof(*data) - sizeof(accumulator));
            memcpy(&accumulator, (const char *)data + line->k, sizeof(accumulator));
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            accumulator &= line->k;
            continue;
        case BPF_JMP | BPF_JA:
            at += line->k;
            continue;
        case BPF_RET | BPF_K:
            return line->k;
        case BPF_JMP | BPF_JEQ | BPF_K:
            is_true = accumulator == line->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            is_true = accumulator >= line->k;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            is_true = (accumulator & line->k) != 0;
            break;
        default:
            fail_msg("instruction 0x%x", line->code);
        }
        at += is_true ? line->jt : line->jf;
    }
    fail_msg("ran past the end");
    return 0;
}

static uint32_t answer_to(uint32_t number, uint64_t arg0, uint64_t arg1, uint64_t arg2)
{
    const struct seccomp_data data = {
        .nr = (int)number, .arch = NATIVE_ARCH, .args = {arg0, arg1, arg2}};

    return answer(&data);
}

static void seccomp_answers_every_number_as_the_table_says(void **state)
{
    size_t count;
    const struct sbx_seccomp_rule *policy = sbx_seccomp_policy(&count);

    (void)state;
    for (uint32_t number = 0; number < 1024; number++) {
        const struct sbx_seccomp_rule *rule = NULL;

        for (size_t i = 0; i < count && !rule; i++)
            rule = policy[i].number == number ? &policy[i] : NULL;
        if (!rule || !rule->filter)
            assert_int_equal(answer_to(number, 0, 0, 0), rule ? rule->answer : UNKNOWN);
    }
}

static void seccomp_is_of_the_size_it_was_made_for(void **state)
{
    size_t count;

    (void)state;
    (void)sbx_seccomp_policy(&count);

    assert_in_range(count, 250, 400);
    assert_in_range(code_size, 100, 1024);
}

static void seccomp_kills_other_doors_into_the_kernel(void **state)
{
    struct seccomp_data data = {.nr = __NR_getpid, .arch = AUDIT_ARCH_I386};

    (void)state;
    assert_int_equal(answer(&data), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(answer_to(0x40000000U | __NR_getpid, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(answer_to(0x80000000U, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(answer_to(UINT32_MAX, 0, 0, 0), UNKNOWN);
}

static void seccomp_looks_at_arguments(void **state)
{
    const uint64_t high = UINT64_C(1) << 32;

    const struct {
        uint64_t args[3];
        uint32_t number;
        uint32_t answer;
    } cases[] = {
        {{SIGCHLD}, __NR_clone, SECCOMP_RET_ALLOW},
        {{CLONE_VM | CLONE_THREAD | CLONE_SIGHAND}, __NR_clone, SECCOMP_RET_ALLOW},
        {{CLONE_NEWUSER | SIGCHLD}, __NR_clone, SECCOMP_RET_ERRNO | EPERM},
        {{CLONE_NEWNET | high}, __NR_clone, SECCOMP_RET_ERRNO | EPERM},
        {{CLONE_NEWCGROUP}, __NR_clone, SECCOMP_RET_ERRNO | EPERM},
        {{0, TIOCGWINSZ}, __NR_ioctl, SECCOMP_RET_ALLOW},
        {{0, TIOCSTI}, __NR_ioctl, SECCOMP_RET_ERRNO | EPERM},
        {{0, TIOCSTI | high}, __NR_ioctl, SECCOMP_RET_ERRNO | EPERM},
        {{0, TIOCLINUX}, __NR_ioctl, SECCOMP_RET_ERRNO | EPERM},
        {{0, TIOCSETD}, __NR_ioctl, SECCOMP_RET_ERRNO | EPERM},
        {{0, TIOCCONS}, __NR_ioctl, SECCOMP_RET_ERRNO | EPERM},
        {{AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0}, __NR_socket, SBX_SECCOMP_SOCKET},
        {{AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP}, __NR_socket, SBX_SECCOMP_SOCKET},
        {{AF_INET6, SOCK_DGRAM, IPPROTO_UDP}, __NR_socket, SBX_SECCOMP_SOCKET},
        {{AF_INET, SOCK_DGRAM, 0}, __NR_socket, SBX_SECCOMP_SOCKET},
        {{AF_INET, SOCK_STREAM, 262}, __NR_socket, SECCOMP_RET_ERRNO | EPROTONOSUPPORT},
        {{AF_INET, SOCK_DGRAM, IPPROTO_ICMP}, __NR_socket, SECCOMP_RET_ERRNO | EPROTONOSUPPORT},
        {{AF_INET, SOCK_RAW, IPPROTO_ICMP}, __NR_socket, SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT},
        {{AF_INET6, SOCK_SEQPACKET, 0}, __NR_socket, SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT},
        {{AF_NETLINK, SOCK_RAW, 0}, __NR_socket, SECCOMP_RET_ERRNO | EAFNOSUPPORT},
        {{AF_VSOCK, SOCK_STREAM, 0}, __NR_socket, SECCOMP_RET_ERRNO | EAFNOSUPPORT},
        {{AF_ALG, SOCK_SEQPACKET, 0}, __NR_socket, SECCOMP_RET_ERRNO | EAFNOSUPPORT},
        {{AF_PACKET | high, SOCK_RAW, 0}, __NR_socket, SECCOMP_RET_ERRNO | EAFNOSUPPORT},
        {{AF_UNIX, SOCK_STREAM}, __NR_socketpair, SBX_SECCOMP_SOCKET},
        {{AF_TIPC, SOCK_STREAM}, __NR_socketpair, SECCOMP_RET_ERRNO | EAFNOSUPPORT},
        {{0, F_SETLK}, __NR_fcntl, SECCOMP_RET_ALLOW},
        {{0, F_NOTIFY}, __NR_fcntl, SECCOMP_RET_ERRNO | EINVAL},
        {{0, F_NOTIFY | high}, __NR_fcntl, SECCOMP_RET_ERRNO | EINVAL},
        {{0, MFD_CLOEXEC}, __NR_memfd_create, SECCOMP_RET_ALLOW},
        {{0, MFD_CLOEXEC | MFD_HUGETLB}, __NR_memfd_create, SECCOMP_RET_ERRNO | ENOSYS},
        {{PR_SET_NAME}, __NR_prctl, SECCOMP_RET_ALLOW},
        {{PR_SET_SECCOMP}, __NR_prctl, SECCOMP_RET_ERRNO | EPERM},
        {{PR_SET_MM}, __NR_prctl, SECCOMP_RET_ERRNO | EPERM},
        {{12345}, __NR_prctl, SECCOMP_RET_ERRNO | EINVAL},
        {{0xffffffff}, __NR_personality, SECCOMP_RET_ALLOW},
        {{ADDR_NO_RANDOMIZE}, __NR_personality, SECCOMP_RET_ERRNO | EPERM},
        {{READ_IMPLIES_EXEC}, __NR_personality, SECCOMP_RET_ERRNO | EPERM},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        const uint32_t got =
            answer_to(cases[i].number, cases[i].args[0], cases[i].args[1], cases[i].args[2]);

        if (got != cases[i].answer)
            fail_msg("case %zu: 0x%x, expected 0x%x", i, got, cases[i].answer);
    }
}

static void seccomp_fd_is_sealed(void **state)
{
    const int fds_before = test_count_fds();
    int fd = -1;

    (void)state;
    assert_int_equal(sbx_seccomp_build(&fd, NULL), 0);

    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    assert_int_equal(test_count_fds(), fds_before);
}

static void load(void)
{
    const struct sock_fprog program = {.len = (unsigned short)code_size, .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        _exit(100);
}

/* Runs `probe` under the real filter in a child; returns the wait status. */
static int under_filter(int (*probe)(void))
{
    const pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        load();
        _exit(probe());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int errno_of(long result)
{
    return result < 0 ? errno : 0;
}

static int probe_ptrace(void)
{
    return errno_of(syscall(SYS_ptrace, 0x4206, 1, 0, 0));
}

static int probe_bpf(void)
{
    return errno_of(syscall(SYS_bpf, 0, 0, 0));
}

static int probe_io_uring(void)
{
    return errno_of(syscall(SYS_io_uring_setup, 1, NULL));
}

static int probe_unshare(void)
{
    return errno_of(unshare(CLONE_NEWUSER));
}

static int probe_netlink(void)
{
    return errno_of(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int probe_clone3(void)
{
    return errno_of(syscall(SYS_clone3, NULL, 0));
}

static int probe_future(void)
{
    return errno_of(syscall(1000));
}

static int probe_sync(void)
{
    sync();
    return 0;
}

#ifdef __x86_64__
static int probe_i386(void)
{
    int result;

    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid */
    return result > 0 ? 0 : -result;
}

static int probe_x32(void)
{
    return errno_of(syscall(0x40000000 | __NR_getpid));
}
#endif

static void seccomp_is_what_the_kernel_enforces(void **state)
{
    const struct {
        int (*probe)(void);
        int error;
        int signal;
    } cases[] = {
        {probe_io_uring, ENOSYS, 0}, {probe_unshare, EPERM, 0}, {probe_netlink, EAFNOSUPPORT, 0},
        {probe_clone3, ENOSYS, 0},   {probe_future, ENOSYS, 0}, {probe_sync, 0, 0},
        {probe_ptrace, 0, SIGSYS},   {probe_bpf, 0, SIGSYS},
#ifdef __x86_64__
        {probe_i386, 0, SIGSYS},     {probe_x32, 0, SIGSYS},
#endif
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        const int status = under_filter(cases[i].probe);

        if (WIFEXITED(status))
            assert_int_equal(WEXITSTATUS(status), cases[i].error);
        assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, cases[i].signal);
    }
}

static void *touch(void *argument)
{
    *(int *)argument = 1;
    return NULL;
}

/* 0 when everything that an honest program does works. */
static int probe_honest(void)
{
    int flag = 0;
    int status = 0;
    pthread_t thread;
    pid_t pid;

    if (pthread_create(&thread, NULL, touch, &flag) != 0 || pthread_join(thread, NULL) != 0 ||
        !flag)
        return 1;
    pid = fork();
    if (pid == 0)
        _exit(7);
    if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
        return 2;
    if (socket(AF_INET, SOCK_STREAM, 0) < 0)
        return 3;
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) == MAP_FAILED;
}

static void seccomp_lets_honest_programs_work(void **state)
{
    (void)state;
    assert_int_equal(under_filter(probe_honest), 0);
}

#define PYTHON_PROGRAM                                                                               \
    "import asyncio, concurrent.futures, multiprocessing, os, shutil, socket, sqlite3, subprocess\n" \
    "import tempfile, threading\n"                                                                   \
    "d = tempfile.mkdtemp()\n"                                                                       \
    "db = sqlite3.connect(d + '/db'); db.execute('create table t(a)'); db.commit(); db.close()\n"    \
    "assert subprocess.run(['/bin/sh', '-c', 'ls / | sort | wc -l'], capture_output=True)"           \
    ".returncode == 0\n"                                                                             \
    "s = socket.create_server(('127.0.0.1', 0))\n"                                                   \
    "async def talk():\n"                                                                            \
    "    r, w = await asyncio.open_connection(*s.getsockname()); w.close()\n"                        \
    "asyncio.run(talk())\n"                                                                          \
    "with concurrent.futures.ThreadPoolExecutor(4) as p: assert sum(p.map(abs, range(9))) == 36\n"   \
    "with multiprocessing.get_context('fork').Pool(2) as p: assert sum(p.map(abs, [-1])) == 1\n"     \
    "shutil.copyfile(d + '/db', d + '/copy'); os.mkfifo(d + '/fifo'); shutil.rmtree(d)\n"

static int probe_python(void)
{
    (void)execl("/usr/bin/python3", "python3", "-c", PYTHON_PROGRAM, (char *)NULL);
    return 99;
}

static int probe_pytest(void)
{
    (void)execl("/usr/bin/env", "env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "/usr/bin/python3", "-I",
                "-B", "-m", "pytest", "--version", (char *)NULL);
    return 99;
}

static void seccomp_lets_python_work(void **state)
{
    (void)state;
    if (access("/usr/bin/python3", X_OK) < 0)
        skip();

    assert_int_equal(under_filter(probe_python), 0);
    if (access("/usr/bin/pytest", X_OK) == 0)
        assert_int_equal(under_filter(probe_pytest), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seccomp_answers_every_number_as_the_table_says),
        cmocka_unit_test(seccomp_is_of_the_size_it_was_made_for),
        cmocka_unit_test(seccomp_kills_other_doors_into_the_kernel),
        cmocka_unit_test(seccomp_looks_at_arguments),
        cmocka_unit_test(seccomp_fd_is_sealed),
        cmocka_unit_test(seccomp_is_what_the_kernel_enforces),
        cmocka_unit_test(seccomp_lets_honest_programs_work),
        cmocka_unit_test(seccomp_lets_python_work),
    };

    return cmocka_run_group_tests(tests, build, NULL);
}
