# SPDX-License-Identifier: Apache-2.0
"""Several sandboxd behind one name, each on an address of its own, spoken to by mutual TLS."""
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import tempfile

import services as crisol
from certificates import Authority, flags
from names import Names

NAME = "sandboxd.test"
AGENT = "orchestrator.test"
FIRST_UID = 0x70000000  # sandboxd/backend/userns.h; each has a range of its own
UIDS = 0x400000
CLAIMED_UIDS = range(0x74000000, 0x78000000, 4 * UIDS)  # of tests that look for processes by their user


def free_port(addresses):
    """One that is free on all of them now."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind((addresses[0], 0))
            port = probe.getsockname()[1]
        try:
            for address in addresses:
                with socket.socket() as probe:
                    probe.bind((address, port))
            return port
        except OSError:
            continue
    raise RuntimeError("no port is free on every address")


def claim(choices):
    """(the first of these that no other test on this machine has claimed, what holds the claim until it is closed)"""
    for one in choices:
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holder.bind(f"\0crisol-test {one}")
            return one, holder
        except OSError:
            holder.close()
    raise RuntimeError("every one of them is claimed")


class Island:
    """A network namespace that is joined to ours by one link, which can be cut: then neither side hears of the other, nor of its end."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.link = f"crisol{self.holder.pid % 1000000}"
        crisol.wait_for(lambda: self.network("self") != self.network(self.holder.pid), 10, "the namespace is there")
        # Of the addresses that are for tests of networks (RFC 2544): nobody but such tests should have them.
        prefix, self.claim = claim(f"198.{random.randint(18, 19)}.{random.randint(0, 255)}.{4 * random.randint(0, 63)}"
                                   for _ in range(100))
        network = prefix.rsplit(".", 1)
        ours, self.address = (f"{network[0]}.{int(network[1]) + host}" for host in (1, 2))
        try:
            self.ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid))
            self.ip("addr", "add", f"{ours}/30", "dev", self.link)
            self.ip("link", "set", self.link, "up")
            self.inside("link", "set", "lo", "up")
            self.inside("addr", "add", f"{self.address}/30", "dev", "eth0")
            self.heal()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def network(pid):
        return os.readlink(f"/proc/{pid}/ns/net")

    @staticmethod
    def ip(*argv):
        subprocess.run(["ip", *argv], check=True, timeout=20)

    @property
    def enter(self):
        """In front of a command that is to run there."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def inside(self, *argv):
        subprocess.run([*self.enter, "ip", *argv], check=True, timeout=20)

    def cut(self):
        self.inside("link", "set", "eth0", "down")

    def heal(self):
        self.inside("link", "set", "eth0", "up")

    def close(self):
        self.holder.kill()
        self.claim.close()
        self.holder.wait()  # the link goes with the namespace, as soon as nobody is in it


class Sandboxd:
    def __init__(self, fleet, number, island=None):
        self.fleet, self.number, self.island = fleet, number, island
        self.address = island.address if island else f"127.77.0.{number + 1}"
        self.folder = os.path.join(fleet.folder, f"sandboxd-{number}")
        self.audit = os.path.join(self.folder, "audit.log")
        self.starts = 0
        self.process = None
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o711)

    def start(self, *more):
        self.starts += 1
        self.process = crisol.Process(f"sandboxd-{self.number}", [
            *(self.island.enter if self.island else ()), os.path.join(crisol.BIN, "sandboxd"), f"--socket={self.folder}/s/sandboxd.sock",
            f"--listen={self.address}:{self.fleet.port}", f"--slots={self.fleet.slots}", "--backend=native",
            "--preload=off", "--pool=0", "--grace-ms=20000", f"--uid-base={self.fleet.first_uid + self.number * UIDS}",
            f"--front-user={64400 + self.number}", f"--audit-log={self.audit}",
            *flags(self.fleet.server_files), f"--tls-client={AGENT}", *self.fleet.sandboxd_flags, *more],
            os.path.join(self.folder, f"log-{self.starts}"))
        self.process.match(r" sandboxd ready ", 60)
        return self

    def pids(self):
        return [self.process.pid, *crisol.descendants(self.process.pid)]

    def natives(self):
        """Its backend: one, or none that moment."""
        found = set()
        for pid in self.pids():
            with contextlib.suppress(OSError):
                if crisol.name_of(pid).startswith("sandboxd-native"):
                    found.add(pid)
        return found

    def kill(self):
        """kill -9 of all that is its own; sandboxes end with their backend."""
        for pid in self.pids()[::-1]:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # boxes come and go
                if crisol.user_of(pid) < crisol.FIRST_BOX_UID:
                    os.kill(pid, signal.SIGKILL)
        self.process.popen.wait()

    def signal_front(self, number):
        """To the process that talks to callers: stopped, it is there and says nothing."""
        for pid in self.pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if crisol.name_of(pid).startswith("sandboxd-front"):
                    os.kill(pid, number)

    def executions(self):
        """(request id, verdict) of all that it has run, ever."""
        if not os.path.exists(self.audit):
            return []
        with open(self.audit, encoding="utf-8") as file:
            found = [re.search(r"request_id=(\S+) .* verdict=(\S+)", line) for line in file]
        return [match.groups() for match in found if match]

    def log(self):
        out = []
        for number in range(1, self.starts + 1):
            with open(os.path.join(self.folder, f"log-{number}"), encoding="utf-8", errors="replace") as file:
                out.append(file.read())
        return "".join(out)


class Fleet:
    def __init__(self, count, slots=2, sandboxd_flags=(), first_uid=FIRST_UID, on_island=None):
        self.first_uid = first_uid
        self.temporary = tempfile.TemporaryDirectory(prefix="crisol-e2e-")
        self.folder = self.temporary.name
        os.chmod(self.folder, 0o711)
        self.slots, self.sandboxd_flags = slots, sandboxd_flags
        self.authority = Authority(os.path.join(self.folder, "authority"))
        self.server_files = self.authority.make(NAME, os.path.join(self.folder, "server"))
        self.agent_files = self.authority.make(AGENT, os.path.join(self.folder, "agent"))
        self.give_to_agent(self.agent_files)
        self.port = free_port([f"127.77.0.{number}" for number in range(1, 10)])
        self.names = Names(NAME)
        self.members = []
        try:
            for number in range(count):
                self.add(Island() if number == on_island else None)
        except BaseException:
            self.close()
            raise

    def give_to_agent(self, folder):
        for name in os.listdir(folder):
            os.chown(os.path.join(folder, name), crisol.SERVICE_UID, -1)

    def add(self, island=None):
        member = Sandboxd(self, len(self.members), island)
        self.members.append(member)
        member.start()
        self.publish()
        return member

    def publish(self):
        self.names.addresses = [member.address for member in self.members if member.process]

    def remove(self, member):
        """Out of the name first, as a Service does with a pod that ends."""
        process, member.process = member.process, None
        self.publish()
        assert process.stop(60) == 0

    @property
    def target(self):
        return f"dns://127.0.0.1:{self.names.port}/{NAME}:{self.port}"

    def agent_flags(self):
        return [f"--sandbox={self.target}", *flags(self.agent_files, "sandbox-tls", "ca")]

    def executions(self):
        return [execution for member in self.members for execution in member.executions()]

    def close(self):
        for member in self.members:
            if member.process and member.process.popen.poll() is None:
                member.signal_front(signal.SIGCONT)
                member.process.stop(60)
            if member.island:
                member.island.close()
        self.names.close()
        self.temporary.cleanup()
