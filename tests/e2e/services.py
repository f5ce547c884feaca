# SPDX-License-Identifier: Apache-2.0
"""Starts the real services on private addresses for end-to-end tests, and counts what they leave."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CRISOL_BUILD", os.path.join(SOURCE, "build"))
BIN = os.environ.get("CRISOL_BIN", os.path.join(BUILD, "bin"))
TOOLS = os.environ.get("CRISOL_TOOLS", "")
SCRIPTS = os.path.join(SOURCE, "clients", "gemini-replay", "scripts")
SERVICE_UID = 64902
CANARY = "canary-7f3d9c51-not-a-real-key"
# How many times slower than a usual machine this one is; every deadline of the tests grows with it.
SLOWNESS = int(os.environ.get("CRISOL_SLOW_HOST", "1"))
# And how much slower a machine may be that nobody has said it of: its disks are cold, or it is a guest that gets a part
# of its processors. Costs nothing where all goes well, and a test whose program ends by itself has to let it live longer.
PATIENCE = 5
PROCESSORS = len(os.sched_getaffinity(0))


def contention():
    """How many tasks there are now for each processor, of those that run or want to: 1 at least, and 10 at most."""
    with open("/proc/loadavg", encoding="ascii") as file:
        runnable = int(file.read().split()[3].split("/")[0])
    return min(max(1, runnable / PROCESSORS), 10)


class Deadline:
    """So many seconds of a machine that has a processor for everybody who wants one. Beside others, only that share
    of the time counts which one gets then: what a test claims is the services' speed and not the machine's."""

    def __init__(self, seconds):
        self.left, self.looked = seconds * SLOWNESS * PATIENCE, time.monotonic()

    def has_passed(self):
        now = time.monotonic()
        self.left -= (now - self.looked) / contention()
        self.looked = now
        return self.left <= 0


def wait_for(condition, seconds, what):
    """Polls until `condition` gives something true; fails when it does not, asked after a Deadline: `seconds` are enough
    on a usual machine. `what`: a text, or a function that gives one."""
    deadline = Deadline(seconds)
    while True:
        has_passed = deadline.has_passed()  # before the look, which itself may have to wait for a processor
        value = condition()
        if value:
            return value
        assert not has_passed, f"not within {PATIENCE} times {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.02)


def patience_of(flags):
    """A sandboxd with these flags has as much of it with its own steps; an engine's faults are told as soon as ever."""
    return [] if any(flag.startswith(("--backend=docker", "--slow-host")) for flag in flags) else [f"--slow-host={SLOWNESS * PATIENCE}"]


