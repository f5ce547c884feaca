/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Where the workspaces of sessions hang. The kernel makes a copy of a mount
 * only inside the mount namespace that it is in (open_tree(2)), and every box
 * inherits the one of the backend; so each of these mounts has a namespace of
 * its own, which nobody is in. The backend enters it for a system call, from
 * the one thread that it has.
 */
struct sbx_vault {
    int proc_fd; /* a /proc that hangs nowhere */
    int home_fd; /* our own mount namespace */
};

#define SBX_VAULT_INIT                                                                             \
    {                                                                                              \
        .proc_fd = -1, .home_fd = -1                                                               \
    }

/* Behind the entry into the root file system of the boxes. Returns 0 or -errno. */
int sbx_vault_open(struct sbx_vault *vault, struct cr_err *err);

/* Safe to repeat. */
void sbx_vault_close(struct sbx_vault *vault);

/*
 * Hangs a mount that hangs nowhere (`mount_fd`, borrowed) into a namespace of
 * its own. It is there until *ret_space_fd, which is the caller's, is closed:
 * which waits for RCU, so the keeper does it. Returns 0 or -errno.
 */
int sbx_vault_put(const struct sbx_vault *vault, int mount_fd, int *ret_space_fd,
                  struct cr_err *err);

/* A copy of it, which hangs nowhere. Returns 0 or -errno. */
int sbx_vault_copy(const struct sbx_vault *vault, int space_fd, int mount_fd, int *ret_fd,
                   struct cr_err *err);
