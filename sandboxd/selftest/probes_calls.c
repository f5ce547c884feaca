/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/selftest/probes.h"
#include "sandboxd/wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define BAD ((void *)1)

/* A probe that is one system call. */
#define CALL(name, ...)                                                                            \
    static long name(void)                                                                         \
    {                                                                                              \
        return syscall(__VA_ARGS__);                                                               \
    }

CALL(unshare_user, SYS_unshare, CLONE_NEWUSER)
CALL(unshare_mount, SYS_unshare, CLONE_NEWNS)
CALL(unshare_net, SYS_unshare, CLONE_NEWNET)
CALL(clone_user, SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
CALL(clone3_null, SYS_clone3, NULL, 0)
CALL(setns_bad, SYS_setns, -1, 0)
CALL(mount_bad, SYS_mount, BAD, BAD, BAD, 0, BAD)
CALL(umount_proc, SYS_umount2, "/proc", MNT_DETACH)
CALL(pivot, SYS_pivot_root, BAD, BAD)
CALL(chroot_root, SYS_chroot, "/")
CALL(open_tree_bad, SYS_open_tree, -1, BAD, 1)
CALL(fsopen_bad, SYS_fsopen, BAD, 0)
CALL(fspick_bad, SYS_fspick, -1, BAD, 0)
CALL(move_mount_bad, SYS_move_mount, -1, BAD, -1, BAD, 0)
CALL(mount_setattr_bad, SYS_mount_setattr, -1, BAD, 0, NULL, 0)
CALL(statmount_bad, 457, NULL, NULL, 0, 0)
CALL(listmount_bad, 458, NULL, NULL, 0, 0)
CALL(future_call, 1000)
CALL(ambient_raise, SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0)
CALL(set_mm, SYS_prctl, PR_SET_MM, 1, 0, 0, 0)
CALL(second_filter, SYS_seccomp, 1, 0, NULL)
CALL(setuid_root, SYS_setuid, 0)
CALL(setgid_root, SYS_setgid, 0)
CALL(setgroups_root, SYS_setgroups, 1, (gid_t[]){0})
CALL(ptrace_init, SYS_ptrace, PTRACE_SEIZE, 1, 0, 0)
CALL(pidfd_getfd_bad, SYS_pidfd_getfd, -1, 0, 0)
CALL(kcmp_self, SYS_kcmp, getpid(), getpid(), 0, 0, 0)
CALL(kill_init, SYS_kill, 1, SIGKILL)
CALL(bpf_bad, SYS_bpf, 5, BAD, 48)
CALL(perf_bad, SYS_perf_event_open, NULL, 0, -1, -1, 0)
CALL(userfaultfd_user, SYS_userfaultfd, 1)
CALL(io_uring, SYS_io_uring_setup, 1, NULL)
CALL(io_uring_work, SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0)
CALL(keyctl_session, SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0)
CALL(add_key_bad, SYS_add_key, NULL, NULL, NULL, 0, 0)
CALL(request_key_bad, SYS_request_key, NULL, NULL, NULL, 0)
CALL(tiocsti, SYS_ioctl, 0, TIOCSTI, "x")
CALL(tiocsti_high, SYS_ioctl, 0, (1UL << 32) | TIOCSTI, "x")
CALL(tioclinux, SYS_ioctl, 0, TIOCLINUX, BAD)
CALL(read_implies_exec, SYS_personality, READ_IMPLIES_EXEC)
CALL(no_randomize, SYS_personality, ADDR_NO_RANDOMIZE)
CALL(kexec, SYS_kexec_load, 0, 0, NULL, 0)
CALL(kexec_file, SYS_kexec_file_load, -1, -1, 0, NULL, 0)
CALL(module_init, SYS_init_module, NULL, 0, NULL)
CALL(module_init_file, SYS_finit_module, -1, NULL, 0)
CALL(module_delete, SYS_delete_module, BAD, 0)
CALL(reboot_bad, SYS_reboot, 1, 2, 3, NULL)
CALL(swapon_bad, SYS_swapon, BAD, 0)
CALL(acct_bad, SYS_acct, BAD)
CALL(quota_bad, SYS_quotactl, -1, BAD, 0, NULL)
CALL(set_time, SYS_settimeofday, BAD, NULL)
CALL(set_clock, SYS_clock_settime, 0, NULL)
CALL(adjust_clock, SYS_adjtimex, NULL)
CALL(hostname, SYS_sethostname, "x", 1)
CALL(hangup, SYS_vhangup)
CALL(kernel_log, SYS_syslog, 3, NULL, 0)
CALL(handle_open, SYS_open_by_handle_at, -1, NULL, 0)
CALL(handle_name, SYS_name_to_handle_at, -1, BAD, NULL, NULL, 0)
CALL(fanotify, SYS_fanotify_init, 0, 0)
CALL(secret_memory, SYS_memfd_secret, 0)
CALL(watch_bad, SYS_inotify_init1, -1)
CALL(folder_reports, SYS_fcntl, -1, F_NOTIFY, 0)
CALL(huge_file, SYS_memfd_create, NULL, MFD_HUGETLB)
CALL(huge_map, SYS_mmap, NULL, 2UL << 20, PROT_READ,
     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0)
CALL(numa_move, SYS_move_pages, 1, 0, NULL, NULL, NULL, 0)
CALL(numa_bind, SYS_mbind, NULL, 0, 0, NULL, 0, 0)
CALL(sysv_shm, SYS_shmget, 1, 4096, 0600)
CALL(sysv_msg, SYS_msgget, 1, 0600)
CALL(aio, SYS_io_setup, 1, NULL)
CALL(message_queue, SYS_mq_open, BAD, 0, 0, NULL)
CALL(nice_up, SYS_setpriority, PRIO_PROCESS, 0, -20)
CALL(lock_memory, SYS_mlockall, 3)

static long capability_set(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.permitted = 1U << CAP_SYS_ADMIN}, {0}};

    return syscall(SYS_capset, &header, data);
}

