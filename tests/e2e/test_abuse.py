# SPDX-License-Identifier: Apache-2.0
"""Hostile gRPC clients against both services, on TCP and on unix sockets, while somebody behaves.

How it is measured: a client that behaves makes one health check after the other, a millisecond
apart, over one connection, and its longest call counts (a client that is held up sends nothing, so
percentiles would hide it). The machine may be busy with other things: the bar of 50 ms is set upon
the longest call that the same client saw before, or sees right after, without an attack, and an
attack that misses it has more tries, as a stall that an attack makes comes each time. Where calls
take tens of milliseconds without any attack, the machine stretches a stall as much: then the bar
is four times that; and where several tasks want each processor, it is as many times higher. Attackers are peers of their own (a
source address, a user id), so that one does not live off the limits of another."""
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

import pytest

import attacks
import services as crisol

sys.path.insert(0, os.path.join(crisol.SOURCE, "tests", "deploy"))
from certificates import Authority, flags  # noqa: E402

PROBE = os.path.join(crisol.BUILD, "tests", "abuse_probe")
TLS_NAME = "sandboxd.test"
TOKEN = "an-abuse-test-token-0123456789"
BAR_US = 50_000
TRIES = 4
DESCRIPTORS = 160
# Slow clients are waited for; all other limits are the defaults.
QUICK = ("--grpc-handshake-ms=1000", "--grpc-frame-ms=1000")
FIRST_UID = 61000
UIDS = 40
# Beyond what connections and calls that are allowed take, a service must not grow.
GROWTH_KIB = 24 << 10
# Messages that are still coming in may fill the quota for them (rpc_server_options).
MESSAGES_KIB = 160 << 10
MAY_FILL = {attacks.d5_claim_of_4_gib, attacks.d6_messages_that_never_end}
# As many connections as one user may have, at what each costs.
CONNECTIONS_KIB = 64 << 10
MAY_CONNECT = {attacks.h1_silent, attacks.h2_preface_alone, attacks.h3_idle, attacks.h4_open_calls}


class Probe:
    """The client that behaves."""

    def __init__(self, target, token, tls=()):
        self.popen = subprocess.Popen([PROBE, target, *([token or ""] if token or tls else []), *tls], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, bufsize=0)

    def go(self):
        self.popen.stdin.write(b"g")

    def stop(self):
        """Calls, failed ones, and the longest in microseconds."""
        self.popen.stdin.write(b"s")
        return tuple(int(word) for word in self.popen.stdout.readline().split())

    def close(self):
        self.popen.stdin.close()
        self.popen.wait(90)
        self.popen.stdout.close()


class Target:
    """One service on one address."""

    def __init__(self, name, pid, address, own, token=None, tls=None):
        """`tls`: the folder of certificates that callers have."""
        self.tls = None
        if tls:
            self.tls = ssl.create_default_context(cafile=f"{tls}/ca.crt")
            self.tls.check_hostname = False
            self.tls.set_alpn_protocols(["h2"])
            self.tls.load_cert_chain(f"{tls}/tls.crt", f"{tls}/tls.key")
        self.name, self.pid, self.address, self.own, self.token = name, pid, address, own, token
        self.is_unix = isinstance(address, str)
        self.text = "unix:" + address if self.is_unix else "{}:{}".format(*address)
        self.probe_tls = (f"{tls}/ca.crt", f"{tls}/tls.crt", f"{tls}/tls.key", TLS_NAME) if tls else ()
        self.probe = Probe(self.text, token, self.probe_tls)
        self.peers = 0
        self.measure(0.2)  # connects
        self.calm_us = max(self.measure(0.3)[2], 1000)

    def measure(self, seconds):
        self.probe.go()
        time.sleep(seconds)
        return self.probe.stop()

    def new_peer(self):
        """A user id or a source address that was not used a moment ago."""
        if self.is_unix:
            os.seteuid(FIRST_UID + self.peers % UIDS)
        return attacks.Peer(self.address, self.own, token=self.token, tls=self.tls,
                            source=None if self.is_unix else f"127.9.{self.peers // 250}.{1 + self.peers % 250}")

    def memory_kib(self, key):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key + ":"))

    def forget_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")


