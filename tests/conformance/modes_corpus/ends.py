# SPDX-License-Identifier: Apache-2.0
"""How the interpreter ends."""
from .cases import add

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
