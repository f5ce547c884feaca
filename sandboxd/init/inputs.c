/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/inputs.h"

#include "common/auto.h"
#include "common/privilege.h"
#include "sandboxd/init/payload_map.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/unpack.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

#define WORKSPACE "/workspace"

/* Reads the payload; never returns to the loop. The relay has written the read-only files: they
 * belong to another user. Where it cannot, they are the program's own, and only their mode is. */
static int unpack(int payload_fd, bool has_read_only)
{
    CR_AUTO_CLOSE int folder = open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sbx_payload_reader reader = {0};
    int r = folder < 0 ? -errno : cr_privilege_drop(SBX_PROGRAM_UID, SBX_PROGRAM_GID, NULL);

    /* A file beyond the size limit is EFBIG, not a signal. */
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    if (r < 0)
        return r;
    r = sbx_payload_map(payload_fd, &reader);
    if (r == 0 && has_read_only)
        r = sbx_unpack_files(reader, folder, SBX_UNPACK_READ_ONLY);
    return r < 0 ? r : sbx_unpack_files(reader, folder, SBX_UNPACK_WRITABLE);
}

int sbx_inputs_unpack(int payload_fd, bool has_read_only)
{
    const pid_t pid = fork();
    int status;

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        (void)close(STDIN_FILENO);
        (void)close(STDOUT_FILENO);
        /* Nor a program that waits already. */
        if (payload_fd > STDERR_FILENO + 1)
            (void)close_range(STDERR_FILENO + 1, (unsigned int)payload_fd - 1, 0);
        (void)close_range((unsigned int)payload_fd + 1, ~0U, 0);
        _exit(-unpack(payload_fd, has_read_only));
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}