def in_child(work):
    """What `work` returns, as text, when it runs in a child that has lower priority; fds and user ids end with it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.nice(5)
            os.write(writer, str(work()).encode()[:4000])
        except BaseException as error:  # pylint: disable=broad-except
            os.write(writer, repr(error).encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    while True:
        part = os.read(reader, 4096)
        if not part:
            break
        said += part
    os.close(reader)
    os.waitpid(pid, 0)
    return said.decode()


def attack_once(target, attack):
    """What was seen: what the attack says, how long the longest call took, how far memory grew."""
    before = target.memory_kib("VmRSS")
    target.forget_peak()
    target.probe.go()
    target.peers += 1
    share = crisol.contention()
    said = in_child(lambda: attack(target.new_peer()))
    share = max(share, crisol.contention())
    time.sleep(0.03)  # calls that begin after its last byte
    calls, failures, worst_us = target.probe.stop()
    return {"said": said, "calls": calls, "failures": failures, "worst_us": worst_us, "share": share,
            "grown_kib": target.memory_kib("VmHWM") - before}


def problems_of(target, attack, seen):
    grown = MESSAGES_KIB if attack in MAY_FILL else CONNECTIONS_KIB if attack in MAY_CONNECT else GROWTH_KIB
    out = []
    if seen["said"] != "True":
        out.append(seen["said"])
    if seen["failures"] or not seen["calls"]:
        out.append(f"{seen['failures']} of {seen['calls']} good calls failed")
    if seen["worst_us"] > max(BAR_US * crisol.SLOWNESS * seen["share"] + target.calm_us, 4 * target.calm_us):
        out.append(f"a good call took {seen['worst_us'] / 1000:.1f} ms, {target.calm_us / 1000:.1f} ms without an attack")
    if seen["grown_kib"] > grown:
        out.append(f"grew by {seen['grown_kib']} KiB")
    return out


def attack(target, which):
    """Problems of the best try."""
    best = None
    for _ in range(TRIES):
        seen = attack_once(target, which)
        problems = problems_of(target, which, seen)
        if os.environ.get("CRISOL_ABUSE_VERBOSE"):
            print(f"{target.name:18} {which.__name__:40} {seen['worst_us'] / 1000:7.1f} ms {seen['grown_kib']:7} KiB "
                  f"{seen['calls']:5} calls {problems}")
        if not problems:
            return []
        target.calm_us = max(target.calm_us, target.measure(0.5)[2])
        if not problems_of(target, which, seen):
            return []
        best = problems if best is None or len(problems) < len(best) else best
    return [f"{target.name}: {which.__name__}: {problem}" for problem in best]


class Host:
    """sandboxd on both kinds of address, and an orchestrator on each."""

    def __init__(self, descriptors=None):
        self.descriptors = descriptors
        self.folder = tempfile.mkdtemp(prefix="crisol-e2e-")
        os.chmod(self.folder, 0o711)
        self.processes, self.targets = [], []
        try:
            self.start_sandboxd()
            for listen in ("127.0.0.1:0", f"unix:{self.folder}/a/agent.sock"):
                self.start_orchestrator(listen)
            self.start_secure_sandboxd()
        except BaseException:
            self.stop()
            raise

    def start(self, name, argv):
        process = crisol.Process(name, argv, os.path.join(self.folder, f"{name}-{len(self.processes)}.log"))
        self.processes.append(process)
        return process

    def open_to_all(self, path):
        """Each attacker on a unix socket is a user of its own."""
        os.chmod(os.path.dirname(path), 0o711)
        os.chmod(path, 0o666)
        return path

    def start_secure_sandboxd(self):
        """Callers by TCP show a certificate; the frames inside are what they are everywhere."""
        authority = Authority(os.path.join(self.folder, "authority"))
        own = authority.make(TLS_NAME, os.path.join(self.folder, "server"))
        callers = authority.make("caller.test", os.path.join(self.folder, "callers"))
        process = self.start("sandboxd", [
            os.path.join(crisol.BIN, "sandboxd"), "--slots=1", *QUICK, f"--socket={self.folder}/t/sandboxd.sock",
            "--listen=127.0.0.1:0", "--metrics=", *flags(own), f"--uid-base={0x70400000}"])
        port = int(process.match(r" sandboxd ready .*port=(\d+)", 40).group(1))
        self.targets.append(Target("sandboxd tls", self.front_of(process), ("127.0.0.1", port),
                                   "/crisol.sandbox.v1.SandboxService/Run", tls=callers))

    def front_of(self, process):
        front = next(pid for pid in crisol.descendants(process.pid)
                     if "sandboxd-front " in crisol.processes().get(pid, (0, ""))[1])
        if self.descriptors:  # sandboxd as a whole refuses to start with so few; whoever is the same user may lower the limit
            user = crisol.user_of(front)
            subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "prlimit", f"--pid={front}",
                            f"--nofile={self.descriptors}:{self.descriptors}"], check=True, timeout=30)
        return front

    def start_sandboxd(self):
        token_file, sock = os.path.join(self.folder, "token"), os.path.join(self.folder, "s", "sandboxd.sock")
        with open(token_file, "w", encoding="utf-8") as file:
            file.write(TOKEN + "\n")
        os.chmod(token_file, 0o600)
        process = self.start("sandboxd", [
            os.path.join(crisol.BIN, "sandboxd"), "--slots=1", *QUICK, f"--socket={sock}", "--listen=127.0.0.1:0", f"--token-file={token_file}",
            *(f"--allow-uid={FIRST_UID + index}" for index in range(UIDS))])
        port = int(process.match(r" sandboxd ready .*port=(\d+)", 40).group(1))
        front = self.front_of(process)
        own = "/crisol.sandbox.v1.SandboxService/Run"
        self.targets.append(Target("sandboxd tcp", front, ("127.0.0.1", port), own, TOKEN))
        self.targets.append(Target("sandboxd unix", front, self.open_to_all(sock), own))

    def start_orchestrator(self, listen):
        if listen.startswith("unix:"):
            os.mkdir(os.path.dirname(listen[5:]))
            os.chown(os.path.dirname(listen[5:]), crisol.SERVICE_UID, -1)
        limit = ["prlimit", f"--nofile={self.descriptors}", "--"] if self.descriptors else []
        process = self.start("orchestrator", [
            *limit, os.path.join(crisol.BIN, "orchestrator"), f"--listen={listen}", "--http=", *QUICK, f"--user={crisol.SERVICE_UID}",
            f"--sandbox=unix:{self.folder}/s/sandboxd.sock"])
        if listen.startswith("unix:"):
            process.match(r" ready ")
            address = self.open_to_all(listen[5:])
        else:
            address = ("127.0.0.1", int(process.match(r" ready grpc=\S+:(\d+)").group(1)))
        self.targets.append(Target(f"orchestrator {'unix' if listen.startswith('unix') else 'tcp'}", process.pid, address,
                                   "/crisol.agent.v1.AgentService/GetRun"))

    def stop(self):
        for target in self.targets:
            target.probe.close()
        for process in reversed(self.processes):
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def host():
    running = Host()
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize("index", range(5))
def test_the_well_behaved_are_served_during_every_attack(host, index):
    target = host.targets[index]
    descriptors, memory_kib = crisol.count_fds(target.pid), target.memory_kib("VmRSS")
    problems = [problem for which in attacks.ATTACKS for problem in attack(target, which)]
    assert not problems, "\n".join(problems)
    # What was allocated for connections and messages may stay with the allocator; nothing else may, and no connection.
    crisol.wait_for(lambda: crisol.count_fds(target.pid) <= descriptors, 20, f"{target.name} closes what attackers left")
    grown_kib = target.memory_kib("VmRSS") - memory_kib
    assert grown_kib < CONNECTIONS_KIB + GROWTH_KIB, f"{target.name} keeps {grown_kib} KiB"


def test_want_of_descriptors_passes():
    """Hundreds of connections on services that have few descriptors; when they are gone, new ones are served again."""
    host = Host(DESCRIPTORS)
    try:
        for target in host.targets:
            # Each takes three: its own and both ends of the way to gRPC core. A peer may have 64 and more.
            served = int(in_child(lambda target=target: attacks.count_served(target.new_peer(), 600, DESCRIPTORS // 3)))
            assert 0 < served <= DESCRIPTORS // 3, (target.name, served)
            fresh = Probe(target.text, target.token, target.probe_tls)
            try:
                fresh.go()
                time.sleep(0.05)
                calls, failures, _ = fresh.stop()
            finally:
                fresh.close()
            assert calls > 0 and failures == 0, target.name
            assert target.measure(0.05)[1] == 0, target.name
    finally:
        host.stop()


def test_256_callers_of_one_user_and_200_connections_a_second_get_through(host):
    """With the defaults, on the unix sockets, as one user; also while the 256 stay."""
    for target in host.targets:
        if target.is_unix:
            assert in_child(lambda target=target: attacks.busy_user(target.new_peer())) == "True", target.name
