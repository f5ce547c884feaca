/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/init/place.h"

#include "common/auto.h"
#include "common/privilege.h"
#include "sandboxd/init/payload_map.h"
#include "sandboxd/init/program.h"
#include "sandboxd/init/unpack.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#define WORKSPACE "/workspace"
#define WORKSPACE_MODE_SHARED 01775
/* Exit codes of an unpacking child: 0, an errno, or this. */
#define UNPACK_HAS_READ_ONLY 255

enum unpack_role {
    UNPACK_FIRST,     /* the user of the program; writes nothing when a file is read-only */
    UNPACK_READ_ONLY, /* the user 0 without any capability, where there is one */
    UNPACK_REST,      /* the user of the program */
};

/* True where there is no user but the program's (`--rootless` without further ids): we are him. */
static bool is_alone(void)
{
    return geteuid() == SBX_PROGRAM_UID;
}

static int unpack(int workspace_fd, enum unpack_role role)
{
    /* A file beyond the size limit is EFBIG, not a signal. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sbx_payload_reader reader;
    int r;

    (void)sigaction(SIGXFSZ, &ignore, NULL);
    r = cr_privilege_drop(role == UNPACK_READ_ONLY && !is_alone() ? 0 : SBX_PROGRAM_UID,
                          SBX_PROGRAM_GID, NULL);
    if (r < 0)
        return r;
    (void)close(SBX_INIT_FD_CONTROL);
    r = sbx_payload_map(SBX_INIT_FD_PAYLOAD, &reader);
    if (r == 0 && role == UNPACK_FIRST)
        r = sbx_unpack_has_read_only(reader);
    if (r < 0)
        return r;
    if (r > 0)
        return -UNPACK_HAS_READ_ONLY;
    return sbx_unpack_files(reader, workspace_fd,
                            role == UNPACK_READ_ONLY ? SBX_UNPACK_READ_ONLY : SBX_UNPACK_WRITABLE);
}

/* Returns what unpack() returned in a child, or -EIO when the child died of a signal. */
static int unpack_in_child(int workspace_fd, enum unpack_role role)
{
    const pid_t pid = fork();
    int status;

    if (pid < 0)
        return -errno;
    if (pid == 0)
        _exit(-unpack(workspace_fd, role));
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/*
 * Read-only files: the workspace and their folders are taken from the program
 * (owner 0, its group, sticky), so that it can add files but neither remove
 * nor rename these, nor their folders; and the files belong to the user 0, so
 * that it cannot change their mode. Where there is no such user only their
 * mode is read-only, and the backend says so.
 */
int sbx_place_read_only(int workspace_fd)
{
    if (is_alone())
        return unpack_in_child(workspace_fd, UNPACK_READ_ONLY);
    if (fchown(workspace_fd, 0, SBX_PROGRAM_GID) < 0 ||
        fchmod(workspace_fd, WORKSPACE_MODE_SHARED) < 0)
        return -errno;
    return unpack_in_child(workspace_fd, UNPACK_READ_ONLY);
}

/* For a program that exists already and leaves the files to us. */
int sbx_place_files(void)
{
    CR_AUTO_CLOSE int workspace_fd =
        open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    if (workspace_fd < 0)
        return -errno;
    r = unpack_in_child(workspace_fd, UNPACK_FIRST);
    if (r != -UNPACK_HAS_READ_ONLY)
        return r;
    r = sbx_place_read_only(workspace_fd);
    return r < 0 ? r : unpack_in_child(workspace_fd, UNPACK_REST);
}
