# SPDX-License-Identifier: Apache-2.0
"""The orchestrator as a process: its settings, what it gives up, how it ends, and that it works
without sandboxd. Usage: process_test.py ORCHESTRATOR GEMINI_REPLAY SCRIPT"""
import ctypes
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

ORCHESTRATOR, REPLAY, SCRIPT = sys.argv[1:4]
CANARY = "canary-5b1f0e-not-a-real-key"
# LeakSanitizer traces, which a confined process may not.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "ASAN_OPTIONS": "detect_leaks=0"}
UID = 64903


class Service:
    """A process that prints a line when it is ready."""

    def __init__(self, argv, ready, env=None, preexec=None):
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                      preexec_fn=preexec,
                                      env={**ENVIRONMENT, **(env or {})})
        deadline = time.monotonic() + 120
        while not (found := re.search(ready, self.text())):
            if self.popen.poll() is not None or time.monotonic() > deadline:
                said = self.text()
                self.__exit__()
                raise AssertionError(f"not ready: {said}")
            time.sleep(0.01)
        self.ports = [int(port) for port in found.groups()]

    def text(self):
        # The child writes through the same open file: read without moving its offset.
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(90)
        self.log.close()


def orchestrator(*flags, env=None, preexec=None):
    argv = [ORCHESTRATOR, "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
            "--sandbox=unix:/nonexistent/sandboxd.sock", *flags]
    return Service(argv, r"ready grpc=\S+:(\d+) http=\S+:(\d+)", env, preexec)


PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE_RULESET, ENOSYS = 444, 38


def hide_landlock():
    """What runs from here on sees a kernel without Landlock."""
    code = b"".join(struct.pack("=HBBI", *step) for step in (
        (0x20, 0, 0, 0),                             # load the number of the call
        (0x15, 0, 1, LANDLOCK_CREATE_RULESET),       # this one …
        (0x06, 0, 0, 0x00050000 | ENOSYS),           # … is not there
        (0x06, 0, 0, 0x7fff0000)))                   # all others are
    instructions = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0):
        raise OSError(ctypes.get_errno(), "load a seccomp filter")


def has_landlock():
    """Whether this kernel has it: the version of its interface, or ENOSYS."""
    return ctypes.CDLL(None, use_errno=True).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1) > 0


