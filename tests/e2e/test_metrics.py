# SPDX-License-Identifier: Apache-2.0
"""The metrics of both services: their form, that they count, and that no caller can make a new series."""
import contextlib
import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request

import exposition
import grpc
import pytest
import services as crisol

TASK = "Write an LRU cache in Python."
MARK = "q7zzmark"
DEPLOY = os.path.join(crisol.SOURCE, "deploy", "monitoring")


@pytest.fixture(scope="module")
def services():
    with crisol.Services(sandboxd_flags=["--metrics=127.0.0.1:0", "--slots=2", "--queue=2"]) as running:
        port = running.sandboxd.match(r" metrics address=\S+ port=(\d+)").group(1)
        running.metrics = f"127.0.0.1:{port}"
        # Its own first runs are counted too: one shows that it can, and each runtime is asked for its version.
        with urllib.request.urlopen(f"http://{running.http}/api/v2/runtimes", timeout=90) as answer:
            own = 1 + len(json.load(answer))
        crisol.wait_for(lambda: running.sandboxd.log().count(" run ended execution=") >= own, 30, "its own runs are over")
        crisol.settled(running)
        yield running


def pages(services):
    return {"sandboxd": exposition.scrape(services.metrics), "orchestrator": exposition.scrape(services.http)}


def test_pages_are_well_formed_and_tell_about_processes_and_calls(services):
    for name, (types, samples) in pages(services).items():
        for family, kind in {"process_cpu_seconds_total": "counter", "process_resident_memory_bytes": "gauge",
                             "process_open_fds": "gauge", "process_max_fds": "gauge",
                             "process_virtual_memory_bytes": "gauge", "process_start_time_seconds": "gauge",
                             "grpc_server_started_total": "counter", "grpc_server_handled_total": "counter",
                             "grpc_server_msg_received_total": "counter", "grpc_server_msg_sent_total": "counter",
                             "grpc_server_handling_seconds": "histogram"}.items():
            assert types.get(family) == kind, f"{name}: {family}"
        assert exposition.value(samples, "process_resident_memory_bytes") > 1 << 20
        assert exposition.value(samples, "process_open_fds") > 3
        # A series is there before its first event.
        assert exposition.value(samples, "grpc_server_handled_total", grpc_type="unary",
                                grpc_service="grpc.health.v1.Health", grpc_method="Check", grpc_code="Internal") == 0


def test_runs_are_counted_by_verdict_runtime_pool_and_code(services):
    _, before = exposition.scrape(services.metrics)
    assert services.crisol("exec", "--runtime", "python", "--", "print('x' * 99)").returncode == 0
    assert services.crisol("exec", "--runtime", "shell", "--", "exit 3").returncode == 3
    assert services.crisol("exec", "--memory-mib=999999", "--runtime", "shell", "--", "x").returncode == 125
    _, after = exposition.scrape(services.metrics)

    def grown(name, **labels):
        return exposition.value(after, name, **labels) - exposition.value(before, name, **labels)
    assert grown("sandboxd_executions_total", verdict="ok") == 1
    assert grown("sandboxd_executions_total", verdict="nonzero_exit") == 1
    assert grown("sandboxd_runtime_executions_total", runtime="python") == 1
    assert grown("sandboxd_output_bytes_total", stream="stdout") == 100
    assert grown("sandboxd_execution_seconds_count") == grown("sandboxd_start_seconds_count") == 2
    assert grown("sandboxd_queue_wait_seconds_count") == 2
    pool = sum(value for (name, _), value in after.items() if name == "sandboxd_pool_requests_total")
    assert pool - sum(value for (name, _), value in before.items() if name == "sandboxd_pool_requests_total") == 2
    call = {"grpc_type": "server_stream", "grpc_service": "crisol.sandbox.v1.SandboxService",
            "grpc_method": "Execute"}
    assert grown("grpc_server_started_total", **call) == 3
    assert grown("grpc_server_handled_total", **call, grpc_code="OK") == 2
    assert grown("grpc_server_handled_total", **call, grpc_code="InvalidArgument") == 1
    assert grown("grpc_server_handling_seconds_count", **call) == 3
    assert grown("grpc_server_msg_received_total", **call) == 3
    # Boxes that are made behind the last result count as well.
    crisol.wait_for(lambda: crisol.has_full_pool(services), 10, "the pool is told to be full again")
    assert exposition.value(after, "sandboxd_slots", state="total") == 2
    assert exposition.value(after, "sandboxd_queue_capacity") == 2
    assert exposition.value(after, "sandboxd_backend_up", backend="native") == 1
    assert exposition.value(after, "sandboxd_serving") == 1


