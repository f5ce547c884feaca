/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "clients/gemini-replay/hostile_cases.h"
#include "clients/gemini-replay/hostile_play.h"

#include <stdbool.h>

/* One connection of the hostile server: a request is read, an answer played, and that is it. */
enum hostile_phase {
    HOSTILE_READING,
    HOSTILE_PLAYING,
    HOSTILE_HOLDING, /* until the client leaves */
    HOSTILE_GONE,
};

struct hostile_connection {
    int fd;
    enum hostile_phase phase;
    struct cr_buf request;
    struct hostile_play play;
    enum hostile_after after;
    int64_t delay_ns;
    int64_t due_ns; /* of the next write */
    size_t cut;     /* of `start`: the write that comes next */
    size_t at;      /* bytes of the part that is being sent */
    uint32_t filled;
};

/* What a request asks for, as pieces of its bytes. */
struct hostile_request {
    bool is_post;
    const char *model; /* behind "/models/"; NULL: the list of them */
    size_t model_size;
    char key[128];
};

/* Takes the fd. */
void hostile_connection_init(struct hostile_connection *connection, int take_fd);

/* Closes, in the way that the case wants. */
void hostile_connection_done(struct hostile_connection *connection);

/* Reads what is there. True: the request is whole. */
bool hostile_connection_read(struct hostile_connection *connection);

/* The client left, or the answer is over. */
void hostile_connection_write(struct hostile_connection *connection);

/* What the whole request asks for. False: it is none that is known here. */
bool hostile_connection_parse(const struct hostile_connection *connection,
                              struct hostile_request *ret_request);
