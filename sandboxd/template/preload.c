/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The part of a template that lies in its interpreter. The loader brings it
 * in before the interpreter's main(); a hook of the interpreter calls it when
 * everything is as it is right before a program begins, with no frame of
 * Python code below. So what a program sees is what it would see without it.
 */
#include "sandboxd/template/preload.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/patience.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/template/python.h"
#include "sandboxd/wire/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LOADER_VARIABLE "LD_PRELOAD="
#define SCRATCH_OPTIONS "size=16m,mode=1777"

/* The hook has no other way to it. */
static struct sbx_preload the_preload = {.trial_fd = -1}; // NOLINT: one interpreter

_Noreturn void sbx_preload_fail(const char *step, int error)
{
    struct sbx_template_msg msg = {.op = SBX_TEMPLATE_FAILED, .error = error};

    (void)snprintf(msg.text, sizeof(msg.text), "%s", step);
    (void)send(SBX_TEMPLATE_FD_CONTROL, &msg, sizeof(msg), MSG_NOSIGNAL);
    _exit(1);
}

/* Programs must not get it, nor see it among the first variables of the process. */
static void take_variable(void)
{
    char **environment = environ;
    size_t kept = 0;

    for (size_t i = 0; environment[i]; i++) {
        if (strncmp(environment[i], LOADER_VARIABLE, strlen(LOADER_VARIABLE)) == 0)
            memset(environment[i], 0, strlen(environment[i]));
        else
            environment[kept++] = environment[i];
    }
    environment[kept] = NULL;
}

static void take_fds(const struct sbx_preload *preload)
{
    for (int fd = SBX_TEMPLATE_FD_CONTROL; fd < SBX_TEMPLATE_FD_IMAGE; fd++) {
        bool is_missing = preload->is_alone && fd == SBX_TEMPLATE_FD_INIT;

        if (!is_missing && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            sbx_preload_fail("take its fds", errno);
    }
    (void)close(SBX_TEMPLATE_FD_IMAGE); /* it is mapped, or there is none */
}

static void begin(struct sbx_preload *preload)
{
    struct sbx_template_msg msg;
    int r = sbx_fds_receive(SBX_TEMPLATE_FD_CONTROL, &msg, sizeof(msg), NULL, 0, 0);

    if (r < 0 || (msg.op != SBX_TEMPLATE_BEGIN && msg.op != SBX_TEMPLATE_ALONE) ||
        msg.kind >= SBX_TEMPLATE_KIND_COUNT)
        sbx_preload_fail("be told its kind", r < 0 ? -r : EPROTO);
    preload->kind = msg.kind;
    preload->is_alone = msg.op == SBX_TEMPLATE_ALONE;
    preload->places = msg.places;
    cr_patience_set(msg.slowness);
    for (int i = 0; i < 3; i++) {
        struct stat stat;

        if (fstat(i, &stat) < 0)
            sbx_preload_fail("look at its streams", errno);
        preload->streams[i] =
            (struct sbx_preload_stream){.device = stat.st_dev, .inode = stat.st_ino};
    }
}

/* A user namespace for each place, below the template's own. */
static void make_users(const struct sbx_preload *preload)
{
    for (uint32_t i = 0; i < preload->places; i++) {
        struct cr_err err = CR_ERR_INIT;
        int fd = -1;

        if (sbx_userns_make(SBX_TEMPLATE_PLACE_ID(i), &fd, &err) < 0)
            sbx_preload_fail(err.text, -err.code);
        if (dup3(fd, SBX_TEMPLATE_FD_USERNS + (int)i, O_CLOEXEC) < 0)
            sbx_preload_fail("keep a user namespace", errno);
        (void)close(fd);
    }
}

/* Folders to write in until it serves; one that is alone has those of its container, and leaves
 * them as they were. */
static void make_scratch(const struct sbx_preload *preload)
{
    CR_AUTO_CLOSE int fd = -1;

    if (!preload->is_alone &&
        (mount("scratch", "/workspace", "tmpfs", MS_NOSUID | MS_NODEV, SCRATCH_OPTIONS) < 0 ||
         mount("scratch", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, SCRATCH_OPTIONS) < 0))
        sbx_preload_fail("make a folder to work in", errno);
    if (chdir("/workspace") < 0)
        sbx_preload_fail("enter the folder to work in", errno);
    if (preload->kind != SBX_TEMPLATE_PYTHON)
        return;
    fd = openat(AT_FDCWD, SBX_PRELOAD_ENTRY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd < 0)
        sbx_preload_fail("make a program that is never run", errno);
}

static int on_event(const char *event, PyObject *args, void *user)
{
    struct sbx_preload *preload = user;
    bool is_python = preload->kind == SBX_TEMPLATE_PYTHON;

    (void)args;
    if (preload->is_done ||
        strcmp(event, is_python ? "cpython.run_file" : "cpython.run_module") != 0)
        return 0;
    preload->is_done = true;
    if (!is_python)
        return sbx_preload_run_pytest(preload);
    if (sbx_preload_serve(preload) == SBX_PRELOAD_FAILED)
        return -1;
    return sbx_preload_add_args(preload);
}

__attribute__((constructor)) static void load(void)
{
    take_variable();
    begin(&the_preload);
    take_fds(&the_preload);
    make_users(&the_preload);
    make_scratch(&the_preload);
    if (PySys_AddAuditHook(on_event, &the_preload) < 0)
        sbx_preload_fail("hook into the interpreter", 0);
}
