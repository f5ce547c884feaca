# SPDX-License-Identifier: Apache-2.0
import logging
import subprocess
import sys
import threading
import warnings

import pytest


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "numbers"
    path.write_text("1 2 3")
    return [int(n) for n in path.read_text().split()]


@pytest.mark.parametrize("n", range(40))
def test_many(n, tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.setenv("N", str(n))
    (tmp_path / "f").write_text(str(n))
    print(n)
    logging.getLogger("x").warning("n %d", n)
    assert (tmp_path / "f").read_text() + "\n" == capsys.readouterr().out
    assert caplog.records


def test_fixture(numbers):
    assert sum(numbers) == 6


def test_raises():
    with pytest.raises(ZeroDivisionError):
        _ = 1 / 0
    with pytest.warns(UserWarning):
        warnings.warn("careful")


def test_child_and_thread():
    assert subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True).stdout == "42\n"
    done = []
    thread = threading.Thread(target=done.append, args=(1,))
    thread.start()
    thread.join()
    assert done == [1]
