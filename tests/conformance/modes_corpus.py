# SPDX-License-Identifier: Apache-2.0
"""What is run in every way to start a program, and must look the same in all of them.

PYTEST and PYTHON: name -> {path: text}. The tests that fail do so on purpose: then pytest shows
what it captured, and that is compared.
"""
import textwrap

PYTEST = {}
PYTHON = {}
SHOW = "\n\ndef test_show():\n    show()\n    raise AssertionError('shown')\n"


def add(name, test, files=None, **more):
    cases = {f"test_{name}.py": textwrap.dedent(test)}
    for path, text in {**(files or {}), **more}.items():
        cases[path] = textwrap.dedent(text)
    PYTEST[name] = cases


def show(name, text, files=None):
    """A case whose function show() prints what is compared."""
    add(name, textwrap.dedent(text) + SHOW, files)


def program(name, main, **files):
    PYTHON[name] = {"main.py": textwrap.dedent(main), **files}


# ---- outcomes ----

add("plain", """
    def test_sum():
        assert sum(range(4)) == 6
""")
add("neighbour", """
    from solution import double

    def test_right():
        assert double(4) == 8

    def test_wrong():
        assert double(4) == 9
""", {"solution.py": """
    def double(number):
        return number * 2
"""})
add("expected_failures", """
    import pytest

    @pytest.mark.xfail(reason="known")
    def test_known():
        assert False

    @pytest.mark.xfail
    def test_surprise():
        pass

    @pytest.mark.xfail(raises=KeyError)
    def test_other_error():
        raise IndexError(1)

    def test_by_call():
        pytest.xfail("inside")
""")
add("skips", """
    import pytest

    @pytest.mark.skip(reason="never")
    def test_mark():
        pass

    @pytest.mark.skipif("1 < 2", reason="always")
    def test_condition():
        pass

    def test_call():
        pytest.skip("now")

    def test_missing():
        pytest.importorskip("no_such_module_here")
""")
add("ids", """
    import pytest

    class Thing:
        pass

    @pytest.mark.parametrize("left, right", [
        (1, "one"), ("ä", None), (b"\\x00", 2.5), (Thing, len), (True, {}), pytest.param(0, 0, id="named one")])
    def test_pair(left, right):
        assert left != 1

    @pytest.mark.parametrize("outer", "xy")
    class TestGrid:
        @pytest.mark.parametrize("inner", range(3))
        def test_cell(self, outer, inner):
            assert (outer, inner) != ("y", 2)
""")
add("marks", """
    import pytest

    @pytest.mark.nobody_registered_this
    def test_it():
        pass
""")
add("unittest_style", """
    import unittest

    class Stack(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            print("class is set up")

        def setUp(self):
            self.items = [1]

        def tearDown(self):
            print("torn down")

        def test_push(self):
            self.items.append(2)
            self.assertEqual(self.items, [1, 2])

        def test_lists(self):
            self.assertListEqual(self.items, [2])

        @unittest.skip("later")
        def test_skipped(self):
            pass

        @unittest.expectedFailure
        def test_expected(self):
            self.assertTrue(False)

        def test_parts(self):
            for part in range(4):
                with self.subTest(part=part):
                    self.assertNotEqual(part, 2)

    class Waits(unittest.IsolatedAsyncioTestCase):
        async def test_awaits(self):
            self.assertIsNotNone(self)
""")
add("fixtures", """
    import pytest

    @pytest.fixture(scope="session", autouse=True)
    def whole():
        print("session begins")
        yield
        print("session ends")

    @pytest.fixture(params=["red", "blue"], scope="module")
    def colour(request):
        yield request.param

    @pytest.fixture
    def broken():
        raise LookupError("set-up")

    @pytest.fixture
    def breaks_later():
        yield
        raise LookupError("tear-down")

    def test_colour(colour):
        assert colour == "red"

    def test_broken(broken):
        pass

    def test_later(breaks_later):
        pass

    def test_both(breaks_later):
        assert 0

    def test_unknown(there_is_no_such_fixture):
        pass
""")
add("raising", """
    import pytest

    def test_matches():
        with pytest.raises(ValueError, match="literal"):
            int("four")

    def test_does_not():
        with pytest.raises(ValueError):
            int("4")

    def test_chain():
        try:
            {}["key"]
        except KeyError as error:
            raise RuntimeError("because of it") from error

    def test_group():
        raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
""")
add("comparisons", """
    import pytest

    def test_text():
        assert "first\\nsecond\\n" == "first\\n2nd\\n"

    def test_long_list():
        assert list(range(60)) == list(range(1, 61))

    def test_sets():
        assert {"a", "b"} == {"b", "c"}

    def test_dictionary():
        assert {"x": 1, "y": {"z": [1, 2]}} == {"x": 1, "y": {"z": [1, 3]}}

    def test_near():
        assert 0.1 + 0.2 == pytest.approx(0.31)

    def test_any():
        assert any(number > 9 for number in (1, 2)), "none is large"
""")
add("data_class", """
    from dataclasses import dataclass
    from enum import Enum

    @dataclass
    class Point:
        x: int
        tags: list

    class Side(Enum):
        LEFT = 1

    def test_points():
        assert Point(1, ["a"]) == Point(1, ["b"])

    def test_sides():
        assert Side.LEFT == 1
""")
add("many", "\n".join(f"def test_{number}():\n    assert {number} % 37\n" for number in range(1, 90)))
add("properties", """
    def test_record(record_property, record_testsuite_property):
        record_property("colour", "green")
        record_testsuite_property("suite", "one")
""")

