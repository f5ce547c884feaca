/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/peer.h"

#include "common/auto.h"
#include "common/clock.h"
#include "tests/bench/question.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define OUTPUT_MAX 65536
#define SERVER_PREFIX "unix:"

static int cut(struct bench_peer *peer)
{
    char *save = NULL;
    size_t count = 0;

    for (char *word = strtok_r(peer->text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (count == BENCH_WORDS_MAX - 1)
            return -E2BIG;
        if (strstr(word, "{n}"))
            peer->number_word = word;
        peer->argv[count++] = word;
    }
    return count > 0 ? 0 : -EINVAL;
}

int bench_peer_parse(const char *text, size_t most, struct bench_peer *ret_peer)
{
    const char *equals = strchr(text, '=');
    struct bench_peer peer = {.text = equals ? strdup(equals + 1) : NULL};
    int r = -EINVAL;

    if (equals && (size_t)(equals - text) < sizeof(peer.name) && peer.text) {
        memcpy(peer.name, text, (size_t)(equals - text));
        r = cut(&peer);
    }
    if (r == 0)
        r = bench_samples_init(&peer.samples, most);
    if (r < 0) {
        (void)fprintf(stderr, "bench: '%s' is no peer: NAME=COMMAND\n", text);
        free(peer.text);
        return r;
    }
    *ret_peer = peer;
    return 0;
}

void bench_peer_done(struct bench_peer *peer)
{
    free(peer->text);
    bench_samples_done(&peer->samples);
}

/* The argv of one call; `numbered` has room for the word with the number. */
static void fill_argv(const struct bench_peer *peer, uint32_t number, char numbered[static 256],
                      char **ret_argv)
{
    for (size_t i = 0; i < BENCH_WORDS_MAX; i++) {
        ret_argv[i] = peer->argv[i];
        if (ret_argv[i] && ret_argv[i] == peer->number_word) {
            const char *mark = strstr(ret_argv[i], "{n}");

            (void)snprintf(numbered, 256, "%.*s%" PRIu32 "%s", (int)(mark - ret_argv[i]),
                           ret_argv[i], number, mark + 3);
            ret_argv[i] = numbered;
        }
    }
}

static int spawn(char **argv, const char *folder, int output_fd, pid_t *ret_pid)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    char *const environment[] = {path, NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);

    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, output_fd, 1);
    if (r == 0 && folder)
        r = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (r == 0)
        r = posix_spawn(ret_pid, argv[0], &actions, NULL, argv, environment);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static size_t read_all(int fd, char *output)
{
    size_t size = 0;
    ssize_t n;

    while (size < OUTPUT_MAX && (n = read(fd, output + size, OUTPUT_MAX - size)) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        size += n > 0 ? (size_t)n : 0;
    }
    return size;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -errno;
}

/* Asks a fork server for a child whose standard output is this fd: one byte, and the fd. */
static int ask(int server_fd, int output_fd)
{
    char byte = 0;
    struct iovec vector = {.iov_base = &byte, .iov_len = 1};

    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    const struct msghdr message = {.msg_iov = &vector,
                                   .msg_iovlen = 1,
                                   .msg_control = &control,
                                   .msg_controllen = sizeof(control)};

    control.header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &output_fd, sizeof(output_fd));
    return sendmsg(server_fd, &message, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

/* The wait status that the fork server sends once its child has been reaped. */
static int receive_status(int server_fd, int *ret_status)
{
    ssize_t n = recv(server_fd, ret_status, sizeof(*ret_status), 0);

    if (n == (ssize_t)sizeof(*ret_status))
        return 0;
    return n < 0 ? -errno : -EPROTO;
}

/* As spawn, read_all and waitpid, by a child of a process that has done its start-up ahead. */
static int fork_by_server(const char *path, const int pair[2], char *output, size_t *ret_size,
                          int *ret_status)
{
    CR_AUTO_CLOSE int server_fd = connect_to(path);
    int r = server_fd < 0 ? server_fd : ask(server_fd, pair[1]);

    (void)close(pair[1]);
    *ret_size = r == 0 ? read_all(pair[0], output) : 0;
    (void)close(pair[0]);
    return r == 0 ? receive_status(server_fd, ret_status) : r;
}

static int run_command(char **argv, const char *folder, const int pair[2], char *output,
                       size_t *ret_size, int *ret_status)
{
    pid_t pid = -1;
    int r = spawn(argv, folder, pair[1], &pid);

    (void)close(pair[1]);
    *ret_size = r == 0 ? read_all(pair[0], output) : 0;
    (void)close(pair[0]);
    return r == 0 && waitpid(pid, ret_status, 0) != pid ? -errno : r;
}

int64_t bench_peer_run(const struct bench_peer *peer, const struct bench_question *question,
                       const char *folder, uint32_t number)
{
    static char output[OUTPUT_MAX]; /* too large for the stack, and there is one thread */
    char *argv[BENCH_WORDS_MAX];
    char numbered[256];
    int64_t begin_ns = cr_clock_mono_ns();
    int64_t elapsed_ns;
    int pair[2];
    int status = -1;
    size_t size = 0;
    int r;

    fill_argv(peer, number, numbered, argv);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    if (strncmp(argv[0], SERVER_PREFIX, strlen(SERVER_PREFIX)) == 0)
        r = fork_by_server(argv[0] + strlen(SERVER_PREFIX), pair, output, &size, &status);
    else
        r = run_command(argv, folder, pair, output, &size, &status);
    elapsed_ns = cr_clock_mono_ns() - begin_ns;
    if (r == 0 && status == 0 && bench_question_is_right(question, output, size))
        return elapsed_ns;
    (void)fprintf(stderr, "bench: '%s' by %s ended with status %d, errno %d:\n%.*s\n",
                  question->name, peer->name, status, -r, (int)(size < 2000 ? size : 2000), output);
    return r < 0 ? r : -EPROTO;
}
