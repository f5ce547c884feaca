/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The terminal of a program, between its two pipes: pid 1 of the box holds the
 * master and passes bytes on, which it never looks at. What is not taken at
 * one end holds back the other.
 */
#define SBX_TERMINAL_INPUT_MAX 4096U
#define SBX_TERMINAL_OUTPUT_MAX 16384U

struct sbx_terminal {
    int master_fd;
    int slave_fd;  /* kept: as long as somebody has it, the master does not report an end */
    int in_fd;     /* the pipe that what is typed comes from; -1: it has ended */
    int out_fd;    /* the pipe that all output goes to; -1: nobody reads it */
    bool must_end; /* the end of the input is to be typed */
    uint8_t input[SBX_TERMINAL_INPUT_MAX];
    size_t input_size;
    size_t input_at;
    uint8_t output[SBX_TERMINAL_OUTPUT_MAX];
    size_t output_size;
    size_t output_at;
};

#define SBX_TERMINAL_FDS 3U

/*
 * Takes the pipes from 0 and 1 and puts the terminal (`slave_fd`, closed) at 0
 * to 2, where the program gets what it starts with. Returns 0 or -errno.
 */
int sbx_terminal_open(struct sbx_terminal *ret_terminal, int master_fd, int slave_fd);

/* What to wait for: SBX_TERMINAL_FDS of them, in the order of sbx_terminal_pass(). */
void sbx_terminal_watch(const struct sbx_terminal *terminal, struct pollfd *ret_fds);

/* Passes on what can be, as poll(2) says. */
void sbx_terminal_pass(struct sbx_terminal *terminal, const struct pollfd *fds);

/* Everybody who wrote to it is dead: passes the rest on, up to a deadline. */
void sbx_terminal_drain(struct sbx_terminal *terminal);

/* Tells the program, by SIGWINCH, when it differs. */
void sbx_terminal_resize(const struct sbx_terminal *terminal, uint32_t columns, uint32_t rows);
