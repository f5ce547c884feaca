/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/path.h"

#include "common/auto.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum replay_action replay_path_parse(const char *method, const char *path, char *model, size_t room)
{
    static const struct {
        const char *name;
        enum replay_action action;
    } actions[] = {{":generateContent", REPLAY_ACTION_UNARY},
                   {":streamGenerateContent", REPLAY_ACTION_STREAM},
                   {":countTokens", REPLAY_ACTION_COUNT}};

    bool is_get = strcmp(method, "GET") == 0;
    const char *colon;

    model[0] = 0;
    if (strncmp(path, "/v1beta/models", 14) == 0)
        path += 14;
    else if (strncmp(path, "/v1/models", 10) == 0)
        path += 10;
    else
        return REPLAY_ACTION_NONE;
    if (!*path)
        return is_get ? REPLAY_ACTION_LIST : REPLAY_ACTION_NONE;
    if (*path++ != '/')
        return REPLAY_ACTION_NONE;
    colon = strchr(path, ':');
    (void)snprintf(model, room, "%.*s", (int)(colon ? colon - path : (ptrdiff_t)strlen(path)),
                   path);
    if (!colon)
        return is_get ? REPLAY_ACTION_GET : REPLAY_ACTION_NONE;
    for (size_t i = 0; i < CR_ARRAY_SIZE(actions); i++) {
        if (strcmp(colon, actions[i].name) == 0 && strcmp(method, "POST") == 0)
            return actions[i].action;
    }
    return REPLAY_ACTION_NONE;
}
