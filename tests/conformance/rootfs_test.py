#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The native backend with the folder of an image as its root file system, in place of the host's /usr."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import lab
from lab import BACKEND, OK, pb

LOOK = """\
import os, pathlib
print(pathlib.Path("/usr/lib/crisol-image").read_text(), pathlib.Path("/usr/local/mark").read_text(),
      pathlib.Path("/opt/mark").read_text(), pathlib.Path("/etc/own.conf").read_text(), sep="", end="")
print(sorted(os.listdir("/")))
print(pathlib.Path("/etc/passwd").read_text().splitlines()[1])
for path in ("/usr/x", "/opt/x", "/etc/x", "/.etc/x", "/x"):
    try:
        open(path, "w")
    except OSError as error:
        print(path, error.strerror)
for path in ("/etc/shadow", "/etc/outside", "/opt/outside"):
    try:
        print(path, open(path).read())
    except OSError as error:
        print(path, error.strerror)
"""
SET_ID = "usr/local/whose"


def unpack(folder):
    """The root file system of the docker tests, without what nobody looks for here."""
    script = os.path.join(lab.host.SOURCE, "scripts", "image.sh")
    made = subprocess.run([script, "--archive"], capture_output=True, text=True, check=False, timeout=600)
    if made.returncode != 0:
        print(f"skipped: there is no image: {made.stderr.strip()[-300:]}")
        sys.exit(77)
    subprocess.run(["tar", "-C", folder, "--exclude=./usr/share", "--exclude=./dev", "-xf", made.stdout.strip()],
                   check=True, timeout=120)
    for name in ("usr/lib/crisol-image", "usr/local/mark", "opt/mark", "etc/own.conf"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f"{os.path.basename(name)}\n")
    # Links of an image lead nowhere on the host.
    for name in ("etc/outside", "opt/outside"):
        os.symlink("/../../etc/machine-id", os.path.join(folder, name))
    # Says whose rights it has: root's for whoever may run it, were it not for the controls.
    shutil.copy(os.path.join(folder, "usr/bin/id"), os.path.join(folder, SET_ID))
    os.chmod(os.path.join(folder, SET_ID), 0o6755)


@unittest.skipIf(BACKEND != "native", "docker takes images as they are")
class Rootfs(lab.Suite):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="crisol-rootfs-")
        os.chmod(cls.folder, 0o755)
        unpack(cls.folder)
        cls.flags = (f"--rootfs={cls.folder}",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def test_programs_see_the_image_and_cannot_change_it(self):
        lines = self.output(LOOK).splitlines()
        self.assertEqual(lines[:4], ["crisol-image", "mark", "mark", "own.conf"])
        self.assertIn("'opt'", lines[4])
        self.assertIn("sandbox:x:1000:1000", lines[5])
        self.assertEqual(lines[6:11], [f"{path} Read-only file system"
                                       for path in ("/usr/x", "/opt/x", "/etc/x", "/.etc/x", "/x")])
        self.assertEqual(lines[11:], ["/etc/shadow Permission denied", "/etc/outside No such file or directory",
                                      "/opt/outside No such file or directory"])

    def test_set_id_programs_of_an_image_have_no_effect(self):
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest(f"nor have they on this host: {self.folder} is mounted with nosuid")
        outside = subprocess.run(["setpriv", "--reuid=65000", "--regid=65000", "--clear-groups",
                                  os.path.join(self.folder, SET_ID)], capture_output=True, text=True, check=True, timeout=60)
        self.assertIn("euid=0(root)", outside.stdout)
        inside = self.output(f"import subprocess\nsubprocess.run(['/{SET_ID}'])\n"
                             f"import shutil, os; shutil.copy('/{SET_ID}', 'own'); os.chmod('own', 0o6755)\nsubprocess.run(['./own'])")
        self.assertEqual(len(inside.splitlines()), 2, inside)
        for line in inside.splitlines():
            self.assertTrue(line.startswith("uid=1000(sandbox) gid=1000(sandbox)"), line)
            self.assertNotIn("euid", line)

    def test_the_runtimes_are_those_of_the_image_and_the_policy_says_so(self):
        names = [runtime.name for runtime in self.stub.ListRuntimes(pb.ListRuntimesRequest(), timeout=90).runtimes]
        self.assertEqual(names, ["pytest", "python", "shell"])
        result = self.must(OK, self.shell("true"))
        details = {control.name: control.detail for control in result.policy.controls}
        self.assertEqual(details["rootfs"], "read-only, an image's folder")
        self.assertNotEqual(result.timing.start_mode, pb.START_MODE_PRELOAD)
        answer = self.run_code("def test_it():\n    assert 1 + 1 == 2\n", runtime="pytest")
        self.assertEqual(self.must(OK, answer).test_report.passed, 1)

    def test_a_folder_that_cannot_be_one_stops_the_start(self):
        empty = tempfile.mkdtemp(prefix="crisol-rootfs-")
        self.addCleanup(shutil.rmtree, empty)
        for change, reason in ((lambda: None, "has no folder usr"),
                               (lambda: os.symlink("/usr", os.path.join(empty, "usr")), "has no folder usr"),
                               (lambda: os.chmod(empty, 0o777), "writable by root only")):
            change()
            done = self.start(f"--rootfs={empty}")
            errors = [line for line in done.splitlines() if " error " in line]
            self.assertTrue(any("--rootfs: the folder " in line and reason in line for line in errors), done)
            self.assertNotIn(empty, "".join(errors))
        self.assertIn("--rootfs: open the folder: No such file", self.start("--rootfs=/nothing/here"))
        self.assertIn("--rootfs: must be an absolute path", self.start("--rootfs=here"))

    def start(self, flag):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([lab.SANDBOXD, f"--socket={folder}/socket", "--backend=native", flag], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stdout


if __name__ == "__main__":
    lab.main()