static long vm_read(void)
{
    char byte = 0;
    const struct iovec local = {.iov_base = &byte, .iov_len = 1};
    const struct iovec remote = {.iov_base = &byte, .iov_len = 1};

    return syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
}

static long vm_write(void)
{
    char byte = 0;
    const struct iovec local = {.iov_base = &byte, .iov_len = 1};
    const struct iovec remote = {.iov_base = &byte, .iov_len = 1};

    return syscall(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, 0);
}

static long real_time(void)
{
    const struct sched_param param = {.sched_priority = 1};

    return sched_setscheduler(0, SCHED_FIFO, &param);
}

static long raise_limit(int resource)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
        return 0;
    limit.rlim_max++;
    return setrlimit((__rlimit_resource_t)resource, &limit);
}

static long raise_open_files(void)
{
    return raise_limit(RLIMIT_NOFILE);
}

static long raise_core(void)
{
    return raise_limit(RLIMIT_CORE);
}

static long open_socket(int family, int type, int protocol)
{
    return socket(family, type, protocol);
}

#define SOCKET(name, family, type, protocol)                                                       \
    static long name(void)                                                                         \
    {                                                                                              \
        return open_socket(family, type, protocol);                                                \
    }

SOCKET(socket_alg, AF_ALG, SOCK_SEQPACKET, 0)
SOCKET(socket_packet, AF_PACKET, SOCK_RAW, 0)
SOCKET(socket_netlink, AF_NETLINK, SOCK_RAW, 0)
SOCKET(socket_vsock, AF_VSOCK, SOCK_STREAM, 0)
SOCKET(socket_key, AF_KEY, SOCK_RAW, 2)
SOCKET(socket_can, AF_CAN, SOCK_RAW, 1)
SOCKET(socket_tipc, AF_TIPC, SOCK_STREAM, 0)
SOCKET(socket_bluetooth, AF_BLUETOOTH, SOCK_RAW, 0)
SOCKET(socket_xdp, 44, SOCK_RAW, 0)
SOCKET(socket_raw, AF_INET, SOCK_RAW, IPPROTO_ICMP)
SOCKET(socket_sctp, AF_INET, SOCK_STREAM, IPPROTO_SCTP)
SOCKET(socket_mptcp, AF_INET6, SOCK_STREAM, 262)
SOCKET(socket_honest, AF_INET, SOCK_STREAM, 0)

