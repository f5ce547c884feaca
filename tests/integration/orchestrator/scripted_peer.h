/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A TCP server that plays raw bytes, one script line per request, for what no
 * honest HTTP server would do. One thread; requests are taken one after the
 * other and kept for the test to look at.
 */
enum peer_after {
    PEER_CLOSE, /* FIN */
    PEER_RESET, /* RST */
    PEER_HOLD,  /* says nothing more and keeps the connection until the end of the test */
    PEER_KEEP,  /* the next line is for the next request on this connection */
};

struct peer_line {
    const char *bytes; /* NULL: none */
    size_t size;       /* 0: up to the NUL */
    uint32_t repeat;   /* how often `bytes` are sent; 0: once */
    size_t step;       /* bytes per write; 0: all */
    uint32_t delay_ms; /* between two writes */
    enum peer_after after;
};

#define PEER_REQUESTS_MAX 16

struct peer {
    const struct peer_line *lines;
    size_t line_count;
    int listen_fd;
    int stop_fd;
    uint16_t port;
    pthread_t thread;
    int held[PEER_REQUESTS_MAX];
    size_t held_count;
    char *requests[PEER_REQUESTS_MAX]; /* head and body; the first `request_count` may be read */
    atomic_size_t request_count;
    size_t connections[PEER_REQUESTS_MAX]; /* on which each request came: 1, 2, 3, … */
    size_t connection_count;               /* accepted; the thread's */
};

/* Serves on a free port of 127.0.0.1. What comes after the last line is closed unread. */
void peer_start(struct peer *peer, const struct peer_line *lines, size_t line_count);

/* Ends the thread and every connection; the requests stay. */
void peer_stop(struct peer *peer);

void peer_done(struct peer *peer);
