/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/replay_process.h"

#include "common/unconst.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

static void read_line(int fd, char *line, size_t room)
{
    struct pollfd waiter = {.fd = fd, .events = POLLIN};
    size_t size = 0;

    while (size + 1 < room && (size == 0 || line[size - 1] != '\n')) {
        assert_int_equal(poll(&waiter, 1, 60000), 1);
        assert_int_equal(read(fd, line + size, 1), 1);
        size++;
    }
    line[size] = 0;
}

/* The child's part; a test that fails must not leave a server behind. */
_Noreturn static void exec_replay(int stdout_fd, const char *program, const char *const *arguments,
                                  const char *setting)
{
    char *argv[REPLAY_ARGUMENTS_MAX + 3] = {(char[]){"gemini-replay"},
                                            (char[]){"--listen=127.0.0.1:0"}};
    char *const env[] = {cr_unconst(setting), NULL};

    for (size_t i = 0; i < REPLAY_ARGUMENTS_MAX && arguments[i]; i++)
        argv[i + 2] = cr_unconst(arguments[i]);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(stdout_fd, STDOUT_FILENO);
    (void)execve(program, argv, env);
    _exit(127);
}

struct replay_process replay_process_start(const char *program, const char *const *arguments,
                                           const char *setting)
{
    struct replay_process replay = {0};
    char line[128];
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    replay.pid = fork();
    assert_true(replay.pid >= 0);
    if (replay.pid == 0)
        exec_replay(fds[1], program, arguments, setting);
    (void)close(fds[1]);
    read_line(fds[0], line, sizeof(line));
    (void)close(fds[0]);
    assert_int_equal(sscanf(line, "gemini-replay listening on 127.0.0.1:%hu", &replay.port), 1);
    return replay;
}

void replay_process_stop(const struct replay_process *replay)
{
    int status = -1;

    assert_int_equal(kill(replay->pid, SIGTERM), 0);
    assert_int_equal(waitpid(replay->pid, &status, 0), replay->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
