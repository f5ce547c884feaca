/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sandboxd/docker/fake_engine.h"

#include "common/auto.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/un.h>

/* The head is all there is to a request without a body. */
static void read_head(int fd)
{
    char head[4096];
    size_t size = 0;

    while (size < sizeof(head) - 1) {
        ssize_t n = recv(fd, head + size, sizeof(head) - 1 - size, 0);

        if (n <= 0)
            return;
        size += (size_t)n;
        head[size] = '\0';
        if (strstr(head, "\r\n\r\n"))
            return;
    }
}

static void serve_one(const struct fake_engine *engine, int fd)
{
    char byte;

    read_head(fd);
    if (!engine->answer)
        (void)!recv(fd, &byte, 1, 0); /* until the caller gives up */
    else
        (void)send(fd, engine->answer, strlen(engine->answer), MSG_NOSIGNAL);
}

static void *serve(void *user)
{
    const struct fake_engine *engine = user;

    for (;;) {
        struct pollfd fds[] = {{.fd = engine->listen_fd, .events = POLLIN},
                               {.fd = engine->stop_fds[0], .events = POLLIN}};
        CR_AUTO_CLOSE int fd = -1;

        if (poll(fds, CR_ARRAY_SIZE(fds), -1) < 0 || fds[1].revents)
            return NULL;
        fd = accept4(engine->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL; /* a test shut the socket down */
        serve_one(engine, fd);
    }
}

void fake_engine_start(struct fake_engine *engine, const char *answer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *engine = (struct fake_engine){.answer = answer};
    test_folder_make(engine->folder, sizeof(engine->folder));
    (void)snprintf(engine->path, sizeof(engine->path), "%s/s", engine->folder);
    engine->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(engine->listen_fd >= 0);
    memcpy(address.sun_path, engine->path, strlen(engine->path) + 1);
    assert_int_equal(bind(engine->listen_fd, (const struct sockaddr *)&address, sizeof(address)),
                     0);
    assert_int_equal(listen(engine->listen_fd, 8), 0);
    assert_int_equal(pipe(engine->stop_fds), 0);
    assert_int_equal(pthread_create(&engine->thread, NULL, serve, engine), 0);
}

void fake_engine_stop(struct fake_engine *engine)
{
    assert_int_equal(write(engine->stop_fds[1], "x", 1), 1);
    (void)pthread_join(engine->thread, NULL);
    (void)close(engine->stop_fds[0]);
    (void)close(engine->stop_fds[1]);
    (void)close(engine->listen_fd);
    (void)unlink(engine->path);
    (void)rmdir(engine->folder);
}