def refused(*flags, env=None):
    """Runs with bad settings; returns what it says."""
    done = subprocess.run([ORCHESTRATOR, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", *flags],
                          env={**ENVIRONMENT, **(env or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90, check=False)
    assert done.returncode == 1, done
    return done.stdout.decode()


def check_model(env):
    return subprocess.run([ORCHESTRATOR, "--check-model"], env={**ENVIRONMENT, **env}, timeout=90,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def serve_one_404(server, context, seen):
    """Answers 404 to one request over TLS, and keeps its first bytes."""
    server.settimeout(30)
    with context.wrap_socket(server.accept()[0], server_side=True) as client:
        seen.append(client.recv(65536))
        client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


def ask(service, path, body=None):
    """Returns status and JSON."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{service.ports[1]}{path}", data,
                                     {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


SCHED_GETATTR, SHORT_SLICE_NS = 315, 200000


def slice_of(tid):
    """The time slice of a thread; 0 where the kernel (before 6.12) knows none."""
    attr = ctypes.create_string_buffer(56)
    if ctypes.CDLL(None, use_errno=True).syscall(SCHED_GETATTR, int(tid), attr, len(attr), 0) != 0:
        raise OSError(ctypes.get_errno(), "ask for the time slice")
    return struct.unpack_from("=Q", attr, 24)[0]  # after size, policy, flags, nice and priority


class ProcessTest(unittest.TestCase):
    @unittest.skipIf(slice_of(0) == 0, "this kernel has no time slices that may be asked for")
    def test_the_thread_of_http_is_there_soon_when_it_is_asked(self):
        with orchestrator() as service:
            pid = service.popen.pid
            with urllib.request.urlopen(f"http://127.0.0.1:{service.ports[1]}/livez", timeout=90):
                pass  # it turns
            slices = [slice_of(tid) for tid in os.listdir(f"/proc/{pid}/task")]
            self.assertEqual(slices.count(SHORT_SLICE_NS), 1, slices)
            self.assertNotEqual(slice_of(pid), SHORT_SLICE_NS)

    def test_every_privilege_is_given_up(self):
        flags = [f"--user={UID}"] if os.geteuid() == 0 else []
        with orchestrator(*flags) as service:
            status = status_of(service.popen.pid)
            self.assertEqual(status["NoNewPrivs"], "1")
            for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(status[name], 16), 0, name)
            if flags:
                self.assertEqual(status["Uid"].split(), [str(UID)] * 4)
                self.assertEqual(status["Gid"].split(), [str(UID)] * 4)
                self.assertEqual(status["Groups"].strip(), "")
                # Undumpable: what is in /proc of it belongs to root, not to its user.
                self.assertEqual(os.stat(f"/proc/{service.popen.pid}/environ").st_uid, 0)

    def test_it_confines_itself(self):
        with orchestrator() as service:
            status = status_of(service.popen.pid)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
            _, health = ask(service, "/api/v1/health")
            self.assertEqual(health["landlock"], has_landlock())
            said = "confined by seccomp and Landlock version=" if has_landlock() else "no Landlock"
            self.assertIn(said, service.text())
            # Every thread, not only the first.
            for thread in os.listdir(f"/proc/{service.popen.pid}/task"):
                self.assertEqual(status_of(f"{service.popen.pid}/task/{thread}")["Seccomp"], "2")

    def test_it_serves_and_says_so_on_a_kernel_without_landlock(self):
        with orchestrator(preexec=hide_landlock) as service:
            status = status_of(service.popen.pid)
            self.assertEqual((status["Seccomp"], status["Seccomp_filters"]), ("2", "2"))
            _, health = ask(service, "/api/v1/health")
            self.assertIs(health["landlock"], False)
            self.assertIn("this kernel has no Landlock; seccomp alone confines", service.text())

    def test_it_works_where_its_settings_point(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            store, sock = os.path.join(folder, "runs.db"), os.path.join(folder, "run", "agent.sock")
            argv = [ORCHESTRATOR, f"--listen=unix:{sock}", "--http=127.0.0.1:0", f"--store=sqlite:{store}"]
            with Service(argv, r"ready grpc=\S+ http=\S+:(\d+)") as service:
                self.assertTrue(os.path.exists(store) and os.path.exists(sock))
                service.popen.send_signal(signal.SIGTERM)
                self.assertEqual(service.popen.wait(90), 0)
            self.assertFalse(os.path.exists(sock))

    def test_key_is_in_no_place_that_others_can_read(self):
        for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
            with self.subTest(variable):
                self.check_places_of_key(variable)

    def check_places_of_key(self, variable):
        with orchestrator(env={variable: CANARY}) as service:
            for name in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{service.popen.pid}/{name}", "rb") as file:
                        self.assertNotIn(CANARY.encode(), file.read())
                except PermissionError:
                    pass  # undumpable, and we are not root: just as well
            self.assertNotIn(CANARY, service.text())
            self.assertIn("gemini-api-key=(set)", service.text())

    def test_sigterm_ends_it_cleanly(self):
        with orchestrator() as service:
            service.popen.send_signal(signal.SIGTERM)
            self.assertEqual(service.popen.wait(90), 0)
            self.assertIn("stopped", service.text())

    def test_without_a_key_it_serves_and_says_what_to_set(self):
        with orchestrator() as service:
            self.assertIn("GEMINI_API_KEY", service.text())
            code, health = ask(service, "/api/v1/health")
            self.assertEqual(code, 200)
            self.assertFalse(health["gemini_configured"] or health["sandbox_available"])
            code, answer = ask(service, "/api/v1/generate", {"task": "add two numbers"})
            self.assertEqual(code, 503)
            self.assertIn("GEMINI_API_KEY", json.dumps(answer))

    def test_without_sandboxd_a_run_fails_with_its_cause(self):
        with open(SCRIPT, encoding="utf-8") as file:
            task = json.load(file)["task"]
        with Service([REPLAY, "--listen=127.0.0.1:0", f"--script={SCRIPT}"], r"listening on \S+:(\d+)") as replay:
            env = {"GEMINI_API_KEY": CANARY, "GEMINI_BASE_URL": f"http://127.0.0.1:{replay.ports[0]}"}
            with orchestrator(env=env) as service:
                code, answer = ask(service, "/api/v1/generate", {"task": task})
        self.assertEqual(code, 200)
        self.assertEqual((answer["status"], answer["cause"]), ("FAILED", "SANDBOX_UNAVAILABLE"))
        self.assertEqual(answer["iterations"], 0)
        self.assertNotIn("/nonexistent", json.dumps(answer))
        self.assertNotIn(CANARY, json.dumps(answer))

    def test_check_asks_the_model_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"task": "t", "answers": [{"match": ["single word"], "text": ["ready\x1b[31m"]}]}, file)
            with Service([REPLAY, "--listen=127.0.0.1:0", f"--script={path}"], r"listening on \S+:(\d+)") as replay:
                url = f"http://127.0.0.1:{replay.ports[0]}"
                done = check_model({"GEMINI_API_KEY": CANARY, "GEMINI_BASE_URL": url})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"asking    gemini-2.5-flash at {url} ", done.stdout)
                self.assertIn('answered  gemini-replay (scripted): "ready?[31m"', done.stdout)
                self.assertIn("cost      1 request, ", done.stdout)

    def test_check_trusts_the_certificate_that_is_named(self):
        """Confined, it still makes TLS connections and reads certificates where a setting points."""
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "ca.pem"), os.path.join(folder, "key.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "1",
                            "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=90)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            with socket.create_server(("127.0.0.1", 0)) as server:
                seen = []
                thread = threading.Thread(target=serve_one_404, args=(server, context, seen))
                thread.start()
                url = f"https://localhost:{server.getsockname()[1]}"
                done = check_model({"GEMINI_API_KEY": CANARY, "GEMINI_BASE_URL": url, "CRISOL_CA_FILE": cert})
                thread.join(90)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(seen and seen[0].startswith(b"POST /"), done.stderr)

    def test_check_says_why_there_is_no_answer(self):
        with Service([REPLAY, "--listen=127.0.0.1:0", f"--script={SCRIPT}"], r"listening on \S+:(\d+)",
                     env={"GEMINI_REPLAY_KEY": "another"}) as replay:
            done = check_model({"GEMINI_API_KEY": CANARY, "GEMINI_BASE_URL": f"http://127.0.0.1:{replay.ports[0]}"})
            self.assertEqual(done.returncode, 1)
            self.assertIn("the model did not answer: ", done.stderr)
            self.assertNotIn(CANARY, done.stdout + done.stderr)
        done = check_model({})
        self.assertEqual(done.returncode, 1)
        self.assertIn("GEMINI_API_KEY", done.stderr)

    def test_bad_settings_are_refused_by_name(self):
        cases = {
            "--max-runs=0": "--max-runs",
            "--no-such-thing": "no setting '--no-such-thing'",
            "--log-level=loud": "--log-level",
            "--log-format=xml": "--log-format",
            "--gemini-api-key=x": "GEMINI_API_KEY",
            "--listen=nonsense": "nonsense",
            "--check-config --listen=nonsense": "listen: address 'nonsense' has no port",
            "--check-config --http=127.0.0.1:99999": "http: address '127.0.0.1:99999'",
            "--check-config --store=mysql:x": "store: it is neither",
            "--user=-1": "--user",
        }
        for flag, expected in cases.items():
            with self.subTest(flag):
                self.assertIn(expected, refused(*flag.split()))

    def test_settings_are_printed_and_checked_on_demand(self):
        done = subprocess.run([ORCHESTRATOR, "--check-config", "--max-runs=7"], capture_output=True, text=True, timeout=90,
                              env={**ENVIRONMENT, "GEMINI_API_KEY": CANARY}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        for line in ("max-runs = 7", "GEMINI_API_KEY = (set)", "grpc-rate-reset = 50/320,200/640", "check-model = false"):
            self.assertIn(line, lines)
        self.assertEqual(lines[-1], "the settings are well formed")
        self.assertNotIn(CANARY, done.stdout + done.stderr)
        said = refused("--check-config", "--grpc-rate-ping=1")
        self.assertIn("--grpc-rate-ping", said)
        self.assertNotIn("well formed", said)

    def test_names_of_googles_own_libraries_are_read_where_none_of_ours_is_set(self):
        urls = {"GOOGLE_GEMINI_BASE_URL": "https://gemini.invalid", "GOOGLE_VERTEX_BASE_URL": "https://vertex.invalid"}
        cases = (("gemini", {"GOOGLE_API_KEY": CANARY, **urls}, "https://gemini.invalid"),
                 ("vertex", {"GOOGLE_API_KEY": CANARY, **urls}, "https://vertex.invalid"),
                 ("vertex", {"GEMINI_API_KEY": CANARY, "GEMINI_BASE_URL": "https://ours.invalid", **urls}, "https://ours.invalid"))
        for provider, env, url in cases:
            with self.subTest(provider=provider, url=url):
                done = subprocess.run([ORCHESTRATOR, "--check-config", f"--provider={provider}"], capture_output=True,
                                      text=True, timeout=90, env={**ENVIRONMENT, **env}, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("GEMINI_API_KEY = (set)", done.stdout)
                self.assertIn(f"gemini-base-url = {url}\n", done.stdout)
                self.assertNotIn(CANARY, done.stdout + done.stderr)

    def test_plain_http_to_a_foreign_host_is_refused(self):
        said = refused(env={"GEMINI_API_KEY": CANARY, "GEMINI_BASE_URL": "http://192.0.2.1"})
        self.assertIn("model client", said)
        self.assertNotIn(CANARY, said)

    def test_taken_ports_are_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for flag in ("--listen", "--http"):
                with self.subTest(flag):
                    self.assertIn(str(port), refused(f"{flag}=127.0.0.1:{port}"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