# ---- output ----

add("descriptors", """
    import os
    import subprocess
    import sys

    def speak(word):
        os.write(1, f"{word} 1\\n".encode())
        os.write(2, f"{word} 2\\n".encode())
        subprocess.run(["/bin/sh", "-c", f"echo {word} 3; echo {word} 4 >&2"], check=True)
        print(word, 5)
        print(word, 6, file=sys.stderr)
        sys.__stdout__.write(f"{word} 7\\n")
        sys.__stdout__.flush()

    def test_hidden():
        speak("hidden")

    def test_shown():
        speak("shown")
        assert False
""")
add("capture_fixtures", """
    import os

    def test_capfd(capfd):
        os.write(1, b"to one\\n")
        os.system("echo to two >&2")
        found = capfd.readouterr()
        assert (found.out, found.err) == ("to one\\n", "to two\\n")

    def test_binary(capfdbinary):
        os.write(1, bytes([255, 254, 0]))
        assert capfdbinary.readouterr().out == bytes([255, 254, 0])

    def test_sys(capsys):
        print("kept")
        assert capsys.readouterr().out == "lost\\n"

    def test_aloud(capsys):
        with capsys.disabled():
            print("heard by everybody")
""")
add("logs", """
    import logging

    logger = logging.getLogger("corpus")

    def test_records(caplog):
        with caplog.at_level(logging.DEBUG):
            logger.debug("fine %d", 1)
        assert caplog.messages == ["fine 1"]

    def test_shown():
        logger.warning("look out")
        logger.info("too low")
        assert False
""")
show("logging_state", """
    import logging

    def show():
        root = logging.getLogger()
        print(root.level, [type(handler).__name__ for handler in root.handlers], len(logging._handlerList))
        print(logging.raiseExceptions, logging.lastResort.level, len(logging.root.manager.loggerDict) > 0)
""")
add("large_output", """
    def test_loud():
        for number in range(4000):
            print(number, "x" * 40)
        assert False
""")
add("unusual_text", """
    def test_naïve():
        print("ñ € 𝄞 \\x1b[31m \\x00 \\u2028")
        assert "ß" == "ss"
""")
add("closed_stdout", """
    import os
    import sys

    def test_closes():
        os.close(1)

    def test_replaces():
        sys.stdout = None
        assert sys.stdout
""")
add("input", """
    import subprocess
    import sys

    def test_reads():
        sys.stdin.read()

    def test_child_reads():
        assert subprocess.run(["cat"], capture_output=True, check=True).stdout == b""
""")
add("warnings", """
    import warnings
    import pytest

    warnings.warn("while importing")

    def test_kinds():
        warnings.warn("old", DeprecationWarning)
        warnings.warn("plain")

    def test_record(recwarn):
        warnings.warn("seen")
        assert [str(item.message) for item in recwarn] == ["seen"]

    def test_expected():
        with pytest.warns(RuntimeWarning, match="odd"):
            warnings.warn("odd", RuntimeWarning)

    @pytest.mark.filterwarnings("error")
    def test_as_error():
        warnings.warn("too much")

    def test_escape():
        compile("'\\\\d'", "made", "eval")
""")

