/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/state.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/builder/tree.h"
#include "sandboxd/supervisor/registered.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#define LOCK ".lock"
#define BUILD ".build-"
#define OLD ".old-"

static int open_folder(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* True when no sandboxd holds its lock; it is removed then. */
static bool remove_unused(int folder_fd, const char *name)
{
    CR_AUTO_CLOSE int own_fd = open_folder(folder_fd, name);
    CR_AUTO_CLOSE int root_fd = own_fd < 0 ? -1 : open_folder(own_fd, SBX_REGISTERED_ROOT);

    if (root_fd >= 0 && flock(root_fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    return sbx_tree_remove(folder_fd, name) == 0;
}

static int is_leftover(const struct dirent *entry)
{
    return strncmp(entry->d_name, BUILD, strlen(BUILD)) == 0 ||
           strncmp(entry->d_name, OLD, strlen(OLD)) == 0;
}

static void sweep(int folder_fd)
{
    struct dirent **names = NULL;
    const int count = scandirat(folder_fd, ".", &names, is_leftover, alphasort);

    for (int i = 0; i < count; i++) {
        (void)remove_unused(folder_fd, names[i]->d_name);
        free(names[i]);
    }
    free((void *)names);
}

static int lock(struct sbx_state *state, struct cr_err *err)
{
    state->lock_fd =
        openat(state->folder_fd, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (state->lock_fd < 0)
        return cr_err_sys(err, errno, "open the lock of builds");
    if (flock(state->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? cr_err_set(err, EBUSY, "another build or removal goes on: wait for its end")
                   : cr_err_sys(err, errno, "take the lock of builds");
    return 0;
}

int sbx_state_open(const char *state_dir, struct sbx_state *state, struct cr_err *err)
{
    struct stat info;
    int r;

    (void)snprintf(state->path, sizeof(state->path), "%s/" SBX_REGISTERED_FOLDER, state_dir);
    if ((mkdirat(AT_FDCWD, state_dir, 0755) < 0 && errno != EEXIST) ||
        (mkdirat(AT_FDCWD, state->path, 0755) < 0 && errno != EEXIST))
        return cr_err_sys(err, errno, "--state-dir: make '%s'", state->path);
    state->folder_fd = open_folder(AT_FDCWD, state->path);
    if (state->folder_fd < 0 || fstat(state->folder_fd, &info) < 0)
        return cr_err_sys(err, errno, "--state-dir: open '%s'", state->path);
    if (info.st_uid != 0 || (info.st_mode & (S_IWGRP | S_IWOTH)))
        return cr_err_set(err, EPERM, "--state-dir: '%s' must be root's and writable by root only",
                          state->path);
    r = lock(state, err);
    if (r == 0)
        sweep(state->folder_fd);
    return r;
}

void sbx_state_close(struct sbx_state *state)
{
    cr_close_fd(&state->lock_fd);
    cr_close_fd(&state->folder_fd);
}

int sbx_state_begin(struct sbx_state *state, char ret_name[NAME_MAX + 1], struct cr_err *err)
{
    (void)snprintf(ret_name, NAME_MAX + 1, BUILD "%d", (int)getpid());
    return mkdirat(state->folder_fd, ret_name, 0755) < 0
               ? cr_err_sys(err, errno, "make a folder for the build")
               : 0;
}

void sbx_state_discard(struct sbx_state *state, const char *build)
{
    (void)sbx_tree_remove(state->folder_fd, build);
}

/* Out of the way: whoever uses it keeps it until its end. */
static int move_aside(struct sbx_state *state, const char *name, char ret_aside[NAME_MAX + 1])
{
    (void)snprintf(ret_aside, NAME_MAX + 1, OLD "%d", (int)getpid());
    return renameat(state->folder_fd, name, state->folder_fd, ret_aside) < 0 ? -errno : 0;
}

/* At no moment is there neither of the two. */
int sbx_state_register(struct sbx_state *state, const char *build, const char *name,
                       struct cr_err *err)
{
    char from[2 * NAME_MAX];
    char old[NAME_MAX + 1];

    (void)snprintf(from, sizeof(from), "%s/" SBX_REGISTERED_FOLDER "/%s", build, name);
    if (renameat2(state->folder_fd, from, state->folder_fd, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST)
        return cr_err_sys(err, errno, "register '%s'", name);
    if (renameat2(state->folder_fd, from, state->folder_fd, name, RENAME_EXCHANGE) < 0)
        return cr_err_sys(err, errno, "register '%s' in place of its earlier build", name);
    if (move_aside(state, from, old) == 0)
        (void)remove_unused(state->folder_fd, old);
    return 0;
}

int sbx_state_remove(struct sbx_state *state, const char *name, struct cr_err *err)
{
    CR_AUTO_CLOSE int own_fd =
        name[0] == '.' || strchr(name, '/') ? -1 : open_folder(state->folder_fd, name);
    CR_AUTO_CLOSE int root_fd = own_fd < 0 ? -1 : open_folder(own_fd, SBX_REGISTERED_ROOT);
    char old[NAME_MAX + 1];
    int r;

    if (own_fd < 0)
        return cr_err_set(err, ENOENT, "no runtime '%.64s' is registered", name);
    if (root_fd >= 0 && flock(root_fd, LOCK_EX | LOCK_NB) < 0)
        return cr_err_set(err, EBUSY, "runtime '%s' is used by a sandboxd that runs: stop it first",
                          name);
    r = move_aside(state, name, old);
    if (r == 0)
        r = sbx_tree_remove(state->folder_fd, old);
    return r < 0 ? cr_err_sys(err, -r, "remove '%s'", name) : 0;
}
