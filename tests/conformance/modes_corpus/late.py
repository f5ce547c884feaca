# SPDX-License-Identifier: Apache-2.0
"""What is seen only when the interpreter ends in full: objects that do something as they go, and buffers of others."""
from .cases import PYTEST, add

add("late_c_output", """
    import ctypes

    libc = ctypes.CDLL(None)

    def test_prints():
        libc.puts(b"in a buffer of the C library")
""")
add("late_coroutines", """
    from solution import fetch

    result = fetch(1)

    def test_passes():
        assert result
""", {"solution.py": "async def fetch(number):\n    return number\n"})
add("late_futures", """
    import solution

    def test_leaves_one():
        solution.make()
""", {"solution.py": """
    import asyncio

    kept = []

    def make():
        loop = asyncio.new_event_loop()
        kept.append(loop.create_future())
        kept[0].set_exception(ValueError("nobody asks"))
        loop.close()
    """})
add("late_blocks", """
    class Noisy:
        def __enter__(self):
            return self

        def __exit__(self, *details):
            print("left the block")

    def inside():
        with Noisy():
            yield 1

    def tried():
        try:
            yield 2
        except GeneratorExit:
            print("asked to leave")
            raise

    kept = [inside(), tried()]

    def test_starts():
        assert [next(steps) for steps in kept] == [1, 2]
""")
add("late_files", """
    import io

    class Sink(io.StringIO):
        def close(self):
            print("closed by itself")
            super().close()

    kept = Sink()

    def test_writes():
        kept.write("text")
""")
add("late_descriptor", """
    out = open(1, "w", closefd=False)

    def test_writes():
        out.write("in a buffer above descriptor 1\\n")
""")
add("late_handle", """
    out = open(1, "w")

    def test_writes():
        out.write("in one more buffer above descriptor 1\\n")
""")
add("late_fdopen", """
    import os

    out = os.fdopen(1, "w")

    def test_writes():
        out.write("in a buffer of its own\\n")
""")
add("late_wrapper", """
    import io
    import sys

    out = io.TextIOWrapper(sys.__stdout__.buffer, encoding="utf-8")

    def test_writes():
        out.write("in a buffer above a buffer\\n")
""")
PYTEST["late_text_in_block"] = {"test_late_text_in_block.py": """
class Noisy:
    def __enter__(self):
        return self

    def __exit__(self, *details):
        print("left the block")

def inside():
    with Noisy():
        text = '''
at the margin
'''
        yield text

kept = inside()

def test_starts():
    assert next(kept) == "\\nat the margin\\n"
"""}
add("late_database", """
    import dbm.dumb

    kept = dbm.dumb.open("kept", "n")

    def test_writes():
        kept["key"] = "value"
""")
add("late_stream", """
    import atexit
    import io
    import sys

    def replace():
        print("for the first stream")
        sys.stdout = io.StringIO()

    atexit.register(replace)

    def test_passes():
        pass
""")
# Who looks for late code may read no more than pytest does, and must not take the memory for it.
PYTEST["late_unknown"] = {"test_late_unknown.py": ("""
import os
import pytest

def test_cannot():
    with pytest.raises(PermissionError):
        open("closed.py", encoding="utf-8")
"""), "closed.py": ("raise SystemExit('never')\n", 0o200)}
add("late_modules", """
    import atexit
    import sys
    import types

    atexit.register(print, "the last word")

    def test_replaces():
        sys.modules["atexit"] = types.SimpleNamespace(_run_exitfuncs=lambda: print("of somebody else"))
""")
