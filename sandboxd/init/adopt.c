/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/adopt.h"

#include "common/auto.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/resource.h>

const int sbx_adopt_places[SBX_INIT_LOAD_FDS] = {SBX_INIT_FD_PAYLOAD, 0, 1, 2};

/* Those that the backend sets for a box; the others are the same for everybody. */
static const int limits[SBX_ADOPT_LIMITS] = {
    RLIMIT_CORE,   RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_NICE,
    RLIMIT_RTPRIO, RLIMIT_STACK,   RLIMIT_FSIZE,    RLIMIT_NOFILE,
};

int sbx_adopt_load(bool *ret_is_go)
{
    struct sbx_init_msg msg;
    int fds[SBX_INIT_LOAD_FDS] = {-1, -1, -1, -1};
    int r = sbx_fds_receive(SBX_INIT_FD_CONTROL, &msg, sizeof(msg), fds, SBX_INIT_LOAD_FDS, 0);

    if (r >= 0 &&
        (r != SBX_INIT_LOAD_FDS || (msg.event != SBX_INIT_LOAD && msg.event != SBX_INIT_LOAD_GO)))
        r = -EPROTO;
    /* All places are taken while the fds come, so none of them is a place itself. */
    for (int i = 0; i < SBX_INIT_LOAD_FDS; i++) {
        int flags = sbx_adopt_places[i] == SBX_INIT_FD_PAYLOAD ? O_CLOEXEC : 0;

        if (r >= 0 && dup3(fds[i], sbx_adopt_places[i], flags) < 0)
            r = -errno;
        cr_close_fd(&fds[i]);
    }
    if (r < 0)
        return r;
    *ret_is_go = msg.event == SBX_INIT_LOAD_GO;
    return 0;
}

int sbx_adopt_await(int channel_fd, int *ret_listener_fd)
{
    struct sbx_adopt_hello hello;
    int r = sbx_fds_receive(channel_fd, &hello, sizeof(hello), ret_listener_fd, 1, 0);

    if (r < 0)
        return r;
    return hello.version == SBX_ADOPT_VERSION ? 0 : -EPROTO;
}

static int fail(struct sbx_program_failure *failure, enum sbx_stage stage, int error)
{
    *failure = (struct sbx_program_failure){.stage = (uint32_t)stage, .error = error};
    return -1;
}

/* Ours came with LOAD at the latest; until now the program has those of its template. */
static int read_limits(struct sbx_adopt_go *go)
{
    for (size_t i = 0; i < SBX_ADOPT_LIMITS; i++) {
        struct rlimit own;

        if (getrlimit((__rlimit_resource_t)limits[i], &own) < 0)
            return -errno;
        go->limits[i].resource = (uint32_t)limits[i];
        go->limits[i].soft = own.rlim_cur;
        go->limits[i].hard = own.rlim_max;
    }
    return 0;
}

/* The program closes its end when it has what it needs. */
static int await_taken(int channel_fd, struct sbx_program_failure *failure)
{
    struct sbx_adopt_failure answer;
    int r = sbx_fds_receive(channel_fd, &answer, sizeof(answer), NULL, 0, 0);

    if (r == -EPIPE)
        return 0;
    if (r < 0)
        return fail(failure, SBX_STAGE_INIT, -r);
    return fail(failure, (enum sbx_stage)answer.stage, answer.error);
}

int sbx_adopt_start(int channel_fd, const int fds[SBX_INIT_LOAD_FDS],
                    struct sbx_program_failure *ret_failure)
{
    struct sbx_adopt_go go = {.version = SBX_ADOPT_VERSION};
    int r = read_limits(&go);

    if (r < 0) {
        r = fail(ret_failure, SBX_STAGE_LIMITS, -r);
    } else {
        r = sbx_fds_send(channel_fd, &go, sizeof(go), fds, SBX_INIT_LOAD_FDS);
        r = r < 0 ? fail(ret_failure, SBX_STAGE_INIT, -r) : await_taken(channel_fd, ret_failure);
    }
    (void)close(channel_fd);
    return r;
}
