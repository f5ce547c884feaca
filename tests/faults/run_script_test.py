#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`make up` and scripts/run.sh end when they are told to, with everything that they have started."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import services as crisol  # noqa: E402 (needs the path above)
from sandboxd_service import need_root  # noqa: E402

QUICK = "#!/bin/sh\nexit 0\n"
# Has a child, as a build has compilers.
ENDLESS = "#!/bin/bash\nsleep 3600 &\necho building >&2\nwait\n"


def members(session):
    """Living processes of this session, and of those that its members have opened."""
    found = set(crisol.descendants(session, with_zombies=False)) | {session}
    return {pid for pid in crisol.processes() if pid in found}


class Script(unittest.TestCase):
    """The real Makefile, scripts/run.sh and programs; only what builds is put in its place."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="crisol-script-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("scripts"))
        os.mkdir(self.path("tmp"), 0o755)
        os.mkdir(self.path("store"), 0o700)
        os.chown(self.path("store"), crisol.SERVICE_UID, crisol.SERVICE_UID)
        for name in ("Makefile", "clients", "scripts/run.sh"):
            os.symlink(os.path.join(crisol.SOURCE, name), self.path(name))
        os.symlink(crisol.BUILD, self.path("build"))
        self.write("scripts/deps.sh", QUICK)
        self.write("scripts/build.sh", QUICK)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755)

    def start(self, *argv, until):
        """Starts it in a session of its own, as a terminal would; waits for a line that it prints."""
        log = self.path("log")
        with open(log, "wb") as out:
            process = subprocess.Popen(argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True,
                                       env={"PATH": os.environ["PATH"], "TMPDIR": self.path("tmp"),
                                            "CRISOL_SOCKET": self.path("s/sandboxd.sock"),
                                            # of its own: somebody else may run the services on this machine
                                            "CRISOL_STORE": f"sqlite:{self.path('store')}/runs.db",
                                            "CRISOL_LISTEN": "127.0.0.1:0", "CRISOL_HTTP": "127.0.0.1:0"})

        def read():
            with open(log, encoding="utf-8", errors="replace") as file:
                text = file.read()
            assert until in text or process.poll() is None, text
            return until in text
        self.addCleanup(self.clean, process)
        crisol.wait_for(read, 30, f"it prints {until}")
        return process

    @staticmethod
    def clean(process):
        for pid in members(process.pid) if process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def must_end(self, process, family, code):
        crisol.wait_for(lambda: process.poll() is not None, 15, "it ends")
        self.assertEqual(process.returncode, code)
        try:
            crisol.wait_for(lambda: not family & set(crisol.processes()), 5, "all of it has ended")
        except AssertionError:
            self.fail(f"still there: { {pid: what for pid, what in crisol.processes().items() if pid in family} }")
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertFalse(os.path.exists(self.path("s/sandboxd.sock")))

    def up(self):
        process = self.start("make", "up", until="Ctrl-C stops everything")

        def is_complete():  # what follows the logs comes right behind that line
            names = " ".join(command for pid, (_, command) in crisol.processes().items() if pid in members(process.pid))
            return all(name in names for name in
                       ("sandboxd", "sandboxd-front", "sandboxd-native", "orchestrator", "gemini-replay", "tail"))
        crisol.wait_for(is_complete, 5, "each of its processes is there")
        return process, members(process.pid)

    def test_ctrl_c_ends_both_services_and_leaves_nothing(self):
        process, family = self.up()
        os.killpg(process.pid, signal.SIGINT)
        self.must_end(process, family, -signal.SIGINT)

    def test_term_to_make_ends_both_services_and_leaves_nothing(self):
        process, family = self.up()
        process.terminate()
        self.must_end(process, family, -signal.SIGTERM)

    def test_a_service_that_ends_takes_the_other_along(self):
        process, family = self.up()
        os.kill(next(pid for pid, (_, command) in crisol.processes().items()
                     if pid in family and command.startswith(self.path("build/bin/orchestrator"))), signal.SIGKILL)
        self.must_end(process, family, 2)

    def test_a_signal_ends_the_build_and_all_that_it_has_started(self):
        self.write("scripts/build.sh", ENDLESS)
        for mode in ("demo", "up"):
            for number in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(mode=mode, number=number):
                    process = self.start("scripts/run.sh", mode, until="building")
                    family = members(process.pid)
                    self.assertGreaterEqual(len(family), 3, family)
                    os.kill(process.pid, number)
                    self.must_end(process, family, 128 + number)


if __name__ == "__main__":
    need_root()
    unittest.main(verbosity=1)
