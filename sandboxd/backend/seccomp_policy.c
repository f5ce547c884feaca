/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/seccomp_policy.h"

#include "common/auto.h"
#include "sandboxd/backend/seccomp_arguments.h"

#include <errno.h>

#include <linux/seccomp.h>
#include <sys/syscall.h>

#define ALLOW(name)                                                                                \
    {                                                                                              \
        __NR_##name, SECCOMP_RET_ALLOW, NULL                                                       \
    }
#define DENY(name, error)                                                                          \
    {                                                                                              \
        __NR_##name, SECCOMP_RET_ERRNO | (error), NULL                                             \
    }
#define KILL(name)                                                                                 \
    {                                                                                              \
        __NR_##name, SECCOMP_RET_KILL_PROCESS, NULL                                                \
    }
#define CHECK(name, filter)                                                                        \
    {                                                                                              \
        __NR_##name, 0, &(filter)                                                                  \
    }

static const struct sbx_seccomp_rule policy[] = {
    /* Files: content. What may be opened is the mount namespace's business. */
    ALLOW(read),            /* input */
    ALLOW(write),           /* output */
    ALLOW(pread64),         /* read at an offset */
    ALLOW(pwrite64),        /* write at an offset */
    ALLOW(readv),           /* scattered read */
    ALLOW(writev),          /* gathered write */
    ALLOW(preadv),          /* the same at an offset */
    ALLOW(pwritev),         /* the same at an offset */
    ALLOW(preadv2),         /* the same with flags */
    ALLOW(pwritev2),        /* the same with flags */
    ALLOW(openat),          /* open */
    ALLOW(openat2),         /* open, with rules for the path */
    ALLOW(close),           /* close */
    ALLOW(close_range),     /* close many: subprocess, libuv */
    ALLOW(lseek),           /* position */
    ALLOW(dup),             /* copy of an fd */
    ALLOW(dup3),            /* redirection */
    ALLOW(pipe2),           /* pipes */
    ALLOW(flock),           /* file locks: sqlite, pip */
    ALLOW(fsync),           /* databases; the workspace is memory */
    ALLOW(fdatasync),       /* as fsync */
    ALLOW(sync_file_range), /* as fsync, for a range */
    ALLOW(fallocate),       /* bounded by the workspace */
    ALLOW(fadvise64),       /* coreutils read ahead with it */
    ALLOW(readahead),       /* hint */
    ALLOW(truncate),        /* by path */
    ALLOW(ftruncate),       /* by fd */
    ALLOW(sendfile),        /* shutil.copyfile */
    ALLOW(copy_file_range), /* cp, shutil */
    ALLOW(splice),          /* coreutils copy pipes with it */
    ALLOW(tee),             /* the same */
    /* fd flags, record locks; no signals for what others do in a folder */
    CHECK(fcntl, sbx_fcntl_filter),
    /* terminal queries, FIONREAD, FICLONE; not the ones that type for others */
    CHECK(ioctl, sbx_ioctl_filter),
#ifdef __x86_64__
    ALLOW(open),  /* old form of openat */
    ALLOW(creat), /* old form of openat */
    ALLOW(dup2),  /* old form of dup3 */
    ALLOW(pipe),  /* old form of pipe2 */
#endif
    /* success: nothing here outlives the run, and the host's disks are not flushed for it */
    DENY(sync, 0), DENY(syncfs, 0), /* as sync */
    DENY(vmsplice, ENOSYS),         /* page tricks with pipes; callers fall back to write */

    /* Files: names and attributes. */
    ALLOW(newfstatat), /* stat */
    ALLOW(fstat),      /* stat of an fd */
    ALLOW(statx),      /* stat, newer */
    ALLOW(statfs),     /* free space */
    ALLOW(fstatfs),    /* free space */
    ALLOW(faccessat),  /* test for rights */
    ALLOW(faccessat2), /* the same with flags */
    ALLOW(getdents64), /* list a folder */
    ALLOW(getcwd),     /* where am I */
    ALLOW(chdir),      /* go */
    ALLOW(fchdir),     /* go to an fd */
    ALLOW(renameat2),  /* rename */
    ALLOW(mkdirat),    /* make a folder */
    ALLOW(linkat),     /* hard link */
    ALLOW(symlinkat),  /* symbolic link */
    ALLOW(unlinkat),   /* remove */
    ALLOW(readlinkat), /* read a link */
    ALLOW(mknodat),    /* FIFOs; the kernel refuses devices without CAP_MKNOD */
    ALLOW(fchmod),     /* mode by fd */
    ALLOW(fchmodat),   /* mode by path */
    ALLOW(fchown),     /* the kernel allows the own ids only */
    ALLOW(fchownat),   /* the same by path */
    ALLOW(umask),      /* default mode */
    ALLOW(utimensat),  /* time stamps: touch, make, cp -p */
    ALLOW(getxattr),   /* ls, cp probe for ACLs */
    ALLOW(lgetxattr),  /* the same, of a link */
    ALLOW(fgetxattr),  /* the same, of an fd */
    ALLOW(listxattr),  /* cp -a */
    ALLOW(llistxattr), /* the same, of a link */
    ALLOW(flistxattr), /* the same, of an fd */
#ifdef __x86_64__
    ALLOW(stat),      /* old form of newfstatat */
    ALLOW(lstat),     /* old form of newfstatat */
    ALLOW(access),    /* old form of faccessat */
    ALLOW(getdents),  /* old form of getdents64 */
    ALLOW(rename),    /* old form of renameat2 */
    ALLOW(mkdir),     /* old form of mkdirat */
    ALLOW(rmdir),     /* old form of unlinkat */
    ALLOW(link),      /* old form of linkat */
    ALLOW(symlink),   /* old form of symlinkat */
    ALLOW(unlink),    /* old form of unlinkat */
    ALLOW(readlink),  /* old form of readlinkat */
    ALLOW(mknod),     /* old form of mknodat */
    ALLOW(chmod),     /* old form of fchmodat */
    ALLOW(chown),     /* old form of fchownat */
    ALLOW(lchown),    /* old form of fchownat */
    ALLOW(utime),     /* old form of utimensat */
    ALLOW(utimes),    /* old form of utimensat */
    ALLOW(futimesat), /* old form of utimensat */
#endif
    ALLOW(renameat),               /* older form of renameat2 */
    DENY(setxattr, EOPNOTSUPP),    /* as a file system without them: cp -a goes on without a word */
    DENY(lsetxattr, EOPNOTSUPP),   /* as a file system without them: cp -a goes on without a word */
    DENY(fsetxattr, EOPNOTSUPP),   /* as a file system without them: cp -a goes on without a word */
    DENY(removexattr, EOPNOTSUPP), /* as a file system without them: cp -a goes on without a word */
    /* as a file system without them: cp -a goes on without a word */
    DENY(lremovexattr, EOPNOTSUPP),
    /* as a file system without them: cp -a goes on without a word */
    DENY(fremovexattr, EOPNOTSUPP),
    /* first half of open_by_handle_at; systemd tools fall back */
    DENY(name_to_handle_at, EOPNOTSUPP),

    /* Memory. Size is the memory control's business; JITs need W and X. */
    /* map, but no huge page that the host has set aside */
    CHECK(mmap, sbx_mmap_filter),
    /* anonymous files; charged as memory, but for those of such pages */
    CHECK(memfd_create, sbx_memfd_filter), ALLOW(munmap), /* unmap */
    ALLOW(mprotect),                                      /* protect: loaders, JITs */
    ALLOW(mremap),                                        /* realloc of large blocks */
    ALLOW(msync),                                         /* mapped files */
    ALLOW(madvise),                                       /* allocators give memory back */
    ALLOW(mincore),                                       /* JVM */
    ALLOW(mlock),                                         /* bounded by RLIMIT_MEMLOCK */
    ALLOW(mlock2),                                        /* the same */
    ALLOW(munlock),                                       /* the same */
    ALLOW(mlockall),                                      /* the same */
    ALLOW(munlockall),                                    /* the same */
    ALLOW(brk),                                           /* heap */
    ALLOW(pkey_alloc),                                    /* probed by glibc and V8 */
    ALLOW(pkey_free),                                     /* the same */
    ALLOW(pkey_mprotect),                                 /* the same */
    ALLOW(membarrier),                                    /* JVM, .NET, liburcu */
    DENY(get_mempolicy, EPERM),     /* placement on NUMA nodes is the host's; callers go on */
    DENY(set_mempolicy, EPERM),     /* placement on NUMA nodes is the host's; callers go on */
    DENY(mbind, EPERM),             /* placement on NUMA nodes is the host's; callers go on */
    DENY(migrate_pages, EPERM),     /* placement on NUMA nodes is the host's; callers go on */
    DENY(move_pages, EPERM),        /* placement on NUMA nodes is the host's; callers go on */
    DENY(userfaultfd, ENOSYS),      /* stops a kernel thread at will: a tool for exploits */
    DENY(memfd_secret, ENOSYS),     /* pages that the host cannot account or inspect */
    DENY(remap_file_pages, ENOSYS), /* replaced by mmap long ago */

    /* Processes and threads. The pids control counts them, the pid namespace ends them. */
    CHECK(clone, sbx_clone_filter), /* fork and threads, without new namespaces */
    /* its flags lie in memory, where no filter can look; glibc falls back to clone */
    DENY(clone3, ENOSYS), ALLOW(execve), /* start a program */
    ALLOW(execveat),                     /* start by fd */
    ALLOW(exit),                         /* end of a thread */
    ALLOW(exit_group),                   /* end of a process */
    ALLOW(wait4),                        /* reap */
    ALLOW(waitid),                       /* reap */
    ALLOW(getpid),                       /* own id */
    ALLOW(getppid),                      /* parent's id */
    ALLOW(gettid),                       /* thread's id */
    ALLOW(getpgid),                      /* process group */
    ALLOW(setpgid),                      /* job control of shells */
    ALLOW(getsid),                       /* session */
    ALLOW(setsid),                       /* daemons; they end with the box */
    ALLOW(kill),                         /* reaches the box only */
    ALLOW(tkill),                        /* raise */
    ALLOW(tgkill),                       /* pthread_kill, abort */
    ALLOW(rt_sigqueueinfo),              /* sigqueue */
    ALLOW(rt_tgsigqueueinfo),            /* pthread_sigqueue */
    ALLOW(pidfd_open),                   /* subprocess of new Pythons */
    ALLOW(pidfd_send_signal),            /* the same */
    ALLOW(rt_sigaction),                 /* handlers */
    ALLOW(rt_sigprocmask),               /* mask */
    ALLOW(rt_sigpending),                /* pending */
    ALLOW(rt_sigsuspend),                /* wait */
    ALLOW(rt_sigtimedwait),              /* wait */
    ALLOW(rt_sigreturn),                 /* end of a handler */
    ALLOW(sigaltstack),                  /* faulthandler */
    ALLOW(restart_syscall),              /* the kernel's own, after a stop */
    ALLOW(getitimer),                    /* timers */
    ALLOW(setitimer),                    /* timers */
    ALLOW(set_tid_address),              /* start of libc */
    ALLOW(set_robust_list),              /* start of libc */
    ALLOW(get_robust_list),              /* debuggers of locks */
    ALLOW(futex),                        /* locks */
    ALLOW(futex_waitv),                  /* locks */
    ALLOW(rseq),                         /* start of libc */
    ALLOW(prlimit64),                    /* limits; the hard ones cannot be raised */
    ALLOW(getrusage),                    /* own usage */
    ALLOW(times),                        /* own usage */
    ALLOW(sysinfo),                 /* memory and load of the machine: a known, harmless leak */
    ALLOW(uname),                   /* own UTS namespace */
    ALLOW(getpriority),             /* nice */
    ALLOW(setpriority),             /* nice, upwards only */
    ALLOW(ioprio_get),              /* ionice */
    CHECK(prctl, sbx_prctl_filter), /* thread names and other harmless options */
    /* query; not the one that turns address randomisation off */
    CHECK(personality, sbx_personality_filter),
#ifdef __x86_64__
    ALLOW(fork),       /* old form of clone */
    ALLOW(vfork),      /* posix_spawn */
    ALLOW(getpgrp),    /* old form of getpgid */
    ALLOW(pause),      /* wait for a signal */
    ALLOW(alarm),      /* old form of setitimer */
    ALLOW(getrlimit),  /* old form of prlimit64 */
    ALLOW(setrlimit),  /* old form of prlimit64 */
    ALLOW(arch_prctl), /* start of libc: thread register */
#endif
    /* posix_spawn with POSIX_SPAWN_RESETIDS, as make uses it, sets the ids that it has; every other
     * id is EPERM, by the kernel: there is one user in a box, and no capability. */
    ALLOW(setuid),                 /* see above */
    ALLOW(setgid),                 /* as setuid */
    ALLOW(setreuid),               /* as setuid */
    ALLOW(setregid),               /* as setuid */
    ALLOW(setresuid),              /* as setuid */
    ALLOW(setresgid),              /* as setuid */
    DENY(setgroups, EPERM),        /* there is one user in a box */
    DENY(setfsuid, EPERM),         /* there is one user in a box */
    DENY(setfsgid, EPERM),         /* there is one user in a box */
    DENY(capset, EPERM),           /* there are no capabilities to change */
    DENY(ioprio_set, EPERM),       /* priority at the disk is the host's */
    DENY(unshare, EPERM),          /* namespaces are the door to half of the kernel's bugs */
    DENY(setns, EPERM),            /* as unshare */
    DENY(pidfd_getfd, EPERM),      /* takes fds out of another process */
    DENY(kcmp, EPERM),             /* compares kernel pointers: a leak for exploits */
    DENY(process_vm_readv, EPERM), /* memory of another process; crash handlers go on without it */
    DENY(process_madvise, EPERM),  /* memory of another process */
    DENY(process_mrelease, EPERM), /* memory of another process */
    DENY(seccomp, ENOSYS),         /* no second filter: it could hide how a program died */
    DENY(landlock_create_ruleset, ENOSYS), /* callers run without, inside a box that is tighter */
    DENY(landlock_add_rule, ENOSYS),       /* callers run without, inside a box that is tighter */
    DENY(landlock_restrict_self, ENOSYS),  /* callers run without, inside a box that is tighter */

    /* Identity: getters. */
    ALLOW(getuid),    /* own identity */
    ALLOW(geteuid),   /* own identity */
    ALLOW(getgid),    /* own identity */
    ALLOW(getegid),   /* own identity */
    ALLOW(getresuid), /* own identity */
    ALLOW(getresgid), /* own identity */
    ALLOW(getgroups), /* own identity */
    ALLOW(capget),    /* reads the empty sets */

    /* Scheduling. */
    ALLOW(sched_yield),              /* spin loops */
    ALLOW(sched_getaffinity),        /* os.cpu_count and friends */
    ALLOW(sched_setaffinity),        /* narrower than the cpuset only */
    ALLOW(sched_getparam),           /* query */
    ALLOW(sched_getscheduler),       /* query */
    ALLOW(sched_getattr),            /* query */
    ALLOW(sched_get_priority_max),   /* query */
    ALLOW(sched_get_priority_min),   /* query */
    ALLOW(sched_rr_get_interval),    /* query */
    ALLOW(getcpu),                   /* vDSO fallback */
    DENY(sched_setscheduler, EPERM), /* real time would starve the host; the kernel says the same */
    DENY(sched_setparam, EPERM),     /* real time would starve the host; the kernel says the same */
    DENY(sched_setattr, EPERM),      /* real time would starve the host; the kernel says the same */

    /* Time. */
    ALLOW(clock_gettime),    /* vDSO fallback */
    ALLOW(clock_getres),     /* query */
    ALLOW(clock_nanosleep),  /* sleep */
    ALLOW(nanosleep),        /* sleep */
    ALLOW(gettimeofday),     /* vDSO fallback */
    ALLOW(timer_create),     /* POSIX timers */
    ALLOW(timer_settime),    /* the same */
    ALLOW(timer_gettime),    /* the same */
    ALLOW(timer_getoverrun), /* the same */
    ALLOW(timer_delete),     /* the same */
    ALLOW(timerfd_create),   /* event loops */
    ALLOW(timerfd_settime),  /* the same */
    ALLOW(timerfd_gettime),  /* the same */
#ifdef __x86_64__
    ALLOW(time), /* old form of clock_gettime */
#endif
    DENY(clock_settime, EPERM), /* the clock is the host's */
    DENY(settimeofday, EPERM),  /* the clock is the host's */
    DENY(adjtimex, EPERM),      /* the clock is the host's */
    DENY(clock_adjtime, EPERM), /* the clock is the host's */

    /* Waiting for events. */
    ALLOW(ppoll),         /* poll */
    ALLOW(pselect6),      /* select */
    ALLOW(epoll_create1), /* event loops */
    ALLOW(epoll_ctl),     /* the same */
    ALLOW(epoll_pwait),   /* the same */
    ALLOW(epoll_pwait2),  /* the same, in nanoseconds */
    ALLOW(eventfd2),      /* event loops, multiprocessing */
    ALLOW(signalfd4),     /* signals as events */
#ifdef __x86_64__
    ALLOW(poll),         /* old form of ppoll */
    ALLOW(select),       /* old form of pselect6 */
    ALLOW(epoll_create), /* old form of epoll_create1 */
    ALLOW(epoll_wait),   /* old form of epoll_pwait */
    ALLOW(eventfd),      /* old form of eventfd2 */
    ALLOW(signalfd),     /* old form of signalfd4 */
#endif

    /* Sockets: unix ones, and TCP and UDP in a network of loopback only (asyncio, test servers). */
    CHECK(socket, sbx_socket_filter),         /* families, types and protocols by list */
    CHECK(socketpair, sbx_socketpair_filter), /* unix only */
    ALLOW(bind),                              /* servers */
    ALLOW(connect),                           /* clients */
    ALLOW(listen),                            /* servers */
    ALLOW(accept),                            /* servers */
    ALLOW(accept4),                           /* servers */
    ALLOW(getsockname),                       /* address */
    ALLOW(getpeername),                       /* address */
    ALLOW(getsockopt),                        /* options */
    ALLOW(setsockopt),                        /* options */
    ALLOW(sendto),                            /* send */
    ALLOW(recvfrom),                          /* receive */
    ALLOW(sendmsg),                           /* send, with fds */
    ALLOW(recvmsg),                           /* receive, with fds */
    ALLOW(sendmmsg),                          /* resolvers send two queries at once */
    ALLOW(recvmmsg),                          /* the same */
    ALLOW(shutdown),                          /* half close */

    /* Randomness. */
    ALLOW(getrandom), /* hash seeds, secrets, uuid */

    /* Mounts and roots: EPERM, as the kernel says to everybody but root. */
    DENY(mount, EPERM),         /* the mount table is part of the box */
    DENY(umount2, EPERM),       /* the mount table is part of the box */
    DENY(chroot, EPERM),        /* the mount table is part of the box */
    DENY(open_tree, EPERM),     /* the mount table is part of the box */
    DENY(move_mount, EPERM),    /* the mount table is part of the box */
    DENY(fsopen, EPERM),        /* the mount table is part of the box */
    DENY(fsconfig, EPERM),      /* the mount table is part of the box */
    DENY(fsmount, EPERM),       /* the mount table is part of the box */
    DENY(fspick, EPERM),        /* the mount table is part of the box */
    DENY(mount_setattr, EPERM), /* the mount table is part of the box */

    /* The machine: EPERM, as the kernel says to everybody but root. */
    DENY(acct, EPERM),            /* administration of the host */
    DENY(swapon, EPERM),          /* administration of the host */
    DENY(swapoff, EPERM),         /* administration of the host */
    DENY(quotactl, EPERM),        /* administration of the host */
    DENY(quotactl_fd, EPERM),     /* administration of the host */
    DENY(vhangup, EPERM),         /* administration of the host */
    DENY(sethostname, EPERM),     /* administration of the host */
    DENY(setdomainname, EPERM),   /* administration of the host */
    DENY(syslog, EPERM),          /* the kernel's log */
    DENY(lookup_dcookie, EPERM),  /* profiling of the host */
    DENY(fanotify_init, EPERM),   /* watches whole file systems */
    DENY(fanotify_mark, EPERM),   /* the same */
    DENY(perf_event_open, EPERM), /* counters see other processes; profilers go on without */
#ifdef __x86_64__
    DENY(modify_ldt, EPERM), /* 16-bit segments: wine only, and a way into the kernel */
#endif

    /*
     * A watch is on the file, whoever opens it by whichever mount: on those that boxes and the host
     * share, a program would see what the others do. And instances count for the user of the host
     * who made the box' user namespace, too (inc_ucount() in kernel/ucount.c): one program could
     * take all that root may have. Who watches looks again and again instead: tail -f, make, glib.
     */
    DENY(inotify_init1, ENOSYS),     /* see above */
    DENY(inotify_add_watch, ENOSYS), /* see above */
    DENY(inotify_rm_watch, ENOSYS),  /* see above */
#ifdef __x86_64__
    DENY(inotify_init, ENOSYS), /* old form of inotify_init1 */
#endif

    /* ENOSYS: accelerators and channels that every caller can do without. */
    DENY(io_uring_setup, ENOSYS),    /* does system calls that no filter sees */
    DENY(io_uring_enter, ENOSYS),    /* does system calls that no filter sees */
    DENY(io_uring_register, ENOSYS), /* does system calls that no filter sees */
    DENY(io_setup, ENOSYS),          /* old asynchronous I/O; callers use threads */
    DENY(io_destroy, ENOSYS),        /* old asynchronous I/O; callers use threads */
    DENY(io_submit, ENOSYS),         /* old asynchronous I/O; callers use threads */
    DENY(io_cancel, ENOSYS),         /* old asynchronous I/O; callers use threads */
    DENY(io_getevents, ENOSYS),      /* old asynchronous I/O; callers use threads */
    DENY(io_pgetevents, ENOSYS),     /* old asynchronous I/O; callers use threads */
    DENY(add_key, ENOSYS),           /* keyrings are shared by all boxes of one user id */
    DENY(request_key, ENOSYS),       /* keyrings are shared by all boxes of one user id */
    DENY(keyctl, ENOSYS),            /* keyrings are shared by all boxes of one user id */
    DENY(shmget, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(shmat, ENOSYS),           /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(shmctl, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(shmdt, ENOSYS),           /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(semget, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(semop, ENOSYS),           /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(semctl, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(semtimedop, ENOSYS),      /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(msgget, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(msgsnd, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(msgrcv, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(msgctl, ENOSYS),          /* System V IPC; POSIX shared memory and semaphores are there */
    DENY(mq_open, ENOSYS),         /* message queues; pipes and sockets are there */
    DENY(mq_unlink, ENOSYS),       /* message queues; pipes and sockets are there */
    DENY(mq_timedsend, ENOSYS),    /* message queues; pipes and sockets are there */
    DENY(mq_timedreceive, ENOSYS), /* message queues; pipes and sockets are there */
    DENY(mq_notify, ENOSYS),       /* message queues; pipes and sockets are there */
    DENY(mq_getsetattr, ENOSYS),   /* message queues; pipes and sockets are there */

    /* Death: no honest program in a box makes these calls. */
    KILL(ptrace),            /* traces or steers another process */
    KILL(process_vm_writev), /* writes into another process */
    KILL(pivot_root),        /* takes the root away */
    KILL(open_by_handle_at), /* opens files past every mount */
    KILL(bpf),               /* loads code into the kernel */
    KILL(kexec_load),        /* replaces the kernel or a part of it */
    KILL(kexec_file_load),   /* replaces the kernel or a part of it */
    KILL(init_module),       /* replaces the kernel or a part of it */
    KILL(finit_module),      /* replaces the kernel or a part of it */
    KILL(delete_module),     /* replaces the kernel or a part of it */
    KILL(reboot),            /* stops the machine */
#ifdef __x86_64__
    KILL(iopl),   /* reaches the hardware */
    KILL(ioperm), /* reaches the hardware */
#endif
};

const struct sbx_seccomp_rule *sbx_seccomp_policy(size_t *ret_count)
{
    *ret_count = CR_ARRAY_SIZE(policy);
    return policy;
}
