#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sandboxd where it cannot start, or is not to."""
import os
import socket
import subprocess
import unittest

import sandboxd_service as lab

lab.need_root()
from sandbox_calls import pb, result_of, services  # noqa: E402


class Start(unittest.TestCase):
    """Starts that must fail, each with one clear sentence."""

    def run_binary(self, *flags, **options):
        binary = os.path.join(lab.BIN, "sandboxd")
        return subprocess.run([binary, *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=90, check=False, text=True, **options)

    def test_version(self):
        done = self.run_binary("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^sandboxd \d+\.\d+\.\d+\n$")

    def test_not_root(self):
        folder = lab.tempfile.mkdtemp(prefix="crisol-user-")
        try:
            os.chmod(folder, 0o755)
            lab.shutil.copy(os.path.join(lab.BIN, "sandboxd"), folder)
            done = subprocess.run([f"{folder}/sandboxd"], user=65534, group=65534, extra_groups=[],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90, check=False,
                                  text=True)
        finally:
            lab.shutil.rmtree(folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("must be started as root", done.stdout)
        self.assertIn("sudo", done.stdout)

    def test_socket_of_a_live_server(self):
        with lab.Service() as service:
            done = self.run_binary(f"--socket={service.socket}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"pid {service.process.pid}", done.stdout)
            stub = services.SandboxServiceStub(service.channel)
            self.assertEqual(result_of(stub, runtime="python", code="pass").verdict.code, pb.VERDICT_CODE_OK)

    def test_port_taken(self):
        folder = lab.tempfile.mkdtemp(prefix="crisol-port-")
        token = os.path.join(folder, "token")
        with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write("0123456789abcdef\n")
        try:
            with socket.socket() as holder:
                holder.bind(("127.0.0.1", 0))
                holder.listen()
                port = holder.getsockname()[1]
                done = self.run_binary(f"--socket={folder}/s", f"--listen=127.0.0.1:{port}",
                                       f"--token-file={token}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(port), done.stdout)
            self.assertIn(str(os.getpid()), done.stdout)
            self.assertFalse(os.path.exists(f"{folder}/s"))
        finally:
            lab.shutil.rmtree(folder)

    def test_bad_settings(self):
        for flag, text in (("--slots=many", "--slots"), ("--nonsense", "--nonsense"),
                           ("--listen=127.0.0.1:0", "--token-file"), ("--log-level=loud", "--log-level")):
            done = self.run_binary(flag)
            self.assertEqual(done.returncode, 1, flag)
            self.assertIn(text, done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=1)
