/* SPDX-License-Identifier: Apache-2.0 */
#include "common/confine.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* ---- Landlock: files, ports, others' processes ---- */

/* What later kernels know and headers of this one may not name (uapi/linux/landlock.h). */
#define ACCESS_REFER (UINT64_C(1) << 13)       /* since version 2 */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)    /* 3 */
#define ACCESS_IOCTL_DEV (UINT64_C(1) << 15)   /* 5 */
#define NET_BIND_TCP (UINT64_C(1) << 0)        /* 4 */
#define NET_CONNECT_TCP (UINT64_C(1) << 1)     /* 4 */
#define SCOPE_ABSTRACT_UNIX (UINT64_C(1) << 0) /* 6 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)        /* 6 */
#define RULE_NET_PORT 2

struct rules_attr {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

struct port_attr {
    uint64_t allowed;
    uint64_t port;
};

#define READ_ACCESS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_ACCESS                                                                               \
    (READ_ACCESS | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE | LANDLOCK_ACCESS_FS_MAKE_REG | \
     LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define SERVE_ACCESS                                                                               \
    (WRITE_ACCESS | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_DIR |                   \
     LANDLOCK_ACCESS_FS_REMOVE_DIR)
/* What a rule for something else than a folder may name. */
#define FILE_ACCESS                                                                                \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |   \
     ACCESS_TRUNCATE)
/* Of the first version; what is handled and has no rule is denied everywhere. */
#define FIRST_ACCESS                                                                               \
    (LANDLOCK_ACCESS_FS_EXECUTE | SERVE_ACCESS | LANDLOCK_ACCESS_FS_MAKE_CHAR |                    \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

static const uint64_t access_bits[] = {
    [CR_CONFINE_READ] = READ_ACCESS,
    [CR_CONFINE_WRITE] = WRITE_ACCESS,
    [CR_CONFINE_SERVE] = SERVE_ACCESS,
};

static struct rules_attr rules_for(const struct cr_confine_policy *policy, int abi)
{
    struct rules_attr rules = {.handled_fs = FIRST_ACCESS & ~ACCESS_TRUNCATE};

    if (abi >= 2)
        rules.handled_fs |= ACCESS_REFER;
    if (abi >= 3)
        rules.handled_fs |= ACCESS_TRUNCATE;
    if (abi >= 5)
        rules.handled_fs |= ACCESS_IOCTL_DEV;
    if (abi >= 4 && !policy->may_bind_tcp)
        rules.handled_net |= NET_BIND_TCP;
    if (abi >= 4 && policy->has_ports)
        rules.handled_net |= NET_CONNECT_TCP;
    if (abi >= 6)
        rules.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
    return rules;
}

static int allow_path(int rules_fd, const struct cr_confine_path *path, uint64_t handled,
                      struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(path->path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.parent_fd = fd,
                                              .allowed_access = access_bits[path->access]};
    struct stat info;

    if (fd < 0)
        return 0;
    if (fstat(fd, &info) < 0)
        return cr_err_sys(err, errno, "look at '%s'", path->path);
    rule.allowed_access &= handled;
    if (!S_ISDIR(info.st_mode))
        rule.allowed_access &= FILE_ACCESS;
    if (syscall(SYS_landlock_add_rule, rules_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return cr_err_sys(err, errno, "allow '%s' by Landlock", path->path);
    return 0;
}

static int allow_port(int rules_fd, uint16_t port, struct cr_err *err)
{
    const struct port_attr rule = {.allowed = NET_CONNECT_TCP, .port = port};

    if (syscall(SYS_landlock_add_rule, rules_fd, RULE_NET_PORT, &rule, 0) < 0)
        return cr_err_sys(err, errno, "allow port %u by Landlock", port);
    return 0;
}

static int allow_all(int rules_fd, const struct cr_confine_policy *policy,
                     const struct rules_attr *rules, struct cr_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < policy->path_count; i++)
        r = allow_path(rules_fd, &policy->paths[i], rules->handled_fs, err);
    if (!(rules->handled_net & NET_CONNECT_TCP))
        return r;
    for (size_t i = 0; r == 0 && i < policy->port_count; i++)
        r = allow_port(rules_fd, policy->ports[i], err);
    return r;
}

static int restrict_resources(const struct cr_confine_policy *policy, int *ret_abi,
                              struct cr_err *err)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    CR_AUTO_CLOSE int fd = -1;
    struct rules_attr rules;
    int r;

    *ret_abi = 0;
    if (abi < 0)
        return 0; /* a kernel without it, or in which it is switched off */
    rules = rules_for(policy, abi);
    fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
    if (fd < 0)
        return cr_err_sys(err, errno, "make a Landlock rule set");
    r = allow_all(fd, policy, &rules, err);
    if (r < 0)
        return r;
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return cr_err_sys(err, errno, "apply the Landlock rule set");
    *ret_abi = abi;
    return 0;
}

/* ---- seccomp: system calls ---- */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define FOREIGN_CALLS 0x40000000U /* x32: the same architecture, other numbers */
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define FOREIGN_CALLS UINT32_MAX
#else
#error "the seccomp filter knows x86-64 and AArch64"
#endif

/* A denial may break a library in a way that no test sees, so it holds only what an attacker needs
 * and a server does not. */
static const uint32_t denied[] = {
    SYS_execve, /* no other program */
    SYS_execveat,
    SYS_ptrace, /* no look into other processes, and no end to them */
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_kill,
    SYS_kcmp,
    SYS_unshare, /* no user namespace, the door to most kernel faults */
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_mount_setattr,
    SYS_bpf, /* kernel surface that no server of ours uses */
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_personality,
    SYS_vmsplice,
#if defined(__x86_64__)
    SYS_kexec_file_load,
    SYS_modify_ldt,
#endif
};

/* Every flag of clone(2) that makes a namespace. */
#define NAMESPACE_FLAGS                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

#define INSTRUCTIONS_MAX (2U * CR_ARRAY_SIZE(denied) + 48U)

struct program {
    uint16_t size;
    struct sock_filter code[INSTRUCTIONS_MAX];
};

static void add(struct program *program, uint16_t code, uint32_t operand)
{
    program->code[program->size++] = (struct sock_filter){.code = code, .k = operand};
}

/* Goes on `skip` instructions further when what was loaded does not compare so. */
static void add_unless(struct program *program, uint16_t comparison, uint32_t operand, uint8_t skip)
{
    program->code[program->size++] = (struct sock_filter){
        .code = (uint16_t)(BPF_JMP | BPF_K | comparison), .jf = skip, .k = operand};
}

static void load(struct program *program, uint32_t offset)
{
    add(program, BPF_LD | BPF_W | BPF_ABS, offset);
}

/* Low half: the arguments looked at here are of 32 bits. The machine is little-endian. */
static void load_argument(struct program *program, uint32_t index)
{
    load(program, (uint32_t)offsetof(struct seccomp_data, args) + 8 * index);
}

static void answer(struct program *program, uint32_t action)
{
    add(program, BPF_RET | BPF_K, action);
}

static void deny(struct program *program, uint32_t number, uint32_t error)
{
    add_unless(program, BPF_JEQ, number, 1);
    answer(program, SECCOMP_RET_ERRNO | error);
}

/* Calls of another architecture would walk past the list. */
static void add_architecture(struct program *program)
{
    load(program, offsetof(struct seccomp_data, arch));
    program->code[program->size++] =
        (struct sock_filter){.code = BPF_JMP | BPF_K | BPF_JEQ, .jt = 1, .k = ARCHITECTURE};
    answer(program, SECCOMP_RET_KILL_PROCESS);
    load(program, offsetof(struct seccomp_data, nr));
    add_unless(program, BPF_JGE, FOREIGN_CALLS, 1);
    answer(program, SECCOMP_RET_KILL_PROCESS);
}

/* The flags of clone3 lie in memory, where a filter cannot look: glibc then takes clone. */
static void add_clone(struct program *program)
{
    deny(program, SYS_clone3, ENOSYS);
    add_unless(program, BPF_JEQ, SYS_clone, 4);
    load_argument(program, 0);
    add_unless(program, BPF_JSET, NAMESPACE_FLAGS, 1);
    answer(program, SECCOMP_RET_ERRNO | EPERM);
    answer(program, SECCOMP_RET_ALLOW);
}

static void allow_family(struct program *program, uint32_t family)
{
    add_unless(program, BPF_JEQ, family, 1);
    answer(program, SECCOMP_RET_ALLOW);
}

/* The last: what is loaded is no longer the number of the call. */
static void add_sockets(struct program *program, uint32_t sockets)
{
    uint16_t jump = program->size;

    add_unless(program, BPF_JEQ, SYS_socket, 0);
    load_argument(program, 0);
    if (sockets & CR_CONFINE_UNIX)
        allow_family(program, AF_UNIX);
    if (sockets & CR_CONFINE_INET) {
        allow_family(program, AF_INET);
        allow_family(program, AF_INET6);
    }
    if (sockets & CR_CONFINE_ROUTE) {
        add_unless(program, BPF_JEQ, AF_NETLINK, 3);
        load_argument(program, 2);
        add_unless(program, BPF_JEQ, NETLINK_ROUTE, 1);
        answer(program, SECCOMP_RET_ALLOW);
    }
    answer(program, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    program->code[jump].jf = (uint8_t)(program->size - jump - 1);
}

static int restrict_calls(const struct cr_confine_policy *policy, struct cr_err *err)
{
    struct program program = {.size = 0};
    struct sock_fprog filter = {.filter = program.code};

    add_architecture(&program);
    for (size_t i = 0; i < CR_ARRAY_SIZE(denied); i++)
        deny(&program, denied[i], EPERM);
    if (!policy->may_connect)
        deny(&program, SYS_connect, EPERM);
    add_clone(&program);
    add_sockets(&program, policy->sockets);
    answer(&program, SECCOMP_RET_ALLOW);
    filter.len = program.size;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
        return cr_err_sys(err, errno, "load the seccomp filter");
    return 0;
}

int cr_confine(const struct cr_confine_policy *policy, int *ret_landlock_abi, struct cr_err *err)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return cr_err_sys(err, errno, "set no_new_privs");
    r = restrict_resources(policy, ret_landlock_abi, err);
    return r < 0 ? r : restrict_calls(policy, err);
}
