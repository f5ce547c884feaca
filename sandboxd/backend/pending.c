/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/pending.h"

#include "sandboxd/backend/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_MAX 4096

/* proc(5): a mask in hexadecimal digits. What was sent to a process as a whole is in the second;
 * the kernel adds a SIGKILL to those of each thread. */
int sbx_pending_parse(const char *text, bool *ret_is_killed)
{
    static const char *const keys[] = {"\nSigPnd:", "\nShdPnd:"};
    bool is_killed = false;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *at = strstr(text, keys[i]);
        char *end = NULL;
        uint64_t mask;

        if (!at)
            return -EPROTO;
        at += strlen(keys[i]);
        mask = strtoull(at, &end, 16);
        if (end == at || *end != '\n')
            return -EPROTO;
        is_killed = is_killed || (mask & UINT64_C(1) << (SIGKILL - 1)) != 0;
    }
    *ret_is_killed = is_killed;
    return 0;
}

bool sbx_pending_has_kill(int proc_fd, pid_t pid)
{
    const char *const folder = proc_fd == AT_FDCWD ? "/proc/" : "";
    char text[STATUS_MAX];
    char path[64];
    bool is_killed = false;

    (void)snprintf(path, sizeof(path), "%s%d/status", folder, (int)pid);
    return sbx_cgroup_read(proc_fd, path, text, sizeof(text)) == 0 &&
           sbx_pending_parse(text, &is_killed) == 0 && is_killed;
}