#ifdef __x86_64__
static long call_i386(void)
{
    int result;

    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid */
    return result;
}

CALL(call_x32, 0x40000000 | __NR_getpid)
CALL(ldt, SYS_modify_ldt, 0, NULL, 0)
CALL(port_level, SYS_iopl, 0)
CALL(ports, SYS_ioperm, 0, 0, 0)
#endif

static void *nothing(void *argument)
{
    return argument;
}

static long threads(void)
{
    pthread_t thread;

    errno = pthread_create(&thread, NULL, nothing, NULL);
    return errno != 0 || pthread_join(thread, NULL) != 0 ? -1 : 0;
}

static const struct probe calls[] = {
    {"E01", "unshare-user", SBX_CONTROL_SECCOMP, "EPERM", true, unshare_user},
    {"E02", "unshare-mount", SBX_CONTROL_SECCOMP, "EPERM", false, unshare_mount},
    {"E02", "unshare-net", SBX_CONTROL_SECCOMP, "EPERM", false, unshare_net},
    {"E03", "clone-user", SBX_CONTROL_SECCOMP, "EPERM", true, clone_user},
    {"E04", "clone3", SBX_CONTROL_SECCOMP, "ENOSYS", true, clone3_null},
    {"E05", "threads", SBX_CONTROL_SECCOMP, "ok", false, threads},
    {"E06", "setns", SBX_CONTROL_SECCOMP, "EPERM", true, setns_bad},
    {"E07", "mount", SBX_CONTROL_SECCOMP, "EPERM", true, mount_bad},
    {"E08", "umount", SBX_CONTROL_SECCOMP, "EPERM", false, umount_proc},
    {"E09", "pivot-root", SBX_CONTROL_SECCOMP, "SIGSYS", true, pivot},
    {"E10", "chroot", SBX_CONTROL_SECCOMP, "EPERM", false, chroot_root},
    {"E11", "open-tree", SBX_CONTROL_SECCOMP, "EPERM", false, open_tree_bad},
    {"E11", "fsopen", SBX_CONTROL_SECCOMP, "EPERM", false, fsopen_bad},
    {"E11", "fspick", SBX_CONTROL_SECCOMP, "EPERM", false, fspick_bad},
    {"E11", "move-mount", SBX_CONTROL_SECCOMP, "EPERM", false, move_mount_bad},
    {"E11", "mount-setattr", SBX_CONTROL_SECCOMP, "EPERM", true, mount_setattr_bad},
    {"E12", "statmount", SBX_CONTROL_SECCOMP, "ENOSYS", false, statmount_bad},
    {"E12", "listmount", SBX_CONTROL_SECCOMP, "ENOSYS", false, listmount_bad},
    {"E12", "future-call", SBX_CONTROL_SECCOMP, "ENOSYS", false, future_call},
    {"E17", "ambient-raise", SBX_CONTROL_CAPABILITIES, "EPERM", false, ambient_raise},
    {"E17", "capset", SBX_CONTROL_CAPABILITIES, "EPERM", false, capability_set},
    {"E18", "setuid", SBX_CONTROL_CAPABILITIES, "EPERM|EINVAL", false, setuid_root},
    {"E18", "setgid", SBX_CONTROL_CAPABILITIES, "EPERM|EINVAL", false, setgid_root},
    {"E18", "setgroups", SBX_CONTROL_CAPABILITIES, "EPERM", false, setgroups_root},
    {"E20", "ptrace-init", SBX_CONTROL_SECCOMP, "SIGSYS", true, ptrace_init},
    {"E21", "process-vm-readv", SBX_CONTROL_SECCOMP, "EPERM", true, vm_read},
    {"E21", "process-vm-writev", SBX_CONTROL_SECCOMP, "SIGSYS", true, vm_write},
    {"E22", "pidfd-getfd", SBX_CONTROL_SECCOMP, "EPERM", true, pidfd_getfd_bad},
    {"E23", "kcmp", SBX_CONTROL_SECCOMP, "EPERM", true, kcmp_self},
    {"E25", "kill-init", SBX_CONTROL_USER, "EPERM", false, kill_init},
    {"E36", "bpf", SBX_CONTROL_SECCOMP, "SIGSYS", true, bpf_bad},
    {"E37", "perf-event-open", SBX_CONTROL_SECCOMP, "EPERM", true, perf_bad},
    {"E38", "userfaultfd", SBX_CONTROL_SECCOMP, "ENOSYS", true, userfaultfd_user},
    {"E39", "io-uring-setup", SBX_CONTROL_SECCOMP, "ENOSYS", true, io_uring},
    {"E39", "io-uring-enter", SBX_CONTROL_SECCOMP, "ENOSYS", true, io_uring_work},
    {"E40", "keyctl", SBX_CONTROL_SECCOMP, "ENOSYS", true, keyctl_session},
    {"E40", "add-key", SBX_CONTROL_SECCOMP, "ENOSYS", true, add_key_bad},
    {"E40", "request-key", SBX_CONTROL_SECCOMP, "ENOSYS", true, request_key_bad},
    {"E41", "socket-alg", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_alg},
    {"E44", "socket-packet", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", true, socket_packet},
    {"E44", "socket-netlink", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", true, socket_netlink},
    {"E44", "socket-vsock", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_vsock},
    {"E44", "socket-key", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_key},
    {"E44", "socket-can", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_can},
    {"E44", "socket-tipc", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_tipc},
    {"E44", "socket-bluetooth", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_bluetooth},
    {"E44", "socket-xdp", SBX_CONTROL_SECCOMP, "EAFNOSUPPORT", false, socket_xdp},
    {"E44", "socket-raw", SBX_CONTROL_SECCOMP, "ESOCKTNOSUPPORT", true, socket_raw},
    {"E44", "socket-sctp", SBX_CONTROL_SECCOMP, "EPROTONOSUPPORT", false, socket_sctp},
    {"E44", "socket-mptcp", SBX_CONTROL_SECCOMP, "EPROTONOSUPPORT", false, socket_mptcp},
    {"E44", "socket-honest", SBX_CONTROL_SECCOMP, "ok", false, socket_honest},
    {"E45", "tiocsti", SBX_CONTROL_SECCOMP, "EPERM", true, tiocsti},
    {"E45", "tiocsti-high", SBX_CONTROL_SECCOMP, "EPERM", true, tiocsti_high},
    {"E45", "tioclinux", SBX_CONTROL_SECCOMP, "EPERM", true, tioclinux},
    {"E47", "read-implies-exec", SBX_CONTROL_SECCOMP, "EPERM", true, read_implies_exec},
    {"E47", "no-randomize", SBX_CONTROL_SECCOMP, "EPERM", true, no_randomize},
    {"E48", "kexec-load", SBX_CONTROL_SECCOMP, "SIGSYS", true, kexec},
    {"E48", "kexec-file-load", SBX_CONTROL_SECCOMP, "SIGSYS", true, kexec_file},
    {"E48", "init-module", SBX_CONTROL_SECCOMP, "SIGSYS", true, module_init},
    {"E48", "finit-module", SBX_CONTROL_SECCOMP, "SIGSYS", true, module_init_file},
    {"E48", "delete-module", SBX_CONTROL_SECCOMP, "SIGSYS", true, module_delete},
    {"E48", "reboot", SBX_CONTROL_SECCOMP, "SIGSYS", true, reboot_bad},
    {"E48", "swapon", SBX_CONTROL_SECCOMP, "EPERM", false, swapon_bad},
    {"E48", "acct", SBX_CONTROL_SECCOMP, "EPERM", false, acct_bad},
    {"E48", "quotactl", SBX_CONTROL_SECCOMP, "EPERM", false, quota_bad},
    {"E48", "settimeofday", SBX_CONTROL_SECCOMP, "EPERM", false, set_time},
    {"E48", "clock-settime", SBX_CONTROL_SECCOMP, "EPERM", false, set_clock},
    {"E48", "adjtimex", SBX_CONTROL_SECCOMP, "EPERM", true, adjust_clock},
    {"E48", "sethostname", SBX_CONTROL_SECCOMP, "EPERM", false, hostname},
    {"E48", "vhangup", SBX_CONTROL_SECCOMP, "EPERM", false, hangup},
    {"E48", "syslog", SBX_CONTROL_SECCOMP, "EPERM", false, kernel_log},
    {"E49", "open-by-handle-at", SBX_CONTROL_SECCOMP, "SIGSYS", true, handle_open},
    {"E49", "name-to-handle-at", SBX_CONTROL_SECCOMP, "EOPNOTSUPP", true, handle_name},
    {"E50", "fanotify-init", SBX_CONTROL_SECCOMP, "EPERM", false, fanotify},
    {"E53", "second-filter", SBX_CONTROL_SECCOMP, "ENOSYS", true, second_filter},
    {"E53", "prctl-set-mm", SBX_CONTROL_SECCOMP, "EPERM", false, set_mm},
    {"E59", "memfd-secret", SBX_CONTROL_SECCOMP, "ENOSYS", false, secret_memory},
    {"E60", "nice-up", SBX_CONTROL_RLIMITS, "EACCES", false, nice_up},
    {"E60", "real-time", SBX_CONTROL_RLIMITS, "EPERM", false, real_time},
    {"E61", "raise-open-files", SBX_CONTROL_RLIMITS, "EPERM", false, raise_open_files},
    {"E61", "raise-core", SBX_CONTROL_RLIMITS, "EPERM", false, raise_core},
    {"E62", "move-pages", SBX_CONTROL_SECCOMP, "EPERM", false, numa_move},
    {"E62", "mbind", SBX_CONTROL_SECCOMP, "EPERM", true, numa_bind},
    {"R10", "sysv-shm", SBX_CONTROL_SECCOMP, "ENOSYS", true, sysv_shm},
    {"R10", "sysv-msg", SBX_CONTROL_SECCOMP, "ENOSYS", true, sysv_msg},
    {"R10", "message-queue", SBX_CONTROL_SECCOMP, "ENOSYS", true, message_queue},
    {"R10", "aio", SBX_CONTROL_SECCOMP, "ENOSYS", true, aio},
    {"R12", "mlockall", SBX_CONTROL_RLIMITS, "ENOMEM", false, lock_memory},
    {"R16", "huge-pages-file", SBX_CONTROL_SECCOMP, "ENOSYS", true, huge_file},
    {"R16", "huge-pages-map", SBX_CONTROL_SECCOMP, "ENOMEM", false, huge_map},
    {"R18", "watch-files", SBX_CONTROL_SECCOMP, "ENOSYS", true, watch_bad},
    {"L16", "reports-of-folders", SBX_CONTROL_SECCOMP, "EINVAL", true, folder_reports},
#ifdef __x86_64__
    {"E42", "call-i386", SBX_CONTROL_SECCOMP, "SIGSYS", true, call_i386},
    {"E43", "call-x32", SBX_CONTROL_SECCOMP, "SIGSYS", true, call_x32},
    {"E48", "modify-ldt", SBX_CONTROL_SECCOMP, "EPERM", true, ldt},
    {"E48", "iopl", SBX_CONTROL_SECCOMP, "SIGSYS", true, port_level},
    {"E48", "ioperm", SBX_CONTROL_SECCOMP, "SIGSYS", true, ports},
#endif
};

const struct probe *probes_calls(size_t *ret_count)
{
    *ret_count = CR_ARRAY_SIZE(calls);
    return calls;
}

bool probe_is_deadly(const struct probe *probe)
{
    return strcmp(probe->expected, "SIGSYS") == 0;
}

bool probe_fits(const char *expected, const char *seen)
{
    const size_t size = strlen(seen);

    for (const char *at = expected;; at += strcspn(at, "|") + 1) {
        const size_t length = strcspn(at, "|");

        if (length == size && memcmp(at, seen, size) == 0)
            return true;
        if (at[length] == '\0')
            return false;
    }
}
