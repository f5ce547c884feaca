# SPDX-License-Identifier: Apache-2.0
"""How a template of pytest gets ready. Runs in a namespace of its own, inside the interpreter.

boot.c calls warm() once, then install() (deep) or serve_here() (shallow). serve() is of serve.c:
it returns only in a child, and then nothing of this file may be seen by the tests. Modules that
this file imports are loaded by pytest itself, too.
"""
import atexit
import gc
import linecache
import logging
import os
import shutil
import sys
import threading
import time
import types

FOLDER = "/workspace"
PLUGIN = "crisol_fork"
# What an object does that goes when the interpreter ends may be seen: then it has to end in full.
# Destructors, also of futures, coroutines and databases in files; files that close themselves, or
# that are one more with the descriptor of a stream. Each: all of it in one file.
LATE_CODE = (
    (b"__del__",), (b"weakref",), (b"async",), (b"shelve",), (b"dbm",),
    (b"def close(", b"IO"), (b"fdopen",), (b"open(1",), (b"open(2",), (b"fileno",), (b"TextIOWrapper",), (b"Buffered",),
    (b"closefd",),
)
READ_MOST = 256 << 10  # bytes of a file: what is read takes memory that its program could have

# What most test files do: pass, fail, compare, raise, capture, use fixtures, import a neighbour.
# What shows a failure reads tokens up to the next statement only where that is lines away.
FILES = {
    "solution.py": "def add(a, b):\n    return a + b\n",
    "test_solution.py": '''import pytest
from solution import add
class TestAdd:
    def test_method(self):
        assert add("a", "b") == "ab"
def test_plain(capsys):
    print("x")
    assert capsys.readouterr().out == "x\\n"
@pytest.mark.parametrize("value", [1, 2])
def test_each(value):
    with pytest.raises(TypeError):
        add(value, "x")
def test_wrong():
    assert [add(1, 2), 2] == [4, 2]

def test_behind():
    pass
''',
}
# Only in a trial, which is thrown away: tmp_path leaves a callback for the end of the interpreter.
TRIAL_FILES = dict(FILES, **{"test_more.py": '''def test_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("NAME", "value")
'''})

natural_end = False


class Probe:
    """Sees which modules pytest alone has loaded when it begins to collect."""

    modules = None

    def pytest_collection(self):
        if Probe.modules is None:
            Probe.modules = set(sys.modules)


def write_files(files):
    for name, text in files.items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)


def remove_files():
    for name in os.listdir(FOLDER):
        path = os.path.join(FOLDER, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def forget_modules():
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(FOLDER):
            del sys.modules[name]


def run_sessions(count):
    import pytest
    for _ in range(count):
        pytest.main(sys.argv[1:], plugins=[Probe()])
        forget_modules()


def with_silence(action):
    """Its output goes nowhere, at the level of file descriptors."""
    saved = [os.dup(1), os.dup(2)]
    null = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(null, number)
    try:
        action()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for number, copy in zip((1, 2), saved):
            os.dup2(copy, number)
            os.close(copy)
        os.close(null)


def warm():
    """Two sessions: imports, caches and specialised bytecode are there. What they leave is undone."""
    path, importers = sys.path[:], dict(sys.path_importer_cache)
    handlers, names, callbacks = logging._handlerList[:], dict(logging._handlers), atexit._ncallbacks()
    write_files(FILES)
    with_silence(lambda: run_sessions(2))
    if Probe.modules is None:
        raise RuntimeError("pytest did not come to collect anything")
    if atexit._ncallbacks() != callbacks:
        raise RuntimeError("a session left callbacks for the end of the interpreter")
    for name in set(sys.modules) - Probe.modules:
        del sys.modules[name]
    sys.path[:] = path
    for name in set(sys.path_importer_cache) - set(importers):
        if name.startswith(FOLDER):
            del sys.path_importer_cache[name]
    logging._handlerList[:] = handlers
    logging._handlers.clear()
    logging._handlers.update(names)
    linecache.clearcache()
    remove_files()


def enter_child(is_trial):
    """Right after GO: whatever counts from the start of the interpreter counts from now."""
    global natural_end
    gc.unfreeze()
    logging._startTime = time.time()
    sys.modules["tempfile"]._name_sequence = None
    threading.main_thread()._set_native_id()
    if is_trial:
        write_files(TRIAL_FILES)
    natural_end = has_late_code()


def read_file(path):
    """None when it is large or may not be read, so that nobody knows what its code does."""
    try:
        with open(path, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_size <= READ_MOST else None
    except OSError:
        return None


def may_stay_inside(text):
    """Whether a generator may wait in a block that it leaves when it goes. Those of fixtures pytest ends itself."""
    is_fixture = is_marked = is_text = False
    blocks = []
    for line in text.splitlines():
        code = line.lstrip()
        if not is_text and code[:1] == b"#":
            continue
        if not is_text and code and code[:1] not in b")]}":  # a text of several lines begins at any column
            depth = len(line) - len(code)
            blocks = [block for block in blocks if block < depth]
            if code.startswith(b"@"):
                is_marked = is_marked or b"fixture" in code
            elif code.startswith(b"def "):
                is_fixture, is_marked, blocks = is_marked, False, []
            elif code.startswith((b"with ", b"with(", b"try:")):
                blocks.append(depth)
        is_text ^= (line.count(b'"""') + line.count(b"'''")) % 2 == 1
        if blocks and not is_fixture and b"yield" in code:
            return True
    return False


def has_late_code():
    for folder, _, names in os.walk(FOLDER):
        for name in names:
            if name.endswith(".py"):
                text = read_file(os.path.join(folder, name))
                if text is None or any(all(part in text for part in parts) for parts in LATE_CODE):
                    return True
                if b"yield" in text and may_stay_inside(text):
                    return True
    return False


def wait_for_run():
    gc.collect()
    gc.freeze()
    enter_child(serve())


def serve_here():
    wait_for_run()


def install():
    """A plugin that waits inside the collection; the module of it exists only until then."""
    import pytest

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(session):
        os.environ.pop("PYTEST_PLUGINS", None)
        manager = session.config.pluginmanager
        wait_for_run()
        manager.unregister(plugin)
        del sys.modules[PLUGIN]
        restart_clocks(session, manager)
        if sys.argv[-1] == "-x":
            stop_early(session.config)

    plugin = types.ModuleType(PLUGIN, "PYTEST_DONT_REWRITE")
    plugin.pytest_collection = pytest_collection
    sys.modules[PLUGIN] = plugin
    os.environ["PYTEST_PLUGINS"] = PLUGIN


def stop_early(config):
    """What -x does when pytest reads it in time."""
    params = config.invocation_params
    config.invocation_params = type(params)(args=(*params.args, "-x"), plugins=params.plugins, dir=params.dir)
    config.option.maxfail = config.known_args_namespace.maxfail = 1


def restart_clocks(session, manager):
    """Two reporters remember when the session began."""
    reporter = manager.get_plugin("terminalreporter")
    if reporter:
        reporter.pytest_sessionstart(session=session)
    for plugin in manager.get_plugins():
        if type(plugin).__name__ == "LogXML":
            plugin.pytest_sessionstart()
