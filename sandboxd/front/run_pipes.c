/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/log.h"
#include "sandboxd/front/run_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/epoll.h>

#define REST_READS 16 /* of SBX_CHUNK_MAX: the largest pipe that a program can ask for */

/* Lets epoll report the pipe once; a failure shows as a pipe that is never read, so it ends here.
 */
void sbx_run_arm(struct sbx_execution *execution, enum sbx_source_kind kind)
{
    struct sbx_source *source = &execution->sources[kind];
    struct epoll_event event = {
        .events = (kind == SBX_SOURCE_STDIN ? EPOLLOUT : EPOLLIN) | EPOLLONESHOT,
        .data.ptr = source,
    };

    if (source->fd < 0)
        return;
    if (epoll_ctl(execution->host->epoll_fd, source->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
                  source->fd, &event) < 0)
        cr_log_error("watch a pipe execution=%s error=%s", execution->id, strerrordesc_np(errno));
    source->is_watched = true;
}

/* Takes what one read() of an output pipe gave; 0 bytes are its end. Returns true to go on. */
static bool feed_output(struct sbx_execution *execution, enum sbx_source_kind kind, size_t size)
{
    uint32_t stream = kind == SBX_SOURCE_STDOUT ? 1 : 2;
    struct sbx_output *output = &execution->outputs[stream - 1];
    bool is_over = false;
    bool has_piece;
    bool wants_more;
    uint64_t total;

    (void)pthread_mutex_lock(&execution->lock);
    if (size > 0)
        is_over = sbx_output_feed(output, execution->host->scratch, size);
    else
        sbx_output_end(output);
    wants_more = sbx_output_wants_more(output);
    has_piece = sbx_output_has_piece(output);
    total = output->total;
    (void)pthread_mutex_unlock(&execution->lock);
    if (has_piece)
        sbx_run_wake(execution);
    if (is_over)
        sbx_run_note_overflow(execution, stream, total);
    return wants_more;
}

/* What a pipe held when the backend was lost; who writes may still be dying, so it is bounded. */
void sbx_run_read_rest(struct sbx_execution *execution, enum sbx_source_kind kind)
{
    const struct sbx_source *source = &execution->sources[kind];

    for (int i = 0; source->fd >= 0 && i < REST_READS; i++) {
        ssize_t n = read(source->fd, execution->host->scratch, SBX_CHUNK_MAX);

        if (n <= 0)
            return;
        (void)feed_output(execution, kind, (size_t)n);
    }
}

/* One pipe; `ours` becomes non-blocking, the program's end stays as a program expects it. */
static int open_pipe(int *ours, int *theirs, bool is_input)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ours = ends[is_input ? 1 : 0];
    *theirs = ends[is_input ? 0 : 1];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* What tells the backend that nothing is to be collected, see wire/msg.h. */
static int leave_out_collect(struct sbx_execution *execution)
{
    int *fd = &execution->child_fds[SBX_SOURCE_COLLECT + 1];

    *fd = fcntl(execution->host->null_fd, F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? -errno : 0;
}

int sbx_run_open_pipes(struct sbx_execution *execution)
{
    for (size_t i = 0; i < SBX_SOURCE_COUNT; i++) {
        int r;

        if (i == SBX_SOURCE_COLLECT && execution->collector.count == 0)
            return leave_out_collect(execution);
        r = open_pipe(&execution->sources[i].fd, &execution->child_fds[i + 1],
                      i == SBX_SOURCE_STDIN);
        if (r < 0)
            return r;
    }
    return 0;
}

/* What came for an interactive program since. Returns false when there is nothing: *ret_is_over
 * tells whether nothing will come. */
static bool take_input(struct sbx_execution *execution, bool *ret_is_over)
{
    struct cr_buf *input = &execution->input;
    size_t size;

    free(execution->stdin_data);
    execution->stdin_data = NULL;
    execution->stdin_size = 0;
    execution->stdin_at = 0;
    (void)pthread_mutex_lock(&execution->lock);
    size = input->size;
    *ret_is_over = execution->is_input_closed || !execution->request.is_interactive;
    execution->stdin_data = size > 0 ? malloc(size) : NULL;
    if (execution->stdin_data) {
        memcpy(execution->stdin_data, input->data, size);
        execution->stdin_size = size;
        cr_buf_consume(input, size);
    }
    (void)pthread_mutex_unlock(&execution->lock);
    if (size > 0)
        sbx_run_wake(execution); /* there is room for more */
    return execution->stdin_size > 0;
}

/* The program reads no more: what comes is dropped. */
static void drop_input(struct sbx_execution *execution)
{
    (void)pthread_mutex_lock(&execution->lock);
    execution->is_input_closed = true;
    cr_buf_clear(&execution->input);
    (void)pthread_mutex_unlock(&execution->lock);
    sbx_run_wake(execution);
}

void sbx_run_write_stdin(struct sbx_execution *execution)
{
    struct sbx_source *source = &execution->sources[SBX_SOURCE_STDIN];
    bool is_over = false;

    while (source->fd >= 0) {
        ssize_t n;

        if (execution->stdin_at == execution->stdin_size && !take_input(execution, &is_over)) {
            if (!is_over)
                return; /* the next kick comes back here */
            break;
        }
        n = write(source->fd, execution->stdin_data + execution->stdin_at,
                  execution->stdin_size - execution->stdin_at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            sbx_run_arm(execution, SBX_SOURCE_STDIN);
            return;
        }
        if (n < 0) {
            drop_input(execution); /* EPIPE: the program does not read it */
            break;
        }
        execution->stdin_at += (size_t)n;
    }
    cr_close_fd(&source->fd);
    free(execution->stdin_data);
    execution->stdin_data = NULL;
    execution->stdin_size = 0;
    execution->stdin_at = 0;
}

/*
 * Reads a pipe: once while the program runs, so that one loud run cannot hold
 * up the others, and to its end when everything in the box is dead, which is
 * at most what a pipe holds.
 */
void sbx_run_read_pipe(struct sbx_execution *execution, enum sbx_source_kind kind)
{
    struct sbx_source *source = &execution->sources[kind];
    bool wants_more = true;

    while (source->fd >= 0) {
        ssize_t n = read(source->fd, execution->host->scratch, SBX_CHUNK_MAX);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            n = 0;
        if (kind == SBX_SOURCE_COLLECT)
            sbx_collector_feed(&execution->collector, execution->host->scratch, (size_t)n);
        else
            wants_more = feed_output(execution, kind, (size_t)n);
        if (n == 0)
            cr_close_fd(&source->fd);
        if (!sbx_run_is_final(execution))
            break;
    }
    if (source->fd >= 0 && (wants_more || sbx_run_is_final(execution)))
        sbx_run_arm(execution, kind);
}

void sbx_run_close_output(struct sbx_execution *execution, enum sbx_source_kind kind)
{
    if (execution->sources[kind].fd < 0)
        return;
    (void)feed_output(execution, kind, 0);
    cr_close_fd(&execution->sources[kind].fd);
}

/* Reads on where the call has made room. */
void sbx_run_resume(struct sbx_execution *execution)
{
    bool wants_more[2];

    (void)pthread_mutex_lock(&execution->lock);
    wants_more[0] = sbx_output_wants_more(&execution->outputs[0]);
    wants_more[1] = sbx_output_wants_more(&execution->outputs[1]);
    (void)pthread_mutex_unlock(&execution->lock);
    if (wants_more[0])
        sbx_run_arm(execution, SBX_SOURCE_STDOUT);
    if (wants_more[1])
        sbx_run_arm(execution, SBX_SOURCE_STDERR);
}
