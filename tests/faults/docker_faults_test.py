#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of everybody who takes part in a container, in every phase of it; and of the engine in all of them.

Between sandboxd and the engine stands a gate that holds one answer back: the engine has done what it was
asked for and nobody knows. At every point the caller has a typed end, no process of the run and no
container of that sandboxd is there soon after, and the next run works. The gate can also refuse in the engine's
place: so a container is wedged, and its quarantine is seen.
"""
import concurrent.futures
import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
import threading
import time

os.environ["CRISOL_BACKEND"] = "docker"  # for lab, which gives the first start time to build the image
HERE = os.path.dirname(os.path.abspath(__file__))
for name in ("conformance", "e2e", "faults", "harness"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), name))
import engine as docker  # noqa: E402 (needs the paths above)
import exposition  # noqa: E402
import lab  # noqa: E402
from faults_test import Caller, children  # noqa: E402
from lab import grpc, host, pb, services  # noqa: E402
from listening import serve_each  # noqa: E402

AT_ONCE = 4
GONE_SECONDS = 5  # for containers, once the engine answers
VERSIONS = 4      # runs of sandboxd itself when it starts
HELD = {
    "creating": rb"POST /v[\d.]+/containers/create",
    "attaching": rb"POST /v[\d.]+/containers/\w+/attach",
    "starting": rb"POST /v[\d.]+/containers/\w+/start",
    "inspecting": rb"GET /v[\d.]+/containers/\w+/json",
    "removing": rb"DELETE /v[\d.]+/containers/\w+",
}
REFUSAL = b'HTTP/1.1 500 Internal Server Error\r\nContent-Length: 26\r\n\r\n{"message":"it is wedged"}'
# Phase -> victim -> how the held run may end; two where two of ours race for it.
LOST, BROKEN = {"SANDBOX_LOST"}, {"UNAVAILABLE"}
START = {"supervisor": LOST, "front": BROKEN, "docker": LOST, "engine": LOST}
PHASES = {
    "creating": START,
    "attaching": START,
    "starting": {**START, "init": {"SANDBOX_ERROR", "SANDBOX_LOST"}},
    "inspecting": START,
    "running": {**START, "init": LOST, "relay": LOST},
    "draining": {"supervisor": {"SANDBOX_LOST", "SIGNALED"}, "docker": LOST, "engine": {"SANDBOX_LOST", "SIGNALED"}},
    "removing": {victim: {"OK"} for victim in START},
}


class Gate:
    """A unix socket before the engine's. Passes everything on, but holds the answer to one kind of request, and fails another."""

    def __init__(self, path, engine):
        self.path, self.engine, self.pattern, self.refused = path, engine, None, None
        self.held, self.released = threading.Event(), threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        serve_each(self.listener, self.serve)

    def close(self):
        self.released.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self, client):
        with client, socket.socket(socket.AF_UNIX) as engine, contextlib.suppress(OSError):
            engine.connect(self.engine)
            self.pump(client, engine)

    def pump(self, client, engine):
        """Until the engine has closed its side; the caller's side may be closed before."""
        sources, must_hold = [client, engine], False
        while True:
            for source in select.select(sources, [], [])[0]:
                data = source.recv(1 << 16)
                if source is client and self.refused and self.refused.match(data):
                    client.sendall(REFUSAL)
                elif source is client and data:
                    must_hold = must_hold or bool(self.pattern and self.pattern.match(data))
                    engine.sendall(data)
                elif source is client:
                    sources.remove(client)
                    engine.shutdown(socket.SHUT_WR)
                elif not data:
                    return
                else:
                    if must_hold:
                        self.held.set()
                        self.released.wait()
                        must_hold = False
                    client.sendall(data)


