#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`sandboxd check` on this host as it is, and with one thing taken away at a time."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sandboxd_service as service  # noqa: E402

SANDBOXD = os.path.join(service.BIN, "sandboxd")


def check(path, *flags, before=()):
    """Returns the exit code and {need: (status, text)}."""
    done = subprocess.run([*before, SANDBOXD, "check", f"--socket={path}", *flags], capture_output=True,
                          text=True, timeout=60, check=False)
    lines = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(PASS|FAIL|GAP|SKIP) +((?:control groups: )?[^:]+)(?:: (.*))?$", line)
        if match:
            status, name, text = match.groups()
            assert name not in lines, f"{name} twice"
            lines[name] = (status, text or "")
    return done.returncode, lines, done.stdout + done.stderr


def a_host_that_can_is_told_so(folder):
    start = time.monotonic()
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"))
    assert code == 0, text
    assert time.monotonic() - start < 30, text
    assert len(lines) >= 30, text
    assert {status for status, _ in lines.values()} == {"PASS"}, text
    assert "sandboxd would start here" in text


def a_missing_capability_is_named(folder):
    for name in ("net_admin", "mknod", "sys_admin"):
        code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"),
                                  before=["setpriv", f"--bounding-set=-{name}", f"--inh-caps=-{name}"])
        failed = [need for need, (status, _) in lines.items() if status == "FAIL"]
        assert code == 1, text
        assert failed == [f"CAP_{name.upper()}"], text
        assert "grant it to the service or container" in text, text


def too_few_open_files_are_named(folder):
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"), before=["prlimit", "--nofile=512:512"])
    assert code == 1 and lines["open files"][0] == "FAIL", text
    assert "at most 512 files" in lines["open files"][1] and "ulimit -Hn" in lines["open files"][1], text
    # Enough to begin with, not for so many runs.
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"), "--slots=64", before=["prlimit", "--nofile=1100:1100"])
    assert code == 1 and lines["open files"][0] == "PASS", text
    status, words = lines["open files for so many runs"]
    assert status == "FAIL" and "64 runs" in words and "1100 is the most" in words and "slots" in words, text


def a_caller_who_is_not_root_is_told_so(folder):
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"),
                              before=["setpriv", "--reuid=65534", "--clear-groups"])
    assert code != 0, text
    # Where the build folder is closed to others, the programs are what is missing.
    assert not lines or "FAIL" in {status for status, _ in lines.values()}, text


def a_socket_in_use_and_a_file_in_the_way_are_named(folder):
    path = os.path.join(folder, "taken.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        code, _, text = check(path)
        assert code == 1 and "served by another program" in text, text
    plain = os.path.join(folder, "plain.sock")
    with open(plain, "w", encoding="utf-8") as file:
        file.write("mine")
    code, lines, text = check(plain)
    assert code == 1 and lines["socket (--socket)"][0] == "FAIL", text
    with open(plain, encoding="utf-8") as file:
        assert file.read() == "mine"


def an_open_token_file_is_refused(folder):
    path = os.path.join(folder, "token")
    with open(path, "w", encoding="utf-8") as file:
        file.write("0123456789abcdef\n")
    os.chmod(path, 0o644)
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"), "--listen=127.0.0.1:0",
                              f"--token-file={path}")
    assert code == 1 and lines["token (--token-file)"][0] == "FAIL", text
    assert "chmod 600" in text


def an_audit_log_in_a_missing_folder_is_named(folder):
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"),
                              f"--audit-log={folder}/missing/audit.log")
    assert code == 1 and lines["audit log (--audit-log)"][0] == "FAIL", text


def an_engine_that_does_not_answer_is_named(folder):
    code, lines, text = check(os.path.join(folder, "s", "sandboxd.sock"), "--backend=docker",
                              f"--docker-socket={folder}/none.sock")
    assert code == 1 and lines["docker engine (--docker-socket)"][0] == "FAIL", text
    assert "program sandboxd-docker" in lines, text


def unknown_words_are_refused(_folder):
    done = subprocess.run([SANDBOXD, "chekc"], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode != 0 and "'chekc' is no command" in done.stderr, done.stderr


def main():
    service.need_root()
    tests = [a_host_that_can_is_told_so, a_missing_capability_is_named, too_few_open_files_are_named,
             a_caller_who_is_not_root_is_told_so,
             a_socket_in_use_and_a_file_in_the_way_are_named, an_open_token_file_is_refused,
             an_audit_log_in_a_missing_folder_is_named, an_engine_that_does_not_answer_is_named,
             unknown_words_are_refused]
    with tempfile.TemporaryDirectory(prefix="crisol-check-") as folder:
        for test in tests:
            test(folder)
            print(f"ok {test.__name__}")


main()