def test_slots_and_queue_are_seen_while_they_are_full(services):
    calls = [subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "exec", "--wall-ms=120000", "--runtime", "shell", "--", "sleep 100"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={"CRISOL_SANDBOX": services.sandbox, "PATH": "/usr/bin:/bin"}) for _ in range(5)]

    def is_full():
        _, samples = exposition.scrape(services.metrics)
        return (exposition.value(samples, "sandboxd_slots", state="used") == 2 and
                exposition.value(samples, "sandboxd_slots_used_ratio") == 1 and
                exposition.value(samples, "sandboxd_queue_length") == 2 and
                exposition.value(samples, "sandboxd_refusals_total", reason="QUEUE_FULL") >= 1)
    try:
        crisol.wait_for(is_full, 10, "two run, two wait, one is refused")
        top = services.crisol("top", "--once", "--json")
        shown = json.loads(top.stdout)["sandboxd"]
        assert top.returncode == 0 and (shown["slots"], shown["running"], shown["waiting"]) == (2, 2, 2)
        assert "slots 2/2  queue 2/2" in services.crisol("top", "--once").stdout.decode()
    finally:
        for call in calls:
            call.send_signal(signal.SIGINT)
        for call in calls:
            call.wait(60)


def test_the_orchestrator_counts_its_calls_and_runs(services):
    assert services.crisol("run", TASK).returncode == 0
    types, samples = exposition.scrape(services.http)
    assert types["grpc_client_handled_total"] == "counter"
    assert exposition.value(samples, "grpc_client_handled_total", grpc_type="server_stream", grpc_method="Execute",
                            grpc_service="crisol.sandbox.v1.SandboxService", grpc_code="OK") >= 2
    assert exposition.value(samples, "grpc_server_handled_total", grpc_type="server_stream",
                            grpc_method="GenerateStream", grpc_service="crisol.agent.v1.AgentService",
                            grpc_code="OK") == 1
    assert exposition.value(samples, "crisol_runs_ended_total", status="success") == 1
    assert exposition.value(samples, "crisol_trace_spans_total", fate="sent") == 0  # off without an endpoint
    runs = json.loads(services.crisol("top", "--once", "--json").stdout)["orchestrator"]["runs"]
    assert runs == {"SUCCESS": 1}


def ask(url, **headers):
    try:
        urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=90).close()
    except urllib.error.URLError:
        pass


def test_no_caller_makes_a_series(services):
    """Names that a caller chooses, on every way in: the series stay those that were there."""
    ask(f"http://{services.http}/api/v1/{MARK}")
    before = {name: set(samples) for name, (_, samples) in pages(services).items()}
    for address in (services.sandbox, services.grpc):
        with grpc.insecure_channel(address) as channel:
            for i in range(60):
                try:
                    channel.unary_unary(f"/{MARK}.Service{i}/Method{i}")(
                        b"", timeout=90, metadata=[(f"{MARK}-{i}", MARK), ("traceparent", MARK)])
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.UNIMPLEMENTED
    for i in range(60):
        ask(f"http://{services.http}/api/v1/{MARK}{i}?{MARK}={i}", **{"User-Agent": MARK, "Traceparent": MARK})
        ask(f"http://{services.metrics}/{MARK}{i}")
    for i in range(5):
        services.crisol("exec", "--runtime", f"{MARK}{i}", "--", MARK)
        services.crisol("exec", "--runtime", "shell", "--", f"echo {MARK}; exit {i + 10}")
    after = pages(services)
    for name, (_, samples) in after.items():
        assert set(samples) == before[name], f"{name}: {sorted(set(samples) ^ before[name])[:5]}"
        assert not [key for key in samples if MARK in str(key)]
        assert len(samples) < 2500, f"{name} has {len(samples)} series"
    assert exposition.value(after["sandboxd"][1], "grpc_server_handled_total", grpc_type="unary",
                            grpc_service="unknown", grpc_method="unknown", grpc_code="Unimplemented") >= 60