class Point:
    """One sandboxd, and a run that a phase holds in it."""

    def __init__(self, engine, phase, victim):
        self.engine, self.phase, self.victim = engine, phase, victim
        self.caller, self.run, self.family = None, set(), set()
        self.after_kill = []

    def __enter__(self):
        self.gate = Gate(os.path.join(self.engine.folder, f"{self.phase}-{self.victim}.sock"), self.engine.socket)
        self.service = lab.Service("--backend=docker", f"--docker-socket={self.gate.path}", f"--docker-base={docker.BASE}",
                                   "--docker-pull=never", "--pool=0", "--log-level=debug", "--metrics=127.0.0.1:0", slots=1)
        self.service.__enter__()
        self.backend, self.front = self.service.child("sandboxd-docker"), self.service.child("sandboxd-front")
        self.instance = re.search(r"--instance=(\w+)", host.processes()[self.backend][1]).group(1)
        host.wait_for(lambda: self.service.log().count(" run ended execution=") >= VERSIONS, 30, "its own runs are over")
        host.wait_for(lambda: not self.containers(), 20, "no container before")
        self.stub = services.SandboxServiceStub(self.service.channel)
        return self

    def __exit__(self, *error):
        self.let_go()
        self.gate.close()
        self.service.__exit__(*error)

    def let_go(self):
        self.gate.pattern = None
        self.gate.released.set()
        for action in self.after_kill:
            action()
        self.after_kill.clear()

    def containers(self):
        """Ids of those of this sandboxd, from the engine itself."""
        chosen = json.dumps({"label": [f"crisol.instance={self.instance}"]}).replace('"', "%22").replace(" ", "")
        return [one["Id"] for one in json.loads(self.engine.ask("GET", f"/containers/json?all=1&filters={chosen}")[1])]

    def quarantined(self):
        """How many the metrics say are in quarantine."""
        port = self.service.server.match(r" metrics address=\S+ port=(\d+)").group(1)
        return exposition.value(exposition.scrape(f"127.0.0.1:{port}")[1], "sandboxd_quarantined_containers")

    def init(self):
        """The host's pid of sandbox-init; 0 when it does not run."""
        for container in self.containers():
            status, answer = self.engine.ask("GET", f"/containers/{container}/json")
            if status == 200:
                return json.loads(answer)["State"]["Pid"]
        return 0

    # ---- the phases ----

    def hold(self):
        getattr(self, "hold_" + self.phase, self.hold_answer)()
        init = self.init()
        self.run = {init, *host.descendants(init)} if init else set()
        self.run |= set(children(self.backend))  # its relay, its collector

    def call(self, code, wall_time_ms=50000, **fields):
        self.caller = Caller(self.stub, code=code, limits=pb.Limits(wall_time_ms=wall_time_ms), **fields)
        return self.caller

    def hold_answer(self):
        self.gate.pattern = re.compile(HELD[self.phase])
        self.call("echo up; sleep 50")
        host.wait_for(self.gate.held.is_set, 20, "somebody asks the engine for that")

    def hold_running(self):
        self.call("echo up; sleep 50").wait_output()

    def hold_draining(self):
        """The front, which is stopped, does not read what is left. Without something to collect its answer would be there."""
        self.call("echo up; sleep 50", collect=[pb.CollectSpec(path="nothing")]).wait_output()
        os.kill(self.front, signal.SIGSTOP)

        def go_on():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.front, signal.SIGCONT)
        self.after_kill.append(go_on)
        os.kill(children(self.init())[0], signal.SIGKILL)
        host.wait_for(lambda: "to=draining" in self.service.log().rsplit("to=starting", 1)[1], 10, "the run is draining")

    def hold_removing(self):
        self.gate.pattern = re.compile(HELD[self.phase])
        self.call("true")
        host.wait_for(self.gate.held.is_set, 20, "somebody removes the container")
        self.caller.wait_end(20)  # its caller does not wait for that

    # ---- the fault ----

    def kill(self):
        victim = {"supervisor": lambda: self.service.process.pid, "front": lambda: self.front, "docker": lambda: self.backend,
                  "init": self.init, "relay": lambda: children(self.backend)[0]}[self.victim]()
        self.family = self.service.family()
        os.kill(victim, signal.SIGKILL)
        self.let_go()

    def run_next(self):
        # Not the broken connection of the other channel, which the library would share.
        own = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self.service.socket}", own) as channel:
            return services.SandboxServiceStub(channel).Run(
                pb.RunRequest(runtime="shell", code="echo next"), timeout=90, wait_for_ready=True)

    def check(self):
        """What must hold from now on; the engine answers."""
        self.caller.wait_end(20)
        ends = PHASES[self.phase][self.victim]
        assert self.caller.end and self.caller.end[0] in ends, f"the call ended with {self.caller.end}, not with one of {ends}"
        host.wait_for(lambda: not self.run & set(host.processes()), GONE_SECONDS, f"{sorted(self.run)} are gone")
        host.wait_for(lambda: not self.containers(), GONE_SECONDS, "no container is left")
        if self.victim == "supervisor":
            self.service.process.wait(90)
            host.wait_for(lambda: not self.family & set(host.processes()), 10, "its children have ended")
            self.service.server = host.Process("sandboxd", self.service.argv, os.path.join(self.service.folder, "log"))
            self.service.wait_ready(1)
        elif self.victim in ("front", "docker") or (self.victim == "engine" and self.phase != "removing"):
            self.service.wait_ready(2)
        answer = self.run_next()
        if (self.phase, self.victim) == ("removing", "engine") and answer.result.verdict.retryable:
            answer = self.run_next()  # it may hear of the engine's death only now
        assert (answer.result.verdict.code, answer.stdout_data) == (lab.OK, b"next\n"), answer