class Process:
    """One service, its log in a file."""

    def __init__(self, name, argv, log, env=None):
        self.name = name
        self.log_path = log
        with open(log, "wb") as out:
            self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                          env=env if env is not None else {"PATH": "/usr/bin:/bin"})

    @property
    def pid(self):
        return self.popen.pid

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def match(self, pattern, seconds=15):
        def look():
            found = re.search(pattern, self.log())
            assert found or self.popen.poll() is None, f"{self.name} ended: {self.log()[-2000:]}"
            return found
        return wait_for(look, seconds, f"{self.name} prints {pattern}")

    def stop(self, seconds=40):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(seconds * SLOWNESS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise


class Services:
    """sandboxd, gemini-replay and the orchestrator in a folder of their own."""

    orchestrator_flags = ()

    def __init__(self, script="lru_cache", with_agent=True, sandboxd_flags=(), replay_flags=(),
                 orchestrator_flags=(), ready_seconds=15):
        self.ready_seconds = ready_seconds
        self.orchestrator_flags = orchestrator_flags
        self.folder = tempfile.mkdtemp(prefix="crisol-e2e-")
        os.chmod(self.folder, 0o711)
        self.socket = os.path.join(self.folder, "s", "sandboxd.sock")
        self.sandbox = "unix:" + self.socket
        self.orchestrator = self.replay = None
        self.grpc = self.http = None
        self.sandboxd = None
        try:
            self.start_sandboxd(sandboxd_flags)
            if with_agent:
                self.start_agent(script, replay_flags)
        except BaseException:
            self.stop()
            raise

    def start_sandboxd(self, flags=()):
        self.sandboxd = Process("sandboxd", [
            os.path.join(BIN, "sandboxd"), f"--socket={self.socket}", f"--socket-owner={SERVICE_UID}", *patience_of(flags), *flags],
            os.path.join(self.folder, "sandboxd.log"), env={"PATH": "/usr/bin:/bin", "GEMINI_API_KEY": CANARY})
        self.sandboxd.match(r"[ \"]sandboxd ready ", self.ready_seconds)

    def start_agent(self, script, replay_flags=()):
        self.replay = Process("gemini-replay", [
            os.path.join(BIN, "gemini-replay"), "--listen=127.0.0.1:0",
            f"--script={os.path.join(SCRIPTS, script + '.json')}", *replay_flags],
            os.path.join(self.folder, "replay.log"))
        address = self.replay.match(r"gemini-replay listening on (\S+)").group(1)
        self.start_orchestrator(f"http://{address}", CANARY)

    def start_orchestrator(self, base_url, key):
        env = {"PATH": "/usr/bin:/bin", "GEMINI_BASE_URL": base_url}
        if key:
            env["GEMINI_API_KEY"] = key
        self.orchestrator = Process("orchestrator", [
            os.path.join(BIN, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
            f"--sandbox={self.sandbox}", f"--user={SERVICE_UID}",
            *self.orchestrator_flags],
            os.path.join(self.folder, "orchestrator.log"), env=env)
        ready = self.orchestrator.match(r"[ \"]ready .*grpc=(\S+) .*http=(\S+)")
        self.grpc, self.http = ready.group(1), ready.group(2)

    def crisol(self, *argv, stdin=b"", timeout=120):
        return subprocess.run([os.path.join(BIN, "crisol"), *argv], input=stdin, capture_output=True,
                              timeout=timeout * SLOWNESS, check=False,
                              env={"PATH": "/usr/bin:/bin", "CRISOL_SANDBOX": self.sandbox,
                                   "CRISOL_ORCHESTRATOR": self.grpc or ""})

    def sandboxd_pids(self):
        """The supervisor and everything below it."""
        return [self.sandboxd.pid, *descendants(self.sandboxd.pid)]

    def stop(self):
        """Stops everything; returns the exit codes by name."""
        codes = {}
        for process in (self.orchestrator, self.replay, self.sandboxd):
            if process:
                codes[process.name] = process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return codes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def processes(with_zombies=False):
    """pid -> (parent, command line) of everything that runs here, from /proc."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except (OSError, IndexError):
            continue
        if with_zombies or fields[0] != "Z":
            found[int(entry)] = (int(fields[1]), command)
    return found


def descendants(pid, with_zombies=True):
    """Every process below `pid`."""
    children = {}
    for child, (parent, _) in processes(with_zombies).items():
        children.setdefault(parent, []).append(child)
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def cgroup_folders(pids):
    """Control groups that the backends among `pids` made."""
    names = {f"crisol-native-{pid}" for pid in pids}
    found = set()
    for folder, subfolders, _ in os.walk("/sys/fs/cgroup"):
        if names & set(folder.split("/")):
            found.update(os.path.join(folder, name) for name in subfolders)
    return found


def count_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def mounts_of(pid):
    """Mount points that `pid` sees; of the machine's only what a sandbox is made of, others come and go."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as file:
        mounts = [line.split() for line in file]
    if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        # The root of a sandbox, and all that is mounted below it, begin with this source.
        mounts = [mount for mount in mounts if mount[-2] == "crisol" or "/crisol-e2e-" in mount[4]]
    return sorted(mount[4] for mount in mounts)


FIRST_BOX_UID = 0x70000000  # sandboxd/backend/userns.h
BOX_UIDS = 0x10000  # the first of them is sandbox-init's, which waits in the pool too


def user_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Uid:"))


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\n")


class HostState:
    """What one sandboxd has on the host: compare two of them. Other work on the machine does not count."""

    def __init__(self, services):
        everything = services.sandboxd_pids()
        self.processes = len(everything)
        # Boxes that wait, in the pool or half made, come and go: they are counted, and what each of them has is its own.
        pids = [pid for pid in everything if user_of(pid) < FIRST_BOX_UID and name_of(pid) != "sandbox-idle"]
        # Boxes are numbered, so groups are counted: those that wait for the next runs have new names.
        self.cgroups = len(cgroup_folders(pids))
        self.namespaces = len({os.readlink(f"/proc/{pid}/ns/net") for pid in pids})
        # By name, not by pid: a template is replaced by its age, and a long test outlives it.
        self.mounts = sorted((name_of(pid), mounts_of(pid)) for pid in [*pids, os.getpid()])
        self.fds = sorted((name_of(pid), count_fds(pid)) for pid in pids)
        self.files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(services.folder)
                            for name in names)

    def differences(self, before, fds_to_spare=0):
        """What is not as before; each process may have `fds_to_spare` more."""
        out = [f"{name} {getattr(before, name)} -> {getattr(self, name)}"
               for name in ("processes", "cgroups", "namespaces", "mounts", "files")
               if getattr(self, name) != getattr(before, name)]
        if ([name for name, _ in self.fds] != [name for name, _ in before.fds] or
                any(now > then + fds_to_spare for (_, now), (_, then) in zip(self.fds, before.fds))):
            out.append(f"fds {before.fds} -> {self.fds}")
        return out


def is_waiting(pid):
    """Whether it waits for its run: still sandbox-init, or forked from a template, by the socket that it has until then."""
    return os.readlink(f"/proc/{pid}/exe").startswith("/sandbox-init") or os.path.exists(f"/proc/{pid}/fd/250")


def has_box(pids):
    """Whether a program is running in a sandbox; one that ends while it is looked at is none."""
    for pid in pids:
        try:
            uid = user_of(pid)
            if uid >= FIRST_BOX_UID and uid % BOX_UIDS and not is_waiting(pid):
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def has_full_pool(services):
    """Whether all that is to wait for runs does: what a slow machine still makes counts as there from then on."""
    done = services.crisol("top", "--once", "--json")
    try:
        pool = json.loads(done.stdout)["sandboxd"]["pool"]
    except (ValueError, KeyError, TypeError):
        return True  # who does not answer tells of no pool
    return pool["ready"] >= pool["slots"]


def await_pool(is_full, seconds=30):
    """Until the pool is full, and no longer than that: one without a template that failed never is, and serves."""
    until = time.monotonic() + seconds
    while not is_full() and time.monotonic() < until:
        time.sleep(0.1)


def settled(services):
    """The state once nothing runs and nothing changes any more: what follows a run (and the first
    start, which asks each runtime for its version) happens off its path."""
    seen, last_changes = [], []
    await_pool(lambda: has_full_pool(services))

    def look():
        time.sleep(0.1)
        try:
            if has_box(services.sandboxd_pids()):
                seen.clear()
                return None
            state = HostState(services)
        except (FileNotFoundError, ProcessLookupError):  # a process ended while it was looked at
            seen.clear()
            return None
        changes = state.differences(seen[-1]) if seen else []
        if changes:
            last_changes[:] = changes
            seen.clear()
        seen.append(state)
        return state if len(seen) >= 4 else None
    try:
        return wait_for(look, 20, "sandboxd settles")
    except AssertionError as error:
        raise AssertionError(f"{error}; last changes: {last_changes}") from error
