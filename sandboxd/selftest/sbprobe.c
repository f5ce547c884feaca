/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The hostile program of the self-test, static, sent as an input file.
 *   sbprobe calls | places [CONTROL]
 *                             tries every probe (of one control, by number) in a
 *                             child of its own and prints "name result" lines;
 *                             but for those that end the whole run
 *   sbprobe call NAME         tries one of these
 *   sbprobe BEHAVIOUR [ARG]   misbehaves as a whole
 * "-" is no CONTROL and no ARG; one more argument names the stack, for
 * whoever looks for its processes.
 */
#include "sandboxd/selftest/probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

#define EXIT_UNKNOWN 64

static void print_result(const struct probe *probe, int status)
{
    const int error = WEXITSTATUS(status);

    if (WIFSIGNALED(status))
        (void)printf("%s SIG%s\n", probe->name, sigabbrev_np(WTERMSIG(status)));
    else
        (void)printf("%s %s\n", probe->name, error == 0 ? "ok" : strerrorname_np(error));
}

static int try_one(const struct probe *probe)
{
    pid_t pid;
    int status;

    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        errno = 0;
        _exit(probe->run() < 0 ? errno : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    print_result(probe, status);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int try_all(const struct probe *probes, size_t count, const char *control)
{
    int code = 0;

    for (size_t i = 0; code == 0 && i < count; i++) {
        if (probe_is_deadly(&probes[i]) ||
            (control && strtoul(control, NULL, 10) != probes[i].control))
            continue;
        code = try_one(&probes[i]);
    }
    return code;
}

static int try_call(const char *name)
{
    size_t count;
    const struct probe *probes = probes_calls(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(probes[i].name, name) == 0)
            return try_one(&probes[i]);
    }
    return EXIT_UNKNOWN;
}

int main(int argc, char **argv)
{
    const char *argument = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
    size_t count;
    int code;

    if (argc < 2)
        return EXIT_UNKNOWN;
    if (strcmp(argv[1], "calls") == 0) {
        const struct probe *probes = probes_calls(&count);

        return try_all(probes, count, argument);
    }
    if (strcmp(argv[1], "places") == 0) {
        const struct probe *probes = probes_places(&count);

        return try_all(probes, count, argument);
    }
    if (strcmp(argv[1], "call") == 0)
        return try_call(argument ? argument : "");
    code = probe_behave(argv[1], argument ? argument : "");
    return code < 0 ? EXIT_UNKNOWN : code;
}
