# SPDX-License-Identifier: Apache-2.0
"""What a program sees of its process."""
from .cases import add, show

show("identity", """
    import os
    import platform
    import sys

    def show():
        print(os.getpid(), os.getppid(), os.getuid(), os.getgid(), os.getgroups(), os.getsid(0), os.getpgrp())
        print(os.getcwd(), oct(os.umask(0o22)), platform.node(), sys.argv, sys.orig_argv)
        print(sys.executable, sys.prefix, sys.flags, sys.dont_write_bytecode, sys.path)
        print(sorted(os.environ.items()))
        main = sys.modules["__main__"]
        print(main.__name__, main.__file__, main.__spec__, main.__package__, sorted(vars(main)))
""")
show("descriptor_table", """
    import fcntl
    import os

    def show():
        for name in sorted(os.listdir("/proc/self/fd"), key=int):
            try:
                target = os.readlink(f"/proc/self/fd/{name}").split("[")[0].split("#")[0]
                print(name, target, os.get_inheritable(int(name)), fcntl.fcntl(int(name), fcntl.F_GETFL))
            except OSError:
                print(name, "of the listing")
        print(os.open("/dev/null", os.O_RDONLY))
""")
show("rights", """
    import os

    def show():
        wanted = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
                  "SigIgn", "SigCgt", "SigBlk", "Threads", "NSpid")
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.split(":")[0] in wanted:
                    print(line.strip())
        print(sorted(os.listdir("/proc")), os.path.exists("/proc/1"), os.stat("/proc/self/maps").st_uid)
        for path in ("/proc/1/status", "/dev/kmsg", "/etc/shadow"):
            try:
                open(path, encoding="ascii").close()
                print(path, "opened")
            except OSError as error:
                print(path, error.errno)
        with open("/proc/self/cgroup", encoding="ascii") as file:
            print(sorted(line.split(":")[2].strip() for line in file))
""")
show("limits", """
    import resource
    import sys

    def show():
        for name in sorted(vars(resource)):
            if name.startswith("RLIMIT_"):
                print(name, resource.getrlimit(getattr(resource, name)))
        print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.stdout.encoding, sys.__stdout__.line_buffering)
        print(sys.__stdin__, sys.__stderr__)
""")
show("signals", """
    import signal

    def show():
        for number in sorted(signal.valid_signals()):
            handler = signal.getsignal(number)
            if handler != signal.SIG_DFL:
                print(number, handler)
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))
""")
show("module_list", """
    import sys

    modules = sorted(sys.modules)

    def show():
        print("\\n".join(modules))
""")
show("collector_state", """
    import gc

    def show():
        print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks, gc.garbage, gc.get_debug())
""")
show("frames", """
    import sys

    def depth(number=0):
        try:
            return depth(number + 1)
        except RecursionError:
            return number

    def show():
        frame, names = sys._getframe(), []
        while frame:
            names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
            frame = frame.f_back
        print("\\n".join(names))
        print(depth())
""")
show("hooks", """
    import sys
    import threading

    def show():
        print(sys.excepthook, sys.unraisablehook, sys.displayhook, sys.gettrace(), sys.getprofile())
        print(threading.excepthook, sys.meta_path, sys.path_hooks, sorted(sys.path_importer_cache))
        print(sys.get_asyncgen_hooks(), sys.getdlopenflags())
""")
show("plugins", """
    import pytest

    config = None

    @pytest.fixture(autouse=True)
    def keep(request):
        global config
        config = request.config

    def show():
        print(config.rootpath, config.inipath, config.args, config.invocation_params.args, config.option)
        print(config.known_args_namespace)
        print(sorted(name for name, _ in config.pluginmanager.list_name_plugin() if not name.isdigit()))
""")
add("randomness", """
    import random
    import secrets
    import tempfile
    import uuid

    def test_seeded():
        random.seed(7)
        print(random.random(), random.getrandbits(40))
        assert False

    def test_fresh():
        assert len({random.random(), random.random(), secrets.token_hex(), str(uuid.uuid4())}) == 4

    def test_names():
        with tempfile.NamedTemporaryFile() as file:
            assert file.name.startswith("/tmp/")
""")
add("temporary_folders", """
    import os

    def test_first(tmp_path):
        (tmp_path / "file").write_text("text")
        print(tmp_path, oct(tmp_path.stat().st_mode), tmp_path.stat().st_uid, sorted(os.listdir("/tmp")))
        assert False

    def test_second(tmp_path, tmp_path_factory, monkeypatch):
        monkeypatch.chdir(tmp_path)
        print(os.getcwd(), tmp_path_factory.mktemp("made"))
        assert False

    def test_third():
        assert os.getcwd() == "/workspace"
""")
add("clock", """
    import datetime
    import time

    def test_zone():
        print(time.tzname, datetime.datetime.now().astimezone().tzinfo)
        assert False

    def test_order():
        assert 0 < time.process_time() < 5 and abs(time.time() - datetime.datetime.now().timestamp()) < 5
""")
add("mocks", """
    from unittest import mock

    def test_patch():
        with mock.patch("os.getcwd", return_value="elsewhere") as patched:
            import os
            assert os.getcwd() == "elsewhere"
        patched.assert_called_once_with(1)
""")
add("database", """
    import sqlite3

    def test_memory():
        connection = sqlite3.connect(":memory:")
        assert connection.execute("select 6 * 7").fetchone() == (41,)
""")
add("fault_handler", """
    import faulthandler

    def test_enabled():
        assert faulthandler.is_enabled()
        faulthandler.dump_traceback(file=open("/workspace/trace.txt", "w"))
""")
add("breakpoint", "def test_stops():\n    breakpoint()\n")
