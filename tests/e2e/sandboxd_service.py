# SPDX-License-Identifier: Apache-2.0
"""Starts the real sandboxd on a private socket and speaks gRPC with it."""
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import grpc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CANARY = "canary-5f0e2b7c9a"
SKIP = 77


def need_root():
    """Ends the test program with 'skipped' when it cannot do its work here."""
    if os.geteuid() != 0:
        print("skipped: sandboxd needs root")
        sys.exit(SKIP)


def load_stubs():
    """Generates the Python stubs of our protos into a folder that goes away with the process."""
    import atexit

    folder = tempfile.mkdtemp(prefix="crisol-stubs-")
    atexit.register(shutil.rmtree, folder, True)
    proto = os.path.join(ROOT, "proto")
    plugin = shutil.which("grpc_python_plugin")
    files = ["crisol/sandbox/v1/sandbox.proto", "grpc/health/v1/health.proto", "google/rpc/status.proto",
             "google/rpc/error_details.proto"]
    subprocess.run(["protoc", f"-I{proto}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                    f"--plugin=protoc-gen-grpc_python={plugin}"] + files, check=True)
    # Our folders grpc/ and google/ would hide the installed packages of these names.
    sys.path.append(folder)
    for name in ("grpc", "google"):
        package = importlib.import_module(name)
        package.__path__.append(os.path.join(folder, name))
    sandbox = importlib.import_module("crisol.sandbox.v1.sandbox_pb2")
    services = importlib.import_module("crisol.sandbox.v1.sandbox_pb2_grpc")
    return sandbox, services


def wait_for(condition, seconds, what):
    """Polls until the condition holds; fails after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def settled(measure):
    """A count, once it has stayed the same for a while: what is replaced after a run is back then."""
    deadline = time.monotonic() + 5
    value, same = measure(), 0
    while same < 30 and time.monotonic() < deadline:
        time.sleep(0.01)
        now = measure()
        same = same + 1 if now == value else 0
        value = now
    return value


def processes():
    """pid -> (parent, command line) of everything that runs here."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            found[int(name)] = (int(fields[1]), command)
    return found


class Service:
    """One sandboxd with its two children, in a temporary folder."""

    ready_seconds = 20

    def __init__(self, *flags, slots=2):
        self.folder = tempfile.mkdtemp(prefix="crisol-e2e-")
        self.socket = os.path.join(self.folder, "s", "sandboxd.sock")
        self.log_path = os.path.join(self.folder, "log")
        self.binary = os.path.join(os.environ["CRISOL_BIN"], "sandboxd")
        self.flags = [f"--socket={self.socket}", f"--slots={slots}", *flags]
        self.process = None
        self.channel = None

    def __enter__(self):
        environment = dict(os.environ, GEMINI_API_KEY=CANARY)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([self.binary, *self.flags], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=environment)
        self.wait_ready(1)
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")
        return self

    def __exit__(self, kind, value, trace):
        if self.channel:
            self.channel.close()
        if self.process.poll() is None:
            status = self.stop()
            if kind is None:
                assert status == 0, f"sandboxd ended with {status}:\n{self.log()}"
        if kind is not None:
            print(self.log(), file=sys.stderr)
        shutil.rmtree(self.folder, True)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_ready(self, count):
        """Waits for the count-th time that it says it is ready."""
        def is_ready():
            if self.process.poll() is not None:
                raise AssertionError(f"sandboxd ended with {self.process.returncode}:\n{self.log()}")
            return self.log().count("sandboxd ready") >= count
        wait_for(is_ready, self.ready_seconds, "sandboxd ready")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def child(self, name):
        """pid of sandboxd-native or sandboxd-front."""
        for pid, (parent, command) in processes().items():
            if parent == self.process.pid and f"/{name} " in command:
                return pid
        return None

    def family(self):
        """pids of the supervisor and everything below it."""
        everything = processes()
        family = {self.process.pid}
        grown = True
        while grown:
            grown = False
            for pid, (parent, _) in everything.items():
                if parent in family and pid not in family:
                    family.add(pid)
                    grown = True
        return family

    def port(self):
        """The TCP port that the ready line names."""
        return int(re.search(r"sandboxd ready .*port=(\d+)", self.log()).group(1))


def count_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def count_mounts(pid):
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as file:
        return len(file.readlines())


def control_groups(native_pid):
    """Control groups that this backend has made."""
    own = f"crisol-native-{native_pid}"
    found = set()
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        if own in folder.split("/"):
            found.add(folder)
    return found
