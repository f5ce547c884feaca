/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/engine_import.h"

#include "common/err.h"
#include "sandboxd/builder/tool.h"

#include <limits.h>
#include <stdio.h>

#define TAG_SIZE 16

int sbx_import_root(const struct sbx_build *build, const char *digest, const char *socket,
                    struct cr_err *err)
{
    char archive[PATH_MAX];
    char url[256];
    const char *const pack[] = {"/usr/bin/tar", "--create",  "--file", archive, "--numeric-owner",
                                "--directory",  build->root, ".",      NULL};
    /* --fail: what the engine says against it is in the log, and the exit code says that it did. */
    const char *const send[] = {"/usr/bin/curl",
                                "--silent",
                                "--show-error",
                                "--fail-with-body",
                                "--unix-socket",
                                socket,
                                "--request",
                                "POST",
                                "--header",
                                "Content-Type: application/x-tar",
                                "--upload-file",
                                archive,
                                url,
                                NULL};
    struct sbx_tool tool = {.argv = pack,
                            .folder = build->folder,
                            .output_fd = build->output_fd,
                            .deadline_ns = build->deadline_ns};
    int r;

    (void)snprintf(archive, sizeof(archive), "%s/image.tar", build->folder);
    (void)snprintf(url, sizeof(url),
                   "http://docker/images/create?fromSrc=-&repo=" SBX_IMPORT_REPOSITORY "&tag=%.*s",
                   TAG_SIZE, digest);
    r = sbx_tool_run(&tool, err);
    tool.argv = send;
    if (r == 0)
        r = sbx_tool_run(&tool, err);
    return r < 0 ? cr_err_wrap(err, "import into the docker engine at '%s'", socket) : 0;
}
