/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Which path, and what of it. */
enum replay_action {
    REPLAY_ACTION_NONE,
    REPLAY_ACTION_LIST,   /* GET models */
    REPLAY_ACTION_GET,    /* GET models/{m} */
    REPLAY_ACTION_UNARY,  /* POST models/{m}:generateContent */
    REPLAY_ACTION_STREAM, /* POST models/{m}:streamGenerateContent */
    REPLAY_ACTION_COUNT,  /* POST models/{m}:countTokens */
};

/* Splits "/v1beta/models/m:action". `model` gets the name in between. */
enum replay_action replay_path_parse(const char *method, const char *path, char *model,
                                     size_t room);
