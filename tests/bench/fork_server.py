#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A fork server of pytest without any sandbox, as warm as sandboxd's template, to compare with.

It warms up by the same code (sandboxd/template/boot.py) and forks inside the collection, too. Each
connection to SOCKET brings one byte and the descriptor that standard output is to be; a child runs the
tests of FOLDER, and the answer is its wait status. Isolation: none at all.

Usage: fork_server.py SOCKET FOLDER     (FOLDER is empty; the tests come into it once SOCKET is there)
"""
import array
import atexit
import importlib.util
import os
import socket
import stat
import struct
import sys
import threading

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPORARY = "temporary file"


def load_boot(folder):
    spec = importlib.util.spec_from_file_location("boot", os.path.join(SOURCE, "sandboxd", "template", "boot.py"))
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    boot.FOLDER = folder
    return boot


def stand_in_output():
    """A pipe each for 1 and 2, so that every later copy of them can be told by what it is."""
    keys = {}
    for number in (1, 2):
        _, end = os.pipe()
        os.dup2(end, number)
        os.close(end)
        status = os.fstat(number)
        keys[status.st_dev, status.st_ino] = number
    return keys


def copies(keys):
    """(descriptor, what it is a copy of, whether a program inherits it): what capture has made of the output."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
        except OSError:  # the one of the listing
            continue
        origin = keys.get((status.st_dev, status.st_ino))
        if origin is None and stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
            origin = TEMPORARY
        if origin:
            found.append((int(name), origin, os.get_inheritable(int(name))))
    return found


def become_child(found, output):
    """Every child has an output and temporary files of its own."""
    for number, origin, is_inherited in found:
        source = os.dup(output) if origin == 1 else os.open("/dev/null", os.O_WRONLY)
        if origin == TEMPORARY:
            os.close(source)
            source = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
        os.dup2(source, number, is_inherited)
        os.close(source)
    os.close(output)


def serve_on(path, keys):
    """Returns only in a child."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(8)
    found = copies(keys)
    while True:
        caller, _ = listener.accept()
        with caller:
            data, control, _, _ = caller.recvmsg(1, socket.CMSG_SPACE(4))
            if not data or not control:
                continue
            output = array.array("i", control[0][2])[0]
            pid = os.fork()
            if pid == 0:
                listener.close()
                caller.close()
                become_child(found, output)
                return False
            os.close(output)
            caller.send(struct.pack("i", os.waitpid(pid, 0)[1]))


def finish(code):
    """The end of a program without the walk over every object, as sandboxd/template/boot.c has it."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    path, folder = sys.argv[1:]
    os.chdir(folder)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # As in sandboxd/runtimes/table.c.
    sys.argv[1:] = ["-q", "-c", "/dev/null", f"--rootdir={folder}", "--noconftest", "-p", "no:cacheprovider",
                    "--strict-markers", "-o", "xfail_strict=true", f"--junitxml={folder}/.crisol-report.xml"]
    import pytest  # not before the flags of the interpreter and the environment are as they must be
    boot = load_boot(folder)
    boot.warm()
    keys = stand_in_output()
    boot.serve = lambda: serve_on(path, keys)
    boot.install()
    finish(int(pytest.main(sys.argv[1:])))


if __name__ == "__main__":
    main()