def inject(engine, phase, victim):
    """Returns what went wrong, or None."""
    began = time.monotonic()
    try:
        with Point(engine, phase, victim) as point:
            point.hold()
            point.kill()
            point.check()
    except Exception as error:  # pylint: disable=broad-except
        return f"{phase}, {victim} killed: {type(error).__name__}: {error}"
    print(f"ok {phase}, {victim} killed: {point.caller.end}, {time.monotonic() - began:.1f} s", flush=True)
    return None


def stop_shim(container, actions):
    """The engine hears nothing of that container any more, until the actions are done."""
    shim = next(pid for pid, (_, command) in host.processes().items() if "containerd-shim" in command and container in command)
    os.kill(shim, signal.SIGSTOP)
    actions.append(lambda: os.kill(shim, signal.SIGCONT))


def wedge(engine):
    """A container that the engine can neither end nor remove costs its caller nothing, is told, and goes in the end."""
    began = time.monotonic()
    try:
        with Point(engine, "running", "nobody") as point:
            point.call("echo up; sleep 50", wall_time_ms=8000).wait_output()
            container = point.containers()[0]
            point.gate.refused = re.compile(rb"DELETE /v[\d.]+/containers/" + container.encode())
            stop_shim(container, point.after_kill)
            point.caller.wait_end(15)
            assert point.caller.end[0] == "WALL_TIME_LIMIT", point.caller.end
            assert point.run_next().stdout_data == b"next\n"  # on the only slot
            told = f"in quarantine until the engine removes it container={container[:12]} quarantined=1"
            host.wait_for(lambda: told in point.service.log(), 30, "the quarantine is told")
            assert 'error="it is wedged"' in point.service.log()
            host.wait_for(lambda: point.quarantined() == 1, 30, "the metrics tell of it, too")
            assert point.containers() == [container]
            assert point.run_next().stdout_data == b"next\n"
            point.gate.refused = None
            point.let_go()
            host.wait_for(lambda: f"out of quarantine container={container[:12]} quarantined=0" in point.service.log(), 30,
                          "the removal is tried again")
            host.wait_for(lambda: not point.containers(), GONE_SECONDS, "no container is left")
            host.wait_for(lambda: point.quarantined() == 0, 30, "the metrics tell of it, too")
            assert point.service.log().count("in quarantine") == 1
    except Exception as error:  # pylint: disable=broad-except
        return f"a wedged container: {type(error).__name__}: {error}"
    print(f"ok a wedged container: {point.caller.end}, {time.monotonic() - began:.1f} s", flush=True)
    return None


def inject_engine(engine, phases):
    """One sandboxd for each phase, all held, and one engine that dies and comes back under all of them."""
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        points = [Point(engine, phase, "engine") for phase in phases]

        def prepare(point):
            point.__enter__()
            stack.push(point.__exit__)
            point.hold()
        list(pool.map(prepare, points))
        engine.kill()
        for point in points:
            point.let_go()
        engine.start()

        def check(point):
            try:
                point.check()
            except Exception as error:  # pylint: disable=broad-except
                return f"{point.phase}, engine killed: {type(error).__name__}: {error}"
            print(f"ok {point.phase}, engine killed: {point.caller.end}", flush=True)
            return None
        return [problem for problem in pool.map(check, points) if problem]


def main(names):
    points = [(phase, victim) for phase, ends in PHASES.items() for victim in ends
              if not names or phase in names or victim in names or f"{phase}/{victim}" in names]
    with docker.Engine() as engine:
        engine.load_base()
        with lab.Service("--backend=docker", f"--docker-socket={engine.socket}", f"--docker-base={docker.BASE}",
                         "--docker-pull=never"):
            pass  # the image is built once
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            wedged = pool.submit(wedge, engine) if not names or "wedged" in names else None
            problems = [problem for problem in pool.map(lambda point: inject(engine, *point), [
                point for point in points if point[1] != "engine"]) if problem]
        if wedged and wedged.result():
            problems.append(wedged.result())
        with_engine = [phase for phase, victim in points if victim == "engine"]
        if with_engine:
            problems += inject_engine(engine, with_engine)
    for problem in problems:
        print(problem)
    count = len(points) + (wedged is not None)
    print(f"{count} points injected, {len(problems)} failed, {count - len(problems)} passed")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
