#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The Debian package: what is in it, what lintian says, and that it can be installed, upgraded, removed and purged in a Debian
of its own. tests/deploy/vm.sh starts and stops its services under systemd, in a virtual machine.
"""
import glob
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import lab

FOLDER = tempfile.mkdtemp(prefix="crisol-package-")
ROOT = os.path.join(FOLDER, "root")
PACKAGE = None
UNITS = ("crisol-gc.service", "crisol-gc.timer", "crisol-orchestrator.service", "crisol-sandboxd.service")


def run(*argv, timeout=300, check=True, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False, **more)
    assert not check or done.returncode == 0, f"{' '.join(argv)}: {(done.stdout + done.stderr)[-3000:]}"
    return done


def field(name):
    return run("dpkg-deb", "-f", PACKAGE, name).stdout.strip()


def inside(*argv, check=True):
    return run("chroot", ROOT, *argv, check=check, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})


def setUpModule():
    global PACKAGE
    if os.geteuid() != 0:
        lab.skip("a root file system takes root")
    for tool in ("cpack", "dpkg-shlibdeps"):
        if not shutil.which(tool):
            lab.skip(f"there is no {tool}")
    run("cpack", "--config", os.path.join(lab.BUILD, "CPackConfig.cmake"), "-B", FOLDER, cwd=lab.BUILD)
    (PACKAGE,) = glob.glob(os.path.join(FOLDER, "crisol_*.deb"))
    needed = sorted({re.match(r"\S+", name.strip()).group() for name in field("Depends").replace("|", ",").split(",")})
    base = run(os.path.join(lab.HERE, "bases.sh"), "package", *needed, timeout=1200, check=False)
    if base.returncode != 0:
        lab.skip(f"no Debian can be made here: {base.stderr[-600:]}")
    os.makedirs(ROOT)
    run("tar", "-C", ROOT, "-xf", base.stdout.strip())
    # Nothing is started in a chroot; and dpkg asks nobody.
    shutil.copy(PACKAGE, os.path.join(ROOT, "crisol.deb"))


def tearDownModule():
    shutil.rmtree(FOLDER, True)


class Package(unittest.TestCase):
    def test_it_has_the_programs_units_and_settings(self):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", PACKAGE], stdout=subprocess.PIPE) as process, \
                tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            members = {member.name.lstrip("./"): member for member in tar}
        programs = {os.path.basename(name) for name in members if name.startswith("usr/libexec/crisol/")}
        self.assertLessEqual({"sandboxd", "sandboxd-front", "sandboxd-native", "sandboxd-docker", "sandbox-init", "orchestrator", "crisol",
                              "crisol-template.so"}, programs)
        self.assertEqual({os.path.basename(name) for name, member in members.items() if "systemd/system/" in name and member.isfile()}, set(UNITS))
        self.assertEqual(members["usr/bin/crisol"].linkname, "../libexec/crisol/crisol")
        for name, member in members.items():
            self.assertEqual((member.uid, member.gid), (0, 0), name)
            self.assertFalse(member.mode & 0o6000, name)
            if not member.issym():
                self.assertFalse(member.mode & 0o022, name)
        self.assertNotIn("gemini-replay", programs)
        self.assertLess(os.path.getsize(PACKAGE), 12 << 20)

    def test_what_it_needs_is_what_it_is_linked_with(self):
        needed = field("Depends")
        for name in ("libgrpc29", "libcurl4", "libmicrohttpd12", "libpq5", "libsqlite3-0", "libseccomp2", "libcap2", "python3", "adduser"):
            self.assertRegex(needed, rf"\b{name}\b")

    def test_lintian_finds_nothing(self):
        if not shutil.which("lintian"):
            self.skipTest("there is no lintian (scripts/deps.sh test)")
        done = run("lintian", "--no-cfg", "--fail-on=error,warning", "--allow-root", PACKAGE, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_installed_upgraded_removed_and_purged(self):
        inside("dpkg", "-i", "/crisol.deb")
        self.installed()
        keep = os.path.join(ROOT, "var/lib/crisol/journal.db")
        os.makedirs(os.path.dirname(keep), exist_ok=True)
        with open(keep, "w", encoding="utf-8") as file:
            file.write("runs")
        with open(os.path.join(ROOT, "etc/default/crisol-sandboxd"), "a", encoding="utf-8") as file:
            file.write('SANDBOXD_FLAGS="--slots=3"\n')
        inside("dpkg", "-i", "--force-confold", "/crisol.deb")
        self.installed()
        inside("dpkg", "-r", "crisol")
        self.assertFalse(os.path.exists(os.path.join(ROOT, "usr/libexec/crisol")))
        self.assertFalse(os.path.lexists(os.path.join(ROOT, "usr/bin/crisol")))
        self.assertTrue(os.path.exists(keep))
        with open(os.path.join(ROOT, "etc/default/crisol-sandboxd"), encoding="utf-8") as file:
            self.assertIn("--slots=3", file.read())
        inside("dpkg", "-P", "crisol")
        self.assertEqual(glob.glob(os.path.join(ROOT, "etc/systemd/system/*.wants/crisol*")), [])
        for path in ("var/lib/crisol", "etc/crisol", "etc/default/crisol-sandboxd"):
            self.assertFalse(os.path.exists(os.path.join(ROOT, path)), path)

    def installed(self):
        self.assertRegex(inside("getent", "passwd", "crisol").stdout, r"^crisol:x:\d+:\d+:.*:/var/lib/crisol:/usr/sbin/nologin")
        for unit in ("crisol-sandboxd.service", "crisol-orchestrator.service"):
            self.assertEqual(inside("systemctl", "is-enabled", unit).stdout, "enabled\n")
        self.assertEqual(inside("systemctl", "is-enabled", "crisol-gc.timer", check=False).stdout, "disabled\n")
        self.assertIn("the settings are well formed", inside("/usr/sbin/sandboxd", "--check-config").stdout)
        self.assertIn("the settings are well formed", inside("/usr/libexec/crisol/orchestrator", "--check-config").stdout)
        self.assertIn("Usage: crisol", inside("crisol", "--help").stdout)

    def test_the_orchestrators_unit_leaves_it_little(self):
        """systemd's own measure, from 0 (nothing) to 10; it names 'safe' what is below 5."""
        done = run("systemd-analyze", "security", "--offline=yes", "--threshold=20", os.path.join(lab.DEPLOY, "systemd", "crisol-orchestrator.service"),
                   check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-2500:])

    def test_units_leave_their_services_the_time_to_end(self):
        for program, more in (("sandboxd", lab.SANDBOXD_END_S), ("orchestrator", lab.ORCHESTRATOR_END_S)):
            with open(os.path.join(lab.DEPLOY, "systemd", f"crisol-{program}.service"), encoding="utf-8") as file:
                seconds = int(re.search(r"^TimeoutStopSec=(\d+)s$", file.read(), re.M).group(1))
            self.assertLessEqual(int(lab.settings_of(program, [])["grace-ms"]) / 1000 + more, seconds, program)


if __name__ == "__main__":
    unittest.main(verbosity=1)
