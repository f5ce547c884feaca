/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/parked.h"

#include "common/auto.h"
#include "common/signals.h"
#include "sandboxd/init/adopt.h"
#include "sandboxd/init/leader.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/stat.h>

#define WORKSPACE "/workspace"
#define FILE_CREATION_MASK 022
#define FIRST_SPARE_FD 300
#define WRITTEN_MAX 8192

/* The ends of pipes and channel that the interpreter gets. */
struct ends {
    int stdio[3];
    int channel;
};

static int fail(struct sbx_program_failure *failure, enum sbx_stage stage, int error)
{
    *failure = (struct sbx_program_failure){.stage = (uint32_t)stage, .error = error};
    return -1;
}

/* ---- in the interpreter, before it is one ---- */

/* All go up first: one may have the number of another's target. */
static int place_fds(const struct ends *ends, int filter_fd)
{
    int moves[][2] = {
        {ends->stdio[0], 0},
        {ends->stdio[1], 1},
        {ends->stdio[2], 2},
        {ends->channel, SBX_TEMPLATE_FD_CONTROL},
        {filter_fd, SBX_TEMPLATE_FD_SECCOMP},
    };

    for (size_t i = 0; i < CR_ARRAY_SIZE(moves); i++) {
        moves[i][0] = fcntl(moves[i][0], F_DUPFD_CLOEXEC, FIRST_SPARE_FD);
        if (moves[i][0] < 0)
            return -errno;
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(moves); i++) {
        if (dup2(moves[i][0], moves[i][1]) < 0)
            return -errno;
    }
    if (close_range(3, SBX_TEMPLATE_FD_CONTROL - 1, 0) < 0 ||
        close_range(SBX_TEMPLATE_FD_CONTROL + 1, SBX_TEMPLATE_FD_SECCOMP - 1, 0) < 0)
        return -errno;
    return close_range(SBX_TEMPLATE_FD_SECCOMP + 1, INT_MAX, 0) < 0 ? -errno : 0;
}

/* The end of the channel says that one of these failed. */
_Noreturn static void become(const struct ends *ends, int payload_fd, int filter_fd)
{
    struct sbx_program_vectors vectors = {NULL, NULL};

    if (cr_signals_reset() < 0 || chdir(WORKSPACE) < 0 ||
        sbx_program_read_vectors(payload_fd, &vectors) < 0 || place_fds(ends, filter_fd) < 0)
        _exit(127);
    (void)umask(FILE_CREATION_MASK);
    (void)execve(vectors.argv[0], vectors.argv, vectors.envp);
    _exit(127);
}

/* ---- in sandbox-init ---- */

static void close_ends(struct ends *ends)
{
    for (int i = 0; i < 3; i++)
        cr_close_fd(&ends->stdio[i]);
    cr_close_fd(&ends->channel);
}

/* Three pipes of their own, by which it knows its streams later; only the last is read. */
static int open_ends(struct ends *ends, struct sbx_parked *parked)
{
    int pair[2];

    for (int i = 0; i < 3; i++) {
        CR_AUTO_CLOSE int ours = -1;

        if (pipe2(pair, O_CLOEXEC) < 0)
            return -errno;
        ends->stdio[i] = pair[i == 0 ? 0 : 1];
        ours = pair[i == 0 ? 1 : 0];
        if (i == 2)
            parked->words_fd = cr_take_fd(&ours);
    }
    if (fcntl(parked->words_fd, F_SETFL, O_NONBLOCK) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    parked->channel_fd = pair[0];
    ends->channel = pair[1];
    return 0;
}

static int begin(const struct sbx_parked *parked, enum sbx_template_kind kind)
{
    const struct sbx_template_msg msg = {.op = SBX_TEMPLATE_ALONE, .kind = (uint32_t)kind};

    return sbx_fds_send(parked->channel_fd, &msg, sizeof(msg), NULL, 0);
}

int sbx_parked_start(enum sbx_template_kind kind, int payload_fd, int filter_fd,
                     struct sbx_parked *ret_parked, struct sbx_program_failure *ret_failure)
{
    struct sbx_parked parked = SBX_PARKED_INIT;
    struct ends ends = {.stdio = {-1, -1, -1}, .channel = -1};
    int r = sbx_leader_use_up_pid();

    if (r == 0)
        r = open_ends(&ends, &parked);
    if (r == 0)
        r = begin(&parked, kind);
    if (r == 0) {
        parked.pid = fork();
        if (parked.pid == 0)
            become(&ends, payload_fd, filter_fd);
        r = parked.pid < 0 ? -errno : 0;
    }
    close_ends(&ends);
    if (r < 0) {
        cr_close_fd(&parked.channel_fd);
        cr_close_fd(&parked.words_fd);
        return fail(ret_failure, SBX_STAGE_CLONE, -r);
    }
    *ret_parked = parked;
    return 0;
}

/* `text`, and behind it the end of what it wrote on standard error, where its reason stands. */
static void gather_words(const struct sbx_parked *parked, const char *text,
                         char words[SBX_TEMPLATE_WORDS_MAX])
{
    char written[WRITTEN_MAX];
    ssize_t n = read(parked->words_fd, written, sizeof(written) - 1);
    size_t used = strnlen(text, SBX_TEMPLATE_TEXT_MAX - 1);
    size_t room = SBX_TEMPLATE_WORDS_MAX - 2 - used;
    const char *at = written;

    memcpy(words, text, used);
    if (n > 0) {
        words[used++] = ' ';
        if ((size_t)n > room)
            at += (size_t)n - room;
        n -= at - written;
        memcpy(words + used, at, (size_t)n);
        used += (size_t)n;
    }
    words[used] = '\0';
}

/* READY, or why not. */
static int hear_first(struct sbx_parked *parked, char words[SBX_TEMPLATE_WORDS_MAX])
{
    struct sbx_template_msg msg = {.text = ""};
    int r = sbx_fds_receive(parked->channel_fd, &msg, sizeof(msg), NULL, 0, 0);

    if (r == 0 && msg.op == SBX_TEMPLATE_READY) {
        parked->is_ready = true;
        return 0;
    }
    gather_words(parked, r == 0 ? msg.text : "", words);
    if (r == 0 && msg.op == SBX_TEMPLATE_FAILED && msg.error > 0)
        return -msg.error;
    return r < 0 ? r : -EPROTO;
}

int sbx_parked_hear(struct sbx_parked *parked, int *ret_listener_fd,
                    char ret_words[SBX_TEMPLATE_WORDS_MAX])
{
    int r;

    ret_words[0] = '\0';
    if (!parked->is_ready)
        return hear_first(parked, ret_words);
    r = sbx_adopt_await(parked->channel_fd, ret_listener_fd);
    return r < 0 ? r : 1;
}
