/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/terminal.h"

#include "common/auto.h"
#include "common/clock.h"
#include "sandboxd/wire/boxctl.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/ioctl.h>

/* Above every number of boxctl.h, and low: a program may be limited to 16 open files. */
#define FIRST_FREE_FD (SBX_INIT_FD_SLAVE + 1)
#define DRAIN_NS (2 * CR_NS_PER_S)
#define END_OF_INPUT 4 /* ^D: VEOF of a new terminal */

static int move_up(int fd)
{
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);

    if (moved < 0 || fcntl(moved, F_SETFL, O_NONBLOCK | fcntl(moved, F_GETFL)) < 0)
        return -errno;
    return moved;
}

int sbx_terminal_open(struct sbx_terminal *ret_terminal, int master_fd, int slave_fd)
{
    struct sbx_terminal terminal = {.master_fd = move_up(master_fd),
                                    .slave_fd = fcntl(slave_fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD),
                                    .in_fd = move_up(STDIN_FILENO),
                                    .out_fd = move_up(STDOUT_FILENO)};

    if (terminal.master_fd < 0 || terminal.slave_fd < 0 || terminal.in_fd < 0 ||
        terminal.out_fd < 0)
        return -EMFILE;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (dup2(slave_fd, fd) < 0)
            return -errno;
    }
    (void)close(master_fd);
    (void)close(slave_fd);
    *ret_terminal = terminal;
    return 0;
}

static bool has_input(const struct sbx_terminal *terminal)
{
    return terminal->input_at < terminal->input_size;
}

static bool has_output(const struct sbx_terminal *terminal)
{
    return terminal->output_at < terminal->output_size;
}

void sbx_terminal_watch(const struct sbx_terminal *terminal, struct pollfd *ret_fds)
{
    short master = has_input(terminal) || terminal->must_end ? POLLOUT : 0;

    if (!has_output(terminal))
        master |= POLLIN;
    /* One that waits for nothing would report its end again and again. */
    ret_fds[0] =
        (struct pollfd){.fd = has_input(terminal) ? -1 : terminal->in_fd, .events = POLLIN};
    ret_fds[1] = (struct pollfd){.fd = master ? terminal->master_fd : -1, .events = master};
    ret_fds[2] =
        (struct pollfd){.fd = has_output(terminal) ? terminal->out_fd : -1, .events = POLLOUT};
}

static bool is_passing(ssize_t result)
{
    return result < 0 && (errno == EAGAIN || errno == EINTR);
}

static void read_input(struct sbx_terminal *terminal)
{
    const ssize_t size = read(terminal->in_fd, terminal->input, sizeof(terminal->input));

    if (is_passing(size))
        return;
    if (size <= 0) {
        cr_close_fd(&terminal->in_fd);
        terminal->must_end = true;
        return;
    }
    terminal->input_at = 0;
    terminal->input_size = (size_t)size;
}

static void write_input(struct sbx_terminal *terminal)
{
    static const uint8_t end = END_OF_INPUT;
    const uint8_t *data = has_input(terminal) ? terminal->input + terminal->input_at : &end;
    const size_t size = has_input(terminal) ? terminal->input_size - terminal->input_at : 1;
    const ssize_t written = write(terminal->master_fd, data, size);

    if (is_passing(written))
        return;
    if (!has_input(terminal))
        terminal->must_end = false;
    else
        terminal->input_at += written > 0 ? (size_t)written : size; /* nobody is there to read it */
}

/* Returns false at its end, and while there is nothing. */
static bool read_output(struct sbx_terminal *terminal)
{
    const ssize_t size = read(terminal->master_fd, terminal->output, sizeof(terminal->output));

    if (size <= 0)
        return false; /* EIO: its end */
    terminal->output_at = 0;
    terminal->output_size = (size_t)size;
    return true;
}

static void write_output(struct sbx_terminal *terminal)
{
    const ssize_t written = write(terminal->out_fd, terminal->output + terminal->output_at,
                                  terminal->output_size - terminal->output_at);

    if (is_passing(written))
        return;
    if (written < 0)
        cr_close_fd(&terminal->out_fd);
    terminal->output_at =
        written < 0 ? terminal->output_size : terminal->output_at + (size_t)written;
}

void sbx_terminal_pass(struct sbx_terminal *terminal, const struct pollfd *fds)
{
    if (fds[0].revents)
        read_input(terminal);
    if (fds[1].revents & POLLOUT)
        write_input(terminal);
    if ((fds[1].revents & POLLIN) && !has_output(terminal))
        (void)read_output(terminal);
    if (fds[2].revents)
        write_output(terminal);
    if (has_output(terminal) && terminal->out_fd < 0)
        terminal->output_at = terminal->output_size;
}

void sbx_terminal_drain(struct sbx_terminal *terminal)
{
    const int64_t end_ns = cr_clock_mono_ns() + DRAIN_NS;

    cr_close_fd(&terminal->slave_fd);
    while (terminal->out_fd >= 0 && (has_output(terminal) || read_output(terminal))) {
        struct pollfd room = {.fd = terminal->out_fd, .events = POLLOUT};
        const int64_t left_ns = end_ns - cr_clock_mono_ns();

        if (left_ns <= 0 || poll(&room, 1, (int)(left_ns / CR_NS_PER_MS) + 1) <= 0)
            return;
        write_output(terminal);
    }
}

void sbx_terminal_resize(const struct sbx_terminal *terminal, uint32_t columns, uint32_t rows)
{
    const struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};

    (void)ioctl(terminal->master_fd, TIOCSWINSZ, &size);
}
