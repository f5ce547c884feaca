#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sandboxd with its native backend inside a privileged container, as in a pod: an engine of our own, no network."""
import contextlib
import io
import json
import os
import re
import subprocess
import tarfile
import unittest

import engine as docker
import sandboxd_service as lab

lab.need_root()
ENGINE = docker.Engine()
IMAGE = "crisol-in-a-pod:test"
PROGRAMS = ("sandboxd", "sandboxd-native", "sandboxd-docker", "sandboxd-front", "sandbox-init", "crisol-template.so", "crisol",
            "sandboxd-selftest", "sbprobe", "sandbox-init-weak")
SOCKET = "/run/crisol/s.sock"


def libraries():
    """Files that the programs are linked with."""
    shown = subprocess.run(["ldd", *(os.path.join(lab.BIN, name) for name in PROGRAMS)], capture_output=True, text=True,
                           check=False).stdout
    return sorted(set(re.findall(r"=> (/\S+)", shown)))


def context():
    """What an image of Debian packages has besides, as a tar file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        text = f"FROM {docker.BASE}\nUSER 0:0\nCOPY lib /usr/local/lib\nCOPY bin /opt/crisol/bin\nRUN ldconfig\n".encode()
        head = tarfile.TarInfo("Dockerfile")
        head.size = len(text)
        tar.addfile(head, io.BytesIO(text))
        for path in libraries():
            tar.add(os.path.realpath(path), f"lib/{os.path.basename(path)}")
        for name in PROGRAMS:
            tar.add(os.path.join(lab.BIN, name), f"bin/{name}")
    return file.getvalue()


def setUpModule():
    ENGINE.__enter__()
    ENGINE.load_base()
    status, answer = ENGINE.ask("POST", f"/build?version=1&t={IMAGE}&rm=1&forcerm=1&networkmode=none", 300,
                                {"Content-Type": "application/x-tar"}, context())
    assert status == 200 and b"errorDetail" not in answer, answer[-800:]


def tearDownModule():
    ENGINE.__exit__(None, None, None)


def post(path, body=None):
    status, answer = ENGINE.ask("POST", path, 120, {"Content-Type": "application/json"}, json.dumps(body or {}).encode())
    assert status in (200, 201, 204), (path, answer)
    return answer


def privileged(command):
    """
    What makes a container privileged. An engine on a host that lacks a capability itself, as some virtual machines
    do, refuses to start those: there it is everything that there is, one by one, and the same mounts.
    """
    names = docker.own_capabilities()
    if names is None:
        return command, {"Privileged": True}
    remount = docker.REMOUNT + "exec \"$@\""
    return ["/bin/sh", "-c", remount, "sh", *command], {
        "CapAdd": names,
        "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined", "label=disable"],
        "MaskedPaths": [], "ReadonlyPaths": []}


class Pod:
    """One such container; what is left of it when it is killed is nothing."""

    def __init__(self, namespace):
        command, host = privileged(["/opt/crisol/bin/sandboxd", "--backend=native", f"--socket={SOCKET}", "--slots=2"])
        self.id = json.loads(post("/containers/create", {"Image": IMAGE, "Cmd": command, "HostConfig": {
            "CgroupnsMode": namespace, "NetworkMode": "none", "Init": False, **host}}))["Id"]

    def __enter__(self):
        post(f"/containers/{self.id}/start")
        lab.wait_for(lambda: "sandboxd ready" in self.log() or self.fail_when_ended(), 40, "sandboxd in a container serves")
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            print(self.log())
        ENGINE.ask("DELETE", f"/containers/{self.id}?force=1&v=1")

    def fail_when_ended(self):
        state = json.loads(ENGINE.ask("GET", f"/containers/{self.id}/json")[1])["State"]
        assert state["Running"], f"sandboxd ended with {state['ExitCode']}:\n{self.log()}"

    def log(self):
        return frames(ENGINE.ask("GET", f"/containers/{self.id}/logs?stdout=1&stderr=1")[1])

    def run(self, *argv, streams=(1, 2)):
        """Exit code and output of a program in it."""
        one = json.loads(post(f"/containers/{self.id}/exec", {"Cmd": list(argv), "AttachStdout": True, "AttachStderr": True}))
        output = frames(post(f"/exec/{one['Id']}/start", {"Detach": False}), streams)
        return json.loads(ENGINE.ask("GET", f"/exec/{one['Id']}/json")[1])["ExitCode"], output

    def crisol(self, code, *flags):
        return self.run("/opt/crisol/bin/crisol", "exec", "--sandbox", f"unix:{SOCKET}", "--runtime", "python", *flags, "--", code)


def frames(data, streams=(1, 2)):
    """The text in the engine's frames of two streams."""
    text = b""
    while len(data) >= 8:
        size = int.from_bytes(data[4:8], "big")
        text, data = text + data[8:8 + size] * (data[0] in streams), data[8 + size:]
    return text.decode(errors="replace")


class Privileged(unittest.TestCase):
    def works(self, namespace):
        with Pod(namespace) as pod:
            status, text = pod.run("/opt/crisol/bin/sandboxd", "check", "--backend=native", "--socket=/run/crisol/other.sock")
            self.assertEqual(status, 0, text)
            self.assertNotIn("FAIL", text)
            self.assertEqual(pod.crisol("print(2 + 2)"), (0, "4\n"))
            for code, flags, verdict in (("x = bytearray(300 << 20)", [], "MEMORY_LIMIT"),
                                         ("while True: pass", ["--wall-ms", "1000"], "WALL_TIME_LIMIT"),
                                         ("import os\nwhile True: os.fork()", [], "PROCESS_LIMIT|MEMORY_LIMIT|WALL_TIME_LIMIT|CPU_TIME_LIMIT")):
                status, text = pod.crisol(code, *flags)
                self.assertIn(status, (124, 1), text)
                self.assertRegex(text, verdict)
            self.assertEqual(pod.crisol("import os; print(os.getpid() < 10)"), (0, "True\n"))
            inside = self.inside(pod)
            self.assertGreater(len(inside), 4)
            post(f"/containers/{pod.id}/kill?signal=KILL")
            lab.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in inside), 20, "every process of it is gone")
        lab.wait_for(lambda: not ENGINE.own_cgroups(), 20, "its control groups are gone")

    @staticmethod
    def inside(pod):
        """Processes of this host in the container's control groups and those below."""
        found = set()
        for folder in ENGINE.own_cgroups():
            with contextlib.suppress(OSError):  # groups of boxes come and go
                if pod.id in folder:
                    found |= {int(pid) for pid in docker.lines_of(os.path.join(folder, "cgroup.procs"))}
        return found

    def test_every_control_holds_but_for_a_name_of_the_engines(self):
        """The table of mounts names the folders of the container's own file system, as it does in any container."""
        with Pod("private") as pod:
            _, text = pod.run("/opt/crisol/bin/sandboxd", "selftest", "--json", f"--slow-host={lab.SLOWNESS}", streams=(1,))
        document = json.loads(text)
        self.assertGreater(len(document["probes"]), 200)
        self.assertEqual([(probe["control"], probe["name"]) for probe in document["probes"] if probe["status"] != "PASS"],
                         [("proc", "mount-table")])
        self.assertTrue(all(control["red_seen"] for control in document["controls"]))

    def test_with_a_control_group_namespace_of_its_own(self):
        self.works("private")

    def test_with_the_control_group_namespace_of_the_host(self):
        self.works("host")


if __name__ == "__main__":
    unittest.main()
