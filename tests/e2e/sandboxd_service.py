# SPDX-License-Identifier: Apache-2.0
"""Starts the real sandboxd on a private socket and speaks gRPC with it."""
import atexit
import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import grpc

from services import (BIN, CANARY, SLOWNESS, SOURCE, Process, cgroup_folders, count_fds, descendants, mounts_of,  # noqa: F401
                      patience_of, processes, wait_for)

SKIP = 77


def need_root():
    """Ends the test program with 'skipped' when it cannot do its work here."""
    if os.geteuid() != 0:
        print("skipped: sandboxd needs root")
        sys.exit(SKIP)


def load_stubs():
    """Generates the Python stubs of our protos into a folder that goes away with the process."""
    folder = tempfile.mkdtemp(prefix="crisol-stubs-")
    atexit.register(shutil.rmtree, folder, True)
    proto = os.path.join(SOURCE, "proto")
    plugin = shutil.which("grpc_python_plugin")
    files = ["crisol/sandbox/v1/sandbox.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto",
             "google/rpc/status.proto", "google/rpc/error_details.proto"]
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


def settled(measure):
    """A count, once it has stayed the same for a while: what is replaced after a run is back then."""
    deadline = time.monotonic() + 30
    value, same = measure(), 0
    while same < 100 and time.monotonic() < deadline:
        time.sleep(0.01)
        now = measure()
        same = same + 1 if now == value else 0
        value = now
    return value


def own_sleep():
    """A sleep that nobody else on this machine starts: found by its command line."""
    return f"sleep 9{uuid.uuid4().int % 10 ** 9}"


def free_port():
    """A port of the loopback that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service:
    """One sandboxd with its two children, in a temporary folder."""

    ready_seconds = 20

    def __init__(self, *flags, slots=2):
        self.folder = tempfile.mkdtemp(prefix="crisol-e2e-")
        self.socket = os.path.join(self.folder, "s", "sandboxd.sock")
        self.argv = [os.path.join(BIN, "sandboxd"), f"--socket={self.socket}", f"--slots={slots}", *patience_of(flags), *flags]
        self.server = None
        self.channel = None

    @property
    def process(self):
        return self.server.popen

    def __enter__(self):
        # The key is in its environment, as by a careless unit file.
        self.server = Process("sandboxd", self.argv, os.path.join(self.folder, "log"),
                              env=dict(os.environ, GEMINI_API_KEY=CANARY))
        try:
            self.wait_ready(1)
        except BaseException:  # who fails in here is not asked to leave
            self.__exit__(*sys.exc_info())
            raise
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
        return self.server.log()

    def wait_ready(self, count):
        """Waits for the count-th time that it says it is ready."""
        def is_ready():
            if self.process.poll() is not None:
                raise AssertionError(f"sandboxd ended with {self.process.returncode}:\n{self.log()}")
            return self.log().count("sandboxd ready") >= count
        wait_for(is_ready, self.ready_seconds, "sandboxd ready")

    def stop(self):
        return self.server.stop(60)

    def child(self, name):
        """pid of sandboxd-native or sandboxd-front."""
        for pid, (parent, command) in processes().items():
            if parent == self.process.pid and f"/{name} " in command:
                return pid
        return None

    def family(self):
        """pids of the supervisor and everything below it."""
        return {self.process.pid, *descendants(self.process.pid, with_zombies=False)}

    def port(self):
        """The TCP port that the ready line names."""
        return int(re.search(r"sandboxd ready .*port=(\d+)", self.log()).group(1))


def count_mounts(pid):
    return len(mounts_of(pid))


def control_groups(native_pid):
    """Control groups that this backend has made."""
    return cgroup_folders([native_pid])
