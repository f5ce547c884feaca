# SPDX-License-Identifier: Apache-2.0
"""What tests write, and what pytest makes of it."""
from .cases import add, show

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