# ---- collection ----

add("missing_import", """
    import there_is_no_module_of_this_name

    def test_never():
        pass
""")
add("broken_solution", """
    from solution import value

    def test_never():
        assert value
""", {"solution.py": "raise OSError('cannot be imported')\n", "test_second.py": "def test_goes_on():\n    pass\n"})
add("syntax_error", "def test_broken(:\n    pass\n")
add("syntax_in_solution", "import solution\n\n\ndef test_never():\n    pass\n", {"solution.py": "value = = 1\n"})
add("no_tests", "number = 1\n")
PYTEST["only_solution"] = {"solution.py": "value = 1\n"}
add("ignored_files", "def test_runs():\n    pass\n", {
    "conftest.py": "raise SystemExit('must not be read')\n",
    "pytest.ini": "[pytest]\naddopts = --collect-only\n",
    "pytest.py": "raise SystemExit('must not be imported')\n",
    "sitecustomize.py": "raise SystemExit('neither')\n"})
add("shadowed_modules", """
    import colorsys
    import difflib
    import json
    import solution

    def test_whose():
        print(colorsys.__file__, difflib.__file__, json.__file__, solution.__file__)
        assert [1] == [2]
""", {"colorsys.py": "name = 1\n", "difflib.py": "name = 2\n", "json.py": "name = 3\n", "solution.py": ""})
add("folders", "def test_top():\n    pass\n", {
    "package/__init__.py": "value = 3\n",
    "package/test_inner.py": "from . import value\n\n\ndef test_value():\n    assert value == 4\n",
    "plain/test_outer.py": "import os\n\n\ndef test_place():\n    assert os.getcwd() == '/workspace'\n",
    "plain/other_test.py": "def test_name():\n    pass\n"})
add("same_names", "def test_top():\n    pass\n", {
    "one/test_twin.py": "def test_first():\n    pass\n", "two/test_twin.py": "def test_second():\n    pass\n"})
add("doctest", '''
    def double(number):
        """
        >>> double(2)
        5
        """
        return number * 2

    def test_real():
        assert double(2) == 4
''')
add("rewriting", """
    from helper import check

    def test_here():
        values = {"a": [1, 2]}
        assert values["a"][1] == len(values), f"{values}"

    def test_there():
        check(3)
""", {"helper.py": "def check(number):\n    assert number == 4\n"})
add("source", """
    import inspect
    import solution

    def test_source():
        print(inspect.getsource(solution.value))
        assert False
""", {"solution.py": "def value():\n    return 'text'\n"})
add("new_module", """
    import importlib
    import solution

    def test_writes():
        with open("made.py", "w", encoding="utf-8") as file:
            file.write("number = 5\\n")
        import made
        assert made.number == 5

    def test_reloads():
        assert importlib.reload(solution) is solution
""", {"solution.py": "number = 1\n"})

# ---- ends ----