def names_used(text):
    """The metric names in an expression of PromQL: our words outside of selectors and groupings."""
    text = re.sub(r"\{[^}]*\}|\bby \([^)]*\)", "", text)
    return set(re.findall(r"\b((?:crisol|sandboxd|process|grpc|secret|tls)_[a-z0-9_]+)", text))


def expressions():
    with open(os.path.join(DEPLOY, "grafana-dashboard.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len(panels) >= 12
    for panel in panels:
        assert panel["title"] and panel["targets"]
        for target in panel["targets"]:
            yield f"panel '{panel['title']}'", target["expr"]
    with open(os.path.join(DEPLOY, "alerts.yaml"), encoding="utf-8") as file:
        text = file.read()
    rules = re.findall(r"- alert: (\w+)\n\s+expr: (.+)\n", text)
    assert len(rules) >= 10 and len(rules) == text.count("- alert:") == text.count("runbook:")
    yield from ((f"alert {name}", expression) for name, expression in rules)


def test_dashboard_and_alerts_use_series_that_are_there(services):
    there = {name for _, samples in pages(services).values() for name, _ in samples}
    labels = {}
    for _, samples in pages(services).values():
        for name, pairs in samples:
            labels.setdefault(name, {}).setdefault("", set()).update(key for key, _ in pairs)
            for key, text in pairs:
                labels[name].setdefault(key, set()).add(text)
    for where, expression in expressions():
        used = names_used(expression)
        assert used, f"{where}: no metric in {expression!r}"
        assert used <= there, f"{where}: there is no {sorted(used - there)}"
        for name, selector in re.findall(r"([a-z_0-9]+)\{([^}]*)\}", expression):
            for key, operator, text in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector):
                if key in ("job", "instance"):
                    continue
                assert key in labels[name][""], f"{where}: {name} has no label {key}"
                if operator == "=":
                    assert text in labels[name][key], f"{where}: {name} has no {key}={text!r}"


def test_every_alarm_has_its_entry_in_the_documents():
    with open(os.path.join(crisol.SOURCE, "docs", "operations.md"), encoding="utf-8") as file:
        page = file.read()
    for where, _ in expressions():
        kind, name = where.split(" ", 1)
        assert kind != "alert" or f"`{name}`" in page, f"docs/operations.md does not explain {name}"


def lose_backend(services):
    """Returns once another one serves."""
    def read():
        _, samples = exposition.scrape(services.metrics)
        return [exposition.value(samples, f"sandboxd_{name}") for name in ("backend_losses_total", "backend_starts_total", "serving")]
    losses, starts, _ = read()
    running = crisol.processes()
    native = [pid for pid in crisol.descendants(services.sandboxd.pid) if "sandboxd-native" in running.get(pid, (0, ""))[1]]
    # The keeper, its child, first: nobody is left to clean up but the next start.
    for pid in sorted(native, key=lambda pid: running[pid][0] == services.sandboxd.pid):
        os.kill(pid, signal.SIGKILL)
    crisol.wait_for(lambda: read() == [losses + 1, starts + 1, 1], 20, "the backend is back, and both are counted")


def test_a_lost_backend_is_counted(services):
    for _ in range(3):
        lose_backend(services)
        # Another sandboxd that starts on this machine just then may be the one that sweeps; not each time.
        with contextlib.suppress(AssertionError):
            crisol.wait_for(lambda: exposition.value(exposition.scrape(services.metrics)[1], "sandboxd_leftovers_swept_total") >= 1,
                            2, "what it left is swept")
            return
    raise AssertionError("no sweep was counted")
