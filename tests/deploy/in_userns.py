#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Runs a command as a container with a user namespace of its own does (a pod with hostUsers: false): root of four million ids
that are nobody's on the host, namespaces that belong to it, a /proc that nothing covers, and control groups that it owns.

Usage: in_userns.py GROUP COMMAND…   GROUP: name of the control groups, which the caller removes
"""
import ctypes
import os
import sys

FIRST, COUNT = 1000000000, 1 << 22
NEW = 0x10000000 | 0x20000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000  # user, mount, pid, net, ipc, uts


def own_groups(name):
    """Makes them in every hierarchy that limits or freezes something, gives them away, and enters them."""
    roots = [path for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/pids",
                         "/sys/fs/cgroup/freezer", "/sys/fs/cgroup")
             if os.path.exists(os.path.join(path, "cgroup.procs"))]
    for root in roots:
        group = os.path.join(root, name)
        os.makedirs(group, exist_ok=True)
        for path in (group, *(os.path.join(group, entry) for entry in os.listdir(group))):
            os.chown(path, FIRST, FIRST)
        with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))


def inside(ready, go, command):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.write(ready, b"x")
    os.read(go, 1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    pid = os.fork()
    if pid == 0:
        libc.prctl(1, 9)  # PR_SET_PDEATHSIG: all of it ends with us
        script = 'mount --make-rprivate / && mount -t proc proc /proc && ip link set lo up && exec "$@"'
        os.execvp("sh", ["sh", "-c", script, "sh", *command])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    own_groups(sys.argv[1])
    (ready, is_ready), (go, goes) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(inside(is_ready, go, sys.argv[2:]))
    os.read(ready, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
            file.write(f"0 {FIRST} {COUNT}")
    os.write(goes, b"x")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
