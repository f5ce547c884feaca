# SPDX-License-Identifier: Apache-2.0
"""Starts a docker engine of its own on private paths: no bridge, no firewall rules, nothing shared."""
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile

import sandboxd_service as lab

BASE = "crisol-base:bookworm"
LANGUAGES = "crisol-base:languages"  # with the tools of the runtimes that are compiled
# capability.h, in the order of their numbers; older engines do not know the youngest three
CAPABILITIES = ("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
                "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT "
                "SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL "
                "SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ").split()
# Makes writable what a privileged container has writable.
REMOUNT = "for path in /sys /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,bind,rw $path 2>/dev/null; done; "


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(lab.SKIP)


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def own_capabilities():
    """The names of those that this process may have, without CAP_; None when that is every one of the kernel's."""
    bounding = int(next(line.split()[1] for line in lines_of("/proc/self/status") if line.startswith("CapBnd")), 16)
    if bounding == (2 << int(lines_of("/proc/sys/kernel/cap_last_cap")[0])) - 1:
        return None
    return [name for number, name in enumerate(CAPABILITIES) if bounding >> number & 1]


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("docker", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Registry:
    """Debian's docker-registry on a free port of the loopback, which an engine may use without TLS."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="crisol-registry-")
        self.address = f"127.0.0.1:{lab.free_port()}"
        config = os.path.join(self.folder, "config.yml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {self.folder}/data\n"
                       f"http:\n  addr: {self.address}\n")
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", config], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)

        def answers():
            try:
                with socket.create_connection(self.address.split(":"), 1):
                    return True
            except OSError:
                return False
        lab.wait_for(answers, 20, "the registry answers")
        return self

    def __exit__(self, kind, value, trace):
        Engine.end(self.process)
        shutil.rmtree(self.folder, True)


class Engine:
    """One dockerd and one containerd, which outlives a dockerd that is killed, as on a real host."""

    base = BASE

    def __init__(self):
        if not shutil.which("dockerd"):
            skip("there is no dockerd: scripts/deps.sh engine installs Debian's docker.io")
        self.folder = tempfile.mkdtemp(prefix="crisol-engine-")
        self.socket = os.path.join(self.folder, "docker.sock")
        self.port = lab.free_port()  # of the loopback, as the end of a tunnel
        self.process = None
        self.containerd = None

    def __enter__(self):
        try:
            self.start_containerd()
            self.start()
        except AssertionError as error:
            log = self.log()
            self.__exit__(None, None, None)
            skip(f"dockerd does not start here: {error}\n{log[-1500:]}")
        return self

    def __exit__(self, kind, value, trace):
        if self.process and self.process.poll() is None:
            self.stop()
        if self.containerd:
            self.end(self.containerd)
        self.kill_shims()
        for line in lines_of("/proc/self/mountinfo"):
            if line.split()[4].startswith(self.folder):
                subprocess.run(["umount", "-l", line.split()[4]], check=False, capture_output=True)
        for folder in self.own_cgroups(with_parent=True):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # the kernel still tears one down
        shutil.rmtree(self.folder, True)

    def start_containerd(self):
        config = os.path.join(self.folder, "containerd.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        with open(os.path.join(self.folder, "containerd.log"), "ab") as log:
            self.containerd = subprocess.Popen(
                ["containerd", f"--config={config}", f"--address={self.folder}/containerd.sock",
                 f"--root={self.folder}/containerd", f"--state={self.folder}/state"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        lab.wait_for(lambda: os.path.exists(f"{self.folder}/containerd.sock"), 30, "containerd listens")

    def write_config(self):
        """The runtimes that are installed. gVisor's has a network of its own, or none."""
        found = {name: {"path": shutil.which(name), "runtimeArgs": arguments}
                 for name, arguments in (("crun", []), ("runsc", ["--network=none"])) if shutil.which(name)}
        with open(os.path.join(self.folder, "daemon.json"), "w", encoding="utf-8") as file:
            json.dump({"runtimes": found}, file)

    def start(self):
        self.write_config()
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["dockerd", f"--host=unix://{self.socket}", f"--host=tcp://127.0.0.1:{self.port}", "--tls=false",
                 f"--data-root={self.folder}/data",
                 f"--exec-root={self.folder}/exec", f"--containerd={self.folder}/containerd.sock",
                 f"--pidfile={self.folder}/pid", "--bridge=none",
                 f"--config-file={self.folder}/daemon.json",
                 "--exec-opt=native.cgroupdriver=cgroupfs", f"--cgroup-parent=/{os.path.basename(self.folder)}",
                 "--iptables=false", "--ip-forward=false", "--ip-masq=false"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

        def answers():
            assert self.process.poll() is None, "dockerd ended"
            try:
                return self.ask("GET", "/_ping")[0] == 200
            except OSError:
                return False
        lab.wait_for(answers, 40, "dockerd answers")

    @staticmethod
    def end(process):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=90)

    def stop(self):
        self.end(self.process)

    def kill(self):
        """As a crash: containerd and the containers' shims live on."""
        self.process.kill()
        self.process.wait(timeout=90)
        try:
            os.unlink(os.path.join(self.folder, "pid"))
        except FileNotFoundError:
            pass

    def kill_shims(self):
        """Those below our own folder, of containers that nobody stopped."""
        for pid, (_, command) in lab.processes().items():
            if self.folder in command and "containerd" in command:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def own_cgroups(self, with_parent=False):
        """Folders of control groups below this engine's own parent, children first."""
        name = os.path.basename(self.folder)
        hierarchies = {line.split()[4] for line in lines_of("/proc/self/mountinfo")
                       if line.split(" - ", 1)[1].split()[0] in ("cgroup", "cgroup2")}
        parents = {os.path.realpath(os.path.join(path, name)) for path in hierarchies}
        return [folder for parent in sorted(parents) for folder, _, _ in os.walk(parent, topdown=False)
                if with_parent or os.path.basename(folder) != name]

    def state(self):
        """What containers leave where they are not removed as a whole."""
        return {
            "containers": len(self.containers()),
            "container cgroups": len(self.own_cgroups()),
            "container mounts": sum(line.split()[4].startswith(self.folder) for line in lines_of("/proc/self/mountinfo")),
            "shims": sum(self.folder in command and "containerd-shim" in command
                         for _, command in lab.processes().values()),
        }

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def ask(self, method, path, timeout=90, headers=None, body=None):
        connection = Connection(self.socket, timeout * lab.SLOWNESS)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def containers(self):
        """All that there are, whatever their state."""
        return json.loads(self.ask("GET", "/containers/json?all=1")[1])

    def processes(self):
        """(pid on the host, command line) of everything in its containers."""
        found = []
        for one in self.containers():
            status, answer = self.ask("GET", f"/containers/{one['Id']}/top?ps_args=-eo%20pid,args")
            if status == 200:
                found += [tuple(row) for row in json.loads(answer)["Processes"] or ()]
        return found

    def build(self, name, dockerfile):
        """An image of a Dockerfile alone, without a network."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(dockerfile.encode())
            tar.addfile(entry, io.BytesIO(dockerfile.encode()))
        status, answer = self.ask("POST", f"/build?version=1&t={name}&rm=1&networkmode=none", 300,
                                  {"Content-Type": "application/x-tar"}, archive.getvalue())
        assert status == 200 and b"errorDetail" not in answer, answer[-500:]

    def push(self, image, registry):
        """Pushes an image under the registry's name, and forgets that name here."""
        name = f"{registry.address}/{image.split(':')[0]}"
        assert self.ask("POST", f"/images/{image}/tag?repo={name}&tag=1")[0] == 201
        status, answer = self.ask("POST", f"/images/{name}/push?tag=1", 300, {"X-Registry-Auth": "e30="})
        assert status == 200 and b"errorDetail" not in answer, answer[-500:]
        assert self.ask("DELETE", f"/images/{name}:1")[0] == 200
        return f"{name}:1"

    @staticmethod
    def digest_of(tagged, registry):
        """The name by digest of an image that was pushed as `tagged`."""
        name, tag = tagged.rsplit(":", 1)
        connection = http.client.HTTPConnection(registry.address, timeout=90)
        try:
            connection.request("HEAD", f"/v2/{name.split('/', 1)[1]}/manifests/{tag}", headers={
                "Accept": "application/vnd.docker.distribution.manifest.v2+json"})
            return f"{name}@{connection.getresponse().headers['Docker-Content-Digest']}"
        finally:
            connection.close()

    def load_base(self):
        """The image of scripts/image.sh; made once for all runs of the tests, or brought along where nothing can be fetched."""
        archive = os.environ.get("CRISOL_BASE_ARCHIVE")
        if archive:
            repo, tag = self.base.split(":")
            with open(archive, "rb") as file:
                status, answer = self.ask("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}", 600, {
                    "Content-Type": "application/x-tar", "Content-Length": str(os.path.getsize(archive))}, file)
            assert status == 200 and b"errorDetail" not in answer, answer[-500:]
            return
        script = os.path.join(lab.SOURCE, "scripts", "image.sh")
        kind = ["--languages"] if self.base == LANGUAGES else []
        done = subprocess.run([script, *kind, self.socket], capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            self.__exit__(None, None, None)
            skip(f"no base image can be made here: {done.stderr[-1500:]}")
