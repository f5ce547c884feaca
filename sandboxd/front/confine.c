/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/confine.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include <seccomp.h>

#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/*
 * Reading stays allowed: gRPC core looks at /proc and the time zone while it
 * runs, and there is nothing secret that this user id may read. What is
 * handled and has no rule is denied everywhere.
 */
#define HANDLED_ACCESS                                                                             \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |  \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* A denial may break a library in a way that no test sees, so it holds only what an attacker needs
 * and a server of sockets that are open already does not. */
static const int denied[] = {
    SCMP_SYS(execve), /* no other program */
    SCMP_SYS(execveat),
    SCMP_SYS(connect), /* calls come in; nothing goes out */
    SCMP_SYS(ptrace),  /* no look into other processes */
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp),
    SCMP_SYS(unshare), /* no user namespace, the door to most kernel faults */
    SCMP_SYS(setns),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(bpf), /* kernel surface that no server of ours uses */
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(personality),
    SCMP_SYS(modify_ldt),
    SCMP_SYS(vmsplice),
};

static int restrict_files(bool *ret_has_landlock, struct cr_err *err)
{
    const struct landlock_ruleset_attr rules = {.handled_access_fs = HANDLED_ACCESS};
    CR_AUTO_CLOSE int fd = -1;

    *ret_has_landlock = false;
    fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
    if (fd < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
        return 0; /* a kernel without it */
    if (fd < 0)
        return cr_err_sys(err, errno, "make a Landlock rule set");
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return cr_err_sys(err, errno, "apply the Landlock rule set");
    *ret_has_landlock = true;
    return 0;
}

static int add_rules(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(denied); i++) {
        int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), denied[i], 0);

        if (r < 0)
            return r;
    }
    return 0;
}

static int restrict_calls(struct cr_err *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r;

    if (!filter)
        return cr_err_set(err, ENOMEM, "out of memory for the seccomp filter");
    /* Calls of another architecture would walk past the list. */
    r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (r == 0)
        r = add_rules(filter);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r < 0 ? cr_err_sys(err, -r, "load the seccomp filter") : 0;
}

int sbx_confine(bool *ret_has_landlock, struct cr_err *err)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return cr_err_sys(err, errno, "set no_new_privs");
    r = restrict_files(ret_has_landlock, err);
    return r < 0 ? r : restrict_calls(err);
}
