# SPDX-License-Identifier: Apache-2.0
# The program of a sandbox that lives on, for code in Python: runs one cell after the other in one
# namespace. Standard input is a socket (sandboxd/wire/boxctl.h, struct sbx_cell_word): each message
# brings the streams of a cell, and the answer is its exit code. Whatever runs in here can answer in
# its place; that is its own claim, as an exit code always is.
import builtins
import linecache
import os
import socket
import struct
import sys
import traceback
import types

WORD = struct.Struct("=Ii")
ENTRY = os.path.abspath(sys.argv[1])


def open_streams():
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True, line_buffering=True)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # nobody reads it, or the cell closed it
            pass


def exit_code(error):
    """As the interpreter itself makes one of a SystemExit."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 255
    print(error.code, file=sys.stderr)
    return 1


def run(number, space):
    name = f"<cell {number}>"
    try:
        with open(ENTRY, encoding="utf-8") as file:
            source = file.read()
        # Else a traceback would show the lines of the cell that came last.
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), space)
    except SystemExit as error:
        return exit_code(error)
    except BaseException as error:
        shown = error.__traceback__
        while shown and shown.tb_frame.f_code.co_filename != name:
            shown = shown.tb_next  # our own frames
        traceback.print_exception(type(error), error, shown)
        return 1
    return 0


def serve():
    word = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    ours = sys.modules["__main__"]  # its names are ours: it must not go
    sys.modules["__main__"] = main
    sys.argv = [sys.argv[1]]
    pid = os.getpid()
    while True:
        message, fds, _, _ = socket.recv_fds(word, WORD.size, 3)
        if len(message) != WORD.size or len(fds) != 3:
            os._exit(0)
        number = WORD.unpack(message)[0]
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
            os.close(fd)
        open_streams()
        code = run(number, main.__dict__)
        flush()
        if os.getpid() != pid:
            os._exit(code)  # a child of the cell, which forked
        for target in range(3):
            os.dup2(null, target)
        word.send(WORD.pack(number, code))


serve()
