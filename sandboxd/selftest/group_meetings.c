/* SPDX-License-Identifier: Apache-2.0 */

/* Programs that try to reach somebody: a listener of ours on the host, or another box. */
#include "common/auto.h"
#include "sandboxd/selftest/run.h"
#include "sandboxd/selftest/tester.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    HOST_LOOPBACK,
    HOST_ABSTRACT,
    BOX_LOOPBACK,
    BOX_ABSTRACT,
    BOX_PROCESSES,
    MEETING_COUNT,
};

static const struct {
    const char *id;
    const char *name;
    const char *expected;
    uint32_t control;
} meetings[MEETING_COUNT] = {
    [HOST_LOOPBACK] = {"L10", "reach-host-loopback", "0 ECONNREFUSED, no caller",
                       SBX_CONTROL_NETWORK},
    [HOST_ABSTRACT] = {"E71", "reach-host-abstract-socket", "0 ECONNREFUSED, no caller",
                       SBX_CONTROL_NETWORK},
    [BOX_LOOPBACK] = {"L17", "reach-other-box-loopback", "0 ECONNREFUSED", SBX_CONTROL_NETWORK},
    [BOX_ABSTRACT] = {"L17", "reach-other-box-abstract-socket", "0 ECONNREFUSED",
                      SBX_CONTROL_NETWORK},
    [BOX_PROCESSES] = {"L17", "see-other-box-processes", "1 none", SBX_CONTROL_PROC},
};

static size_t count_meetings(void)
{
    return MEETING_COUNT;
}

static void describe(size_t index, struct sbx_item *ret_item)
{
    *ret_item = (struct sbx_item){
        .id = meetings[index].id, .name = meetings[index].name, .control = meetings[index].control};
    (void)snprintf(ret_item->expected, sizeof(ret_item->expected), "%s", meetings[index].expected);
}

/* Runs a behaviour and gives the first line of its output; -1 after an error report. */
static int first_line(struct sbx_tester *tester, size_t index, const char *behaviour,
                      const char *argument, char *ret_line, size_t size)
{
    const struct sbx_spec spec = {.behaviour = behaviour, .argument = argument};
    struct sbx_reply reply;
    char problem[96];

    if (sbx_run(tester, &spec, &reply, problem, sizeof(problem)) < 0) {
        sbx_tester_report(tester, index, SBX_PROBE_ERROR, "%s", problem);
        return -1;
    }
    (void)snprintf(ret_line, size, "%.*s", (int)strcspn(reply.observed.out, "\n"),
                   reply.observed.out);
    sbx_reply_done(&reply);
    return 0;
}

/* The listener decides, and not what the program says. */
static void try_host(struct sbx_tester *tester, size_t first, int meeting, int listener,
                     const char *behaviour, const char *argument)
{
    CR_AUTO_CLOSE int caller = -1;
    char line[64];
    char seen[96];

    if (first_line(tester, first + (size_t)meeting, behaviour, argument, line, sizeof(line)) < 0)
        return;
    caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)snprintf(seen, sizeof(seen), "%s, %s", line, caller < 0 ? "no caller" : "a caller");
    sbx_tester_compare(tester, first + (size_t)meeting, seen);
}

static void reach_loopback(struct sbx_tester *tester, size_t first)
{
    CR_AUTO_CLOSE int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    char port[16];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (const struct sockaddr *)&address, size) < 0 || listen(listener, 4) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0) {
        sbx_tester_report(tester, first + HOST_LOOPBACK, SBX_PROBE_ERROR, "no listener: %s",
                          strerrordesc_np(errno));
        return;
    }
    (void)snprintf(port, sizeof(port), "%u", (unsigned int)ntohs(address.sin_port));
    try_host(tester, first, HOST_LOOPBACK, listener, "connect-port", port);
}

static void reach_abstract(struct sbx_tester *tester, size_t first)
{
    CR_AUTO_CLOSE int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[48];

    (void)snprintf(name, sizeof(name), "crisol-selftest-%d", getpid());
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
    if (bind(listener, (const struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) < 0 ||
        listen(listener, 4) < 0) {
        sbx_tester_report(tester, first + HOST_ABSTRACT, SBX_PROBE_ERROR, "no listener: %s",
                          strerrordesc_np(errno));
        return;
    }
    try_host(tester, first, HOST_ABSTRACT, listener, "connect-abstract", name);
}

static void try_box(struct sbx_tester *tester, size_t first, int meeting, const char *behaviour,
                    const char *argument)
{
    char line[64];

    if (first_line(tester, first + (size_t)meeting, behaviour, argument, line, sizeof(line)) == 0)
        sbx_tester_compare(tester, first + (size_t)meeting, line);
}

static void reach_box(struct sbx_tester *tester, size_t first)
{
    static const struct sbx_spec spec = {.behaviour = "listen", .argument = "meet"};
    struct sbx_background other;

    if (tester->stack->slots < 2 || sbx_background_start(tester, &spec, &other) < 0) {
        for (size_t i = BOX_LOOPBACK; i <= BOX_PROCESSES; i++)
            sbx_tester_report(tester, first + i, SBX_PROBE_ERROR, "there is no second box");
        return;
    }
    try_box(tester, first, BOX_LOOPBACK, "connect-port", "1025");
    try_box(tester, first, BOX_ABSTRACT, "connect-abstract", "meet");
    try_box(tester, first, BOX_PROCESSES, "count-processes", NULL);
    sbx_background_stop(&other);
}

static void run_meetings(struct sbx_tester *tester, size_t first)
{
    if (sbx_tester_wants(tester, SBX_CONTROL_NETWORK)) {
        reach_loopback(tester, first);
        reach_abstract(tester, first);
    }
    if (tester->only == SBX_EVERY_CONTROL)
        reach_box(tester, first);
}

const struct sbx_group sbx_group_meetings = {count_meetings, describe, run_meetings};
