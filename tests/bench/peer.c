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

#include <sys/wait.h>

#define OUTPUT_MAX 65536

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
    pid_t pid = -1;
    size_t size;
    int r;

    fill_argv(peer, number, numbered, argv);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    r = spawn(argv, folder, pair[1], &pid);
    (void)close(pair[1]);
    size = r == 0 ? read_all(pair[0], output) : 0;
    (void)close(pair[0]);
    if (r == 0 && waitpid(pid, &status, 0) != pid)
        r = -errno;
    elapsed_ns = cr_clock_mono_ns() - begin_ns;
    if (r == 0 && status == 0 && bench_question_is_right(question, output, size))
        return elapsed_ns;
    (void)fprintf(stderr, "bench: '%s' by %s ended with status %d, errno %d:\n%.*s\n",
                  question->name, peer->name, status, -r, (int)(size < 2000 ? size : 2000), output);
    return r < 0 ? r : -EPROTO;
}
