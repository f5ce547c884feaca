# SPDX-License-Identifier: Apache-2.0
"""Services whose orchestrators are killed and paused, on each kind of store; what whole runs look like."""
import http.client
import http.server
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import services as crisol

TASK = "Write an LRU cache in Python."
RESTARTED = "restarted while the model answered"
# A kill while the model answers or a sandbox runs makes a call again, which tells of itself.
OF_CALLS = ("model_retry", "sandbox_started")
LEASE_MS = 1000


class CountingProxy:
    """Stands before the model and counts what is bought."""

    def __init__(self, address):
        proxy = self
        self.requests = 0
        self.gate = None  # holds the next answer until it is set

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["Content-Length"]))
                gate, proxy.gate = proxy.gate, None
                proxy.requests += 1
                if gate:
                    gate.wait(600)
                upstream = http.client.HTTPConnection(address, timeout=90)
                upstream.request("POST", self.path, body, {
                    name: value for name, value in self.headers.items() if name.lower() != "connection"})
                answer = upstream.getresponse()
                data = answer.read()
                upstream.close()
                try:
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.headers["Content-Type"])
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # it was killed

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Replica:
    """One orchestrator."""

    def __init__(self, services, base_url, flags, number):
        self.process = crisol.Process("orchestrator", [
            os.path.join(crisol.BIN, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
            f"--sandbox={services.sandbox}", f"--user={crisol.SERVICE_UID}", *flags],
            os.path.join(services.folder, f"orchestrator-{number}.log"),
            env={"PATH": "/usr/bin:/bin", "GEMINI_BASE_URL": base_url, "GEMINI_API_KEY": crisol.CANARY})
        ready = self.process.match(r" ready .*grpc=(\S+) .*http=(\S+)", 60)
        self.grpc, self.http = ready.group(1), ready.group(2)

    def signal(self, number):
        self.process.popen.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.popen.wait()

    def log(self):
        return self.process.log()

    def ask(self, method, path, body=None, headers=None):
        request = urllib.request.Request(
            f"http://{self.http}{path}", method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json", **(headers or {})})
        return urllib.request.urlopen(request, timeout=90)

    def submit(self, headers=None):
        with self.ask("POST", "/api/v1/runs", {"task": TASK}, headers) as answer:
            return json.loads(answer.read())["run_id"]

    def crisol(self, *argv, stdin=b""):
        """The command line, on this orchestrator."""
        return subprocess.run([os.path.join(crisol.BIN, "crisol"), *argv], input=stdin, capture_output=True,
                              timeout=60 * crisol.SLOWNESS, check=False,
                              env={"PATH": "/usr/bin:/bin", "CRISOL_ORCHESTRATOR": self.grpc})

    def status(self, run_id):
        """What it says of the run, here and now; None: it cannot be asked."""
        try:
            with self.ask("GET", f"/api/v1/runs/{run_id}") as answer:
                return json.loads(answer.read())["status"]
        except urllib.error.HTTPError as error:
            assert error.code in (404, 503), error
            return None

    def knows(self, run_id):
        """Whether it can be asked for the run here, now."""
        return self.status(run_id) is not None

    def has_taken_up(self):
        """Whether it goes on with a run that another one had."""
        return "taking up runs that were going on" in self.log()

    def events(self, run_id, until=None):
        """State events as (seq, name, data): all, or until so many of the run's own are there."""
        seen, frame = [], {}
        with self.ask("GET", f"/api/v1/runs/{run_id}/events") as stream:
            for line in stream:
                text = line.decode().rstrip("\n")
                if text:
                    name, _, value = text.partition(": ")
                    frame[name] = value
                    continue
                if "id" in frame:
                    seen.append((int(frame["id"]), frame["event"], frame["data"]))
                    if until and sum(name not in OF_CALLS for _, name, _ in seen) >= until:
                        return seen
                frame = {}
        return seen


class House:
    """sandboxd, a model that counts, a store, and any number of orchestrators."""

    def __init__(self, server=None):
        # The store lies outside of the folder whose files are compared.
        self.store = tempfile.TemporaryDirectory(prefix="crisol-durable-")
        os.chown(self.store.name, crisol.SERVICE_UID, crisol.SERVICE_UID)
        self.server = server
        self.database = None
        self.flags = [f"--store=sqlite:{self.store.name}/journal.db", "--store-free-mib=1", "--grace-ms=200"]
        if server:
            self.database = "d" + os.path.basename(self.store.name).rpartition("-")[2].lower()
            self.flags = [f"--store={server.create(self.database)}", f"--store-lease-ms={LEASE_MS}", "--grace-ms=200"]
        self.services = crisol.Services(with_agent=False)
        self.replicas = []
        self.replay = crisol.Process("gemini-replay", [
            os.path.join(crisol.BIN, "gemini-replay"), "--listen=127.0.0.1:0",
            f"--script={os.path.join(crisol.SCRIPTS, 'lru_cache.json')}", "--delay-ms=3"],
            os.path.join(self.services.folder, "replay.log"))
        self.services.replay = self.replay
        address = self.replay.match(r"gemini-replay listening on (\S+)").group(1)
        self.proxy = CountingProxy(address)

    def start(self):
        """Another orchestrator; who was killed before is gone."""
        replica = Replica(self.services, self.proxy.url, self.flags, len(self.replicas))
        self.replicas.append(replica)
        return replica

    def expire(self):
        """Lets every lease run out, as if nobody had been heard of for its time."""
        if self.server:
            self.server.ask(self.database, "UPDATE crisol_runs SET lease_until = '-infinity'")

    def restart(self, replica):
        """kill -9, and a new one that takes up what it had."""
        replica.kill()
        self.expire()
        return self.start()

    def ask_store(self, statement):
        return self.server.ask(self.database, statement)

    def close(self):
        codes = [replica.process.stop() for replica in self.replicas]
        self.services.stop()
        self.proxy.close()
        self.store.cleanup()
        assert all(code in (0, -signal.SIGKILL) for code in codes), codes


def own_names(events):
    return [name for _, name, _ in events if name not in OF_CALLS]


def count_told(events):
    return sum(name == "model_retry" and RESTARTED in data for _, name, data in events)


def check_whole(events):
    """Gapless, ended once with SUCCESS, and no step has two results."""
    assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
    assert [name for _, name, _ in events].count("result") == 1
    result = json.loads(events[-1][2])
    assert events[-1][1] == "result" and result["status"] == "SUCCESS", result["final_response"]
    per_visit = []
    for _, name, _ in events:
        if name == "node_started":
            per_visit.append({})
        if per_visit and name in ("model_call", "plan_ready", "files_ready", "sandbox_result", "evaluation"):
            per_visit[-1][name] = per_visit[-1].get(name, 0) + 1
    assert all(count == 1 for visit in per_visit for count in visit.values()), per_visit
    return result