add("exit_in_test", "import sys\n\n\ndef test_exits():\n    sys.exit(4)\n\n\ndef test_goes_on():\n    pass\n")
add("exit_at_import", "import sys\nsys.exit(0)\n")
add("hard_exit", "import os\n\n\ndef test_ends():\n    print('lost')\n    os._exit(9)\n")
add("hard_exit_at_import", "import os\nos._exit(0)\n")
add("pytest_exit", """
    import pytest

    def test_ends():
        pytest.exit("enough", returncode=7)

    def test_never():
        pass
""")
add("interrupted", "def test_interrupt():\n    raise KeyboardInterrupt\n")
add("raised_signal", "import signal\n\n\ndef test_signal():\n    signal.raise_signal(signal.SIGINT)\n")
add("terminated", "import os\nimport signal\n\n\ndef test_end():\n    os.kill(os.getpid(), signal.SIGTERM)\n")
add("killed", "import os\nimport signal\n\n\ndef test_end():\n    os.kill(os.getpid(), signal.SIGKILL)\n")
add("aborted", "import os\n\n\ndef test_abort():\n    os.abort()\n")
add("segfault", "import ctypes\n\n\ndef test_address_one():\n    ctypes.string_at(1)\n")
add("at_exit", """
    import atexit
    import os

    atexit.register(print, "printed at the end")
    atexit.register(os.write, 2, b"written at the end\\n")
    atexit.register(lambda: {}["missing"])

    def test_fails():
        assert False
""")
add("at_exit_pass", "import atexit\nimport os\natexit.register(os._exit, 0)\n\n\ndef test_fails():\n    assert False\n")
add("destructors", """
    class Noisy:
        def __init__(self, name):
            self.name = name
            self.me = self if name == "cycle" else None

        def __del__(self):
            print("gone:", self.name)

    kept = Noisy("module")

    class Holder:
        item = Noisy("class")

    def test_local():
        Noisy("local")

    def test_cycle():
        Noisy("cycle")
""")
add("bad_destructor", """
    class Bad:
        def __del__(self):
            raise ValueError("while going")

    def test_goes():
        Bad()
""")
add("open_file", """
    file = open("left.txt", "w", encoding="utf-8")

    def test_writes():
        file.write("never flushed by hand")
""")
add("late_generator", """
    def steps():
        try:
            yield 1
        finally:
            print("generator closed")

    kept = steps()

    def test_starts():
        assert next(kept) == 1
""")

# ---- processes and threads ----

add("threads", """
    import threading
    from concurrent.futures import ThreadPoolExecutor

    def test_pool():
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]

    def test_failing_thread():
        thread = threading.Thread(target=int, args=("x",), name="worker")
        thread.start()
        thread.join()

    def test_identity():
        print(threading.main_thread().native_id == threading.get_native_id(), threading.active_count())
        print(threading.current_thread(), threading.stack_size())
        assert False
""")
add("late_thread", """
    import os
    import threading
    import time

    def work():
        threading.main_thread().join()  # over as soon as the interpreter begins to end, however long the session took
        time.sleep(0.1)
        os.write(1, b"thread ends after the session\\n")

    def test_leaves_one():
        threading.Thread(target=work).start()
""")
add("forks", """
    import os
    import sys

    def test_exit_code():
        pid = os.fork()
        if pid == 0:
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5

    def test_child_raises():
        pid = os.fork()
        if pid == 0:
            print("in the child")
            sys.exit(6)
        print(os.waitpid(pid, 0)[1] >> 8)
        assert False
""")
add("multiprocessing", """
    import multiprocessing as mp
    import pytest
    from solution import square

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_pool(method):
        with mp.get_context(method).Pool(1) as pool:
            assert pool.map(square, [2, 3]) == [4, 10]

    def test_queue():
        queue = mp.Queue()
        process = mp.Process(target=queue.put, args=("item",))
        process.start()
        assert queue.get(timeout=5) == "item"
        process.join()
""", {"solution.py": "def square(number):\n    return number * number\n"})
add("asynchronous", """
    import asyncio

    async def test_is_not_awaited():
        assert False

    def test_gather():
        async def wait(number):
            await asyncio.sleep(0)
            return number

        async def all_of_them():
            return await asyncio.gather(wait(1), wait(2))

        assert asyncio.run(all_of_them()) == [1, 3]
""")
add("child_pytest", """
    import subprocess
    import sys

    def test_inside():
        with open("/tmp/test_inner.py", "w", encoding="utf-8") as file:
            file.write("def test_inner(): assert 0\\n")
        done = subprocess.run([sys.executable, "-I", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                               "--rootdir=/tmp", "/tmp/test_inner.py"], capture_output=True, text=True)
        print(done.returncode, done.stdout, done.stderr)
        assert False
""")
add("server", """
    import http.server
    import threading
    import urllib.request

    def test_asks_itself():
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.handle_request).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
            assert answer.status == 200
""")

# ---- what a program sees of its process ----

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

# ---- programs ----

