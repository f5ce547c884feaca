/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/stream_limits.h"

#include "sandboxd/wire/boxstream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/resource.h>

#define OOM_SCORE_PROGRAM "1000" /* before pid 1, whose last words tell how it ended */
#define OOM_SCORE_BOX "500"      /* the engine's, and the lowest that is possible */

static int set(__rlimit_resource_t resource, uint64_t value)
{
    const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

    return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

int sbx_stream_take_limits(const void *data)
{
    struct sbx_stream_limits limits;
    int r;

    memcpy(&limits, data, sizeof(limits));
    r = set(RLIMIT_STACK, limits.stack_bytes);
    if (r == 0)
        r = set(RLIMIT_FSIZE, limits.file_size_bytes);
    return r == 0 ? set(RLIMIT_NOFILE, limits.open_files) : r;
}

/* Best effort: only a dumpable process may write to files of its own in /proc, and at this moment
 * no other process runs here to look into this one. */
static void set_oom_score(const char *score)
{
    int fd;

    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, score, strlen(score));
    (void)close(fd);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void sbx_stream_raise_oom_score(void)
{
    set_oom_score(OOM_SCORE_PROGRAM);
}

void sbx_stream_lower_oom_score(void)
{
    set_oom_score(OOM_SCORE_BOX);
}