program("hello", "print('hello')\n")
program("identity", """
    import os, sys, platform
    print(__name__, __file__, __spec__, __package__, __cached__, sorted(globals()), type(__loader__))
    print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable)
    print(os.getpid(), os.getppid(), os.getuid(), os.getcwd(), os.getsid(0), platform.node(), oct(os.umask(0o22)))
    print(sorted(os.environ.items()))
    print(open("/proc/self/cmdline", "rb").read())
""")
program("modules", "import sys\nprint('\\n'.join(sorted(sys.modules)))\nprint(sorted(sys.path_importer_cache))\n")
program("streams", """
    import os, sys, fcntl
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        print(stream, stream.isatty(), stream.line_buffering, stream.buffer, stream.errors)
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        if os.path.exists(f"/proc/self/fd/{name}"):
            print(name, os.readlink(f"/proc/self/fd/{name}").split("[")[0], fcntl.fcntl(int(name), fcntl.F_GETFL))
    print(repr(sys.stdin.read()))
""")
program("helper", "import helper\nprint(helper.value, helper.__file__)\n", **{"helper.py": "value = 8\n"})
program("error", "def fail():\n    raise ValueError('in here')\n\n\nfail()\n")
program("syntax", "print('never'\n")
program("exit_code", "import sys\nsys.exit(17)\n")
program("exit_text", "import sys\nprint('out')\nsys.exit('a reason')\n")
program("destructor", """
    class Noisy:
        def __del__(self):
            print("gone")
    kept = Noisy()
    file = open("left.txt", "w")
    file.write("flushed at the end")
""")
program("at_exit", "import atexit\natexit.register(print, 'last')\nprint('first')\n")
program("frames", """
    import sys
    def depth(number=0):
        try:
            return depth(number + 1)
        except RecursionError:
            return number
    print(sys._getframe().f_back, depth())
""")
program("segfault", "import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(1)\n")
program("processes", """
    import multiprocessing, subprocess, sys
    def work(number):
        return number + 1
    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(work, [1, 2]))
        print(subprocess.run([sys.executable, "-c", "import os; print(os.getpid() > 3)"], capture_output=True).stdout)
""")
program("threads", """
    import asyncio, threading
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()
    print(threading.main_thread().native_id == threading.get_native_id())
    asyncio.run(asyncio.sleep(0))
""")
program("randomness", "import random\nrandom.seed(1)\nprint(random.random())\nprint(random.Random().random() != 0.5)\n")
program("signals", """
    import signal
    print([(number, signal.getsignal(number)) for number in sorted(signal.valid_signals())
           if signal.getsignal(number) != signal.SIG_DFL])
    signal.raise_signal(signal.SIGTERM)
""")
program("interrupt", "import signal\nsignal.raise_signal(signal.SIGINT)\n")
program("collector", "import gc\nprint(gc.get_freeze_count(), gc.get_threshold(), gc.isenabled())\n")
program("limits", """
    import resource
    print([(name, resource.getrlimit(getattr(resource, name))) for name in sorted(vars(resource))
           if name.startswith("RLIMIT_")])
    print([line for line in open("/proc/self/status") if line.startswith(("Uid", "Gid", "Groups", "NSpid", "Cap"))])
""")
PYTHON["missing"] = {"other.py": "print('never')\n"}
PYTHON["folder"] = {"main.py/__main__.py": "import sys\nprint('a folder', sys.path[0])\n"}

# With arguments of the request, the same again: those in which more than the outcome matters.
# With more failures than one; what it may tell of its arguments is compared, too.
add("failures", """
    import sys
    def test_passes(request):
        config = request.config
        print(sys.argv, sys.orig_argv, config.invocation_params.args, config.getoption("maxfail"))
    def test_shows(request):
        test_passes(request)
        raise AssertionError("first")
    def test_fails():
        raise AssertionError("second")
    class TestMore:
        def test_passes(self):
            pass
    """, {"test_more.py": "import missing\n"})
add("broken_setup", """
    import pytest
    @pytest.fixture
    def broken():
        yield 1
        raise RuntimeError("at the end")
    def test_twice(broken):
        assert broken == 2
    def test_after():
        pass
    """)
STOPPING = (
    "failures", "broken_setup", "skips", "ids", "fixtures", "capture_fixtures", "warnings", "ignored_files", "at_exit",
    "identity", "module_list", "hooks", "plugins")
SHALLOW = (
    "skips", "ids", "fixtures", "descriptors", "capture_fixtures", "warnings", "ignored_files", "shadowed_modules",
    "at_exit", "open_file", "threads", "identity", "descriptor_table", "module_list", "hooks", "plugins")
