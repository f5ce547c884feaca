# SPDX-License-Identifier: Apache-2.0
"""Clients of each kind start a run, leave it, come back from a number on, and have every event once."""
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import grpc
import pytest

import services as crisol

TASK = "Write an LRU cache in Python."
AGENT = "crisol.agent.v1.AgentService"
DELTAS = {"model_delta", "output_delta", "gap", "heartbeat"}
PROTOS = os.path.join(crisol.SOURCE, "proto")


@pytest.fixture(scope="module", name="services")
def slow_services():
    """A model that takes its time, so that whoever leaves is back before the end."""
    with crisol.Services(replay_flags=["--delay-ms=25"]) as running:
        yield running


@pytest.fixture(scope="module", name="stubs")
def generated_stubs(tmp_path_factory):
    """(messages, services) as protoc makes them for Python."""
    folder = str(tmp_path_factory.mktemp("stubs"))
    subprocess.run(["protoc", f"-I{PROTOS}", f"--python_out={folder}", f"--grpc_out={folder}",
                    f"--plugin=protoc-gen-grpc={shutil.which('grpc_python_plugin')}",
                    "crisol/agent/v1/agent.proto", "crisol/sandbox/v1/sandbox.proto"], check=True, timeout=60)
    sys.path.insert(0, folder)
    from crisol.agent.v1 import agent_pb2, agent_pb2_grpc  # noqa: E402  (made just now)
    yield agent_pb2, agent_pb2_grpc
    sys.path.remove(folder)


def tool(name):
    path = os.path.join(crisol.TOOLS, name)
    if not crisol.TOOLS or not os.path.exists(path):
        pytest.skip(f"{name} could not be had on this machine (scripts/tools.sh)")
    return path


def assert_whole(events, meanwhile):
    """Every number once and in order, the result once and last; and the client did leave a run that went on."""
    numbers = [seq for seq, _ in events]
    names = [name for _, name in events]
    assert meanwhile.endswith("RUNNING"), "the run had ended before its client left"
    assert numbers == list(range(1, len(events) + 1)), numbers
    assert names[0] == "run_started" and names[-1] == "result" and names.count("result") == 1, names
    assert {"plan_ready", "files_ready", "sandbox_result", "evaluation"} <= set(names)


def grpcurl(services, method, request):
    done = subprocess.run([tool("grpcurl"), "-plaintext", "-max-time", "60", "-d", json.dumps(request), services.grpc,
                           f"{AGENT}/{method}"], capture_output=True, text=True, timeout=90, check=True)
    return json.loads(done.stdout)


def grpcurl_watch(services, run_id, from_seq, count=None):
    """The state events of a watch; after `count` of them the program is ended."""
    events, text, decoder = [], "", json.JSONDecoder()
    request = json.dumps({"run_id": run_id, "from_seq": from_seq})
    with subprocess.Popen([tool("grpcurl"), "-plaintext", "-max-time", "60", "-d", request, services.grpc,
                           f"{AGENT}/WatchRun"], stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            text += line
            if line != "}\n":  # the end of one event
                continue
            event = decoder.decode(text)["event"]
            text = ""
            name = next(snake(key) for key in event if snake(key) not in
                        ("run_id", "seq", "time_ms", "iteration", "node"))
            if name not in DELTAS:
                events.append((event["seq"], name))
            if len(events) == count:
                program.terminate()
                return events
    assert program.returncode == 0
    return events


def snake(name):
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def test_grpcurl(services):
    run_id = grpcurl(services, "SubmitRun", {"request": {"task": TASK}})["runId"]
    first = grpcurl_watch(services, run_id, 0, 3)
    meanwhile = grpcurl(services, "GetRun", {"run_id": run_id})["result"]["status"]
    assert_whole(first + grpcurl_watch(services, run_id, first[-1][0] + 1), meanwhile)


def curl(services, path, *argv):
    done = subprocess.run(["curl", "-sSf", "-m", "60", *argv, f"http://{services.http}{path}"], capture_output=True,
                          text=True, timeout=90, check=True)
    return json.loads(done.stdout)


def curl_watch(services, run_id, last_id=None, count=None):
    header = ["-H", f"Last-Event-ID: {last_id}"] if last_id else []
    events, frame = [], {}
    with subprocess.Popen(["curl", "-sSN", "-m", "60", *header,
                           f"http://{services.http}/api/v1/runs/{run_id}/events"], stdout=subprocess.PIPE,
                          text=True) as program:
        for line in program.stdout:
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                frame[name] = value
                continue
            if "id" in frame:
                events.append((int(frame["id"]), frame["event"]))
            frame = {}
            if len(events) == count:
                program.terminate()
                return events
    assert program.returncode == 0
    return events


def test_curl(services):
    run_id = curl(services, "/api/v1/runs", "-H", "Content-Type: application/json", "-d",
                  json.dumps({"task": TASK}))["run_id"]
    first = curl_watch(services, run_id, count=3)
    meanwhile = curl(services, f"/api/v1/runs/{run_id}")["status"]
    events = first + curl_watch(services, run_id, first[-1][0])
    assert_whole(events, meanwhile)
    # With the number of the last event there is nothing left to tell.
    assert curl_watch(services, run_id, events[-1][0]) == []
    receipt = curl(services, f"/api/v1/runs/{run_id}/receipt")
    assert receipt == curl(services, f"/api/v1/runs/{run_id}")["receipt"] and len(receipt["head"]) == 64


def state_events(call, count=None):
    events = ((answer.event.seq, answer.event.WhichOneof("event")) for answer in call)
    return list(itertools.islice((event for event in events if event[1] not in DELTAS), count))


def test_python(services, stubs):
    messages, rpcs = stubs
    with grpc.insecure_channel(services.grpc) as channel:
        agent = rpcs.AgentServiceStub(channel)
        run_id = agent.SubmitRun(messages.SubmitRunRequest(request=messages.GenerateRequest(task=TASK)),
                                 timeout=60).run_id
        watch = agent.WatchRun(messages.WatchRunRequest(run_id=run_id), timeout=60)
        first = state_events(watch, 3)
        watch.cancel()
        status = agent.GetRun(messages.GetRunRequest(run_id=run_id), timeout=60).result.status
        rest = agent.WatchRun(messages.WatchRunRequest(run_id=run_id, from_seq=first[-1][0] + 1), timeout=60)
        assert_whole(first + state_events(rest), messages.RunStatus.Name(status))


def test_node(services):
    done = subprocess.run(["node", os.path.join(os.path.dirname(__file__), "run_client.js"), tool("grpc-js"), PROTOS,
                           services.grpc, TASK], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert_whole([tuple(event) for event in answer["events"]], answer["meanwhile"])


def numbers_of_json(text):
    """The state events in what grpcurl prints: one object behind the other."""
    decoder, events = json.JSONDecoder(), []
    while text.strip():
        answer, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        event = answer["event"]
        if not {"modelDelta", "outputDelta", "gap", "heartbeat"} & set(event):
            events.append(event["seq"])
    return events


def test_each_kind_of_client_hears_that_a_waiting_run_lives(services, stubs, tmp_path):
    """After fifteen seconds of silence; and it goes on behind that without a gap."""
    messages, rpcs = stubs
    run_id = curl(services, "/api/v1/runs", "-H", "Content-Type: application/json", "-d",
                  json.dumps({"task": TASK, "interrupt_after": ["NODE_PLANNER"]}))["run_id"]
    watch = json.dumps({"run_id": run_id})
    programs, outputs = {}, {name: tmp_path / name for name in ("grpcurl", "curl", "node")}
    argv = {
        "grpcurl": [tool("grpcurl"), "-plaintext", "-max-time", "90", "-d", watch, services.grpc, f"{AGENT}/WatchRun"],
        "curl": ["curl", "-sSN", "-m", "90", f"http://{services.http}/api/v1/runs/{run_id}/events"],
        "node": ["node", os.path.join(os.path.dirname(__file__), "run_client.js"), tool("grpc-js"), PROTOS,
                 services.grpc, TASK, run_id],
    }
    seen = []
    with grpc.insecure_channel(services.grpc) as channel:
        call = rpcs.AgentServiceStub(channel).WatchRun(messages.WatchRunRequest(run_id=run_id), timeout=90)
        reader = threading.Thread(target=lambda: seen.extend(
            (answer.event.seq, answer.event.WhichOneof("event")) for answer in call))
        for name, words in argv.items():
            programs[name] = subprocess.Popen(words, stdout=outputs[name].open("w"))
        reader.start()
        marks = {"grpcurl": '"heartbeat"', "curl": "event: heartbeat", "node": " heartbeat"}
        for name, mark in marks.items():
            crisol.wait_for(lambda: mark in outputs[name].read_text(), 40, f"{name} hears a heartbeat")
        curl(services, f"/api/v1/runs/{run_id}/resume", "-H", "Content-Type: application/json", "-d", "{}")
        reader.join(60)
        for name, program in programs.items():
            assert program.wait(60) == 0, name
    assert "heartbeat" in [name for _, name in seen]
    whole = [seq for seq, name in seen if name not in DELTAS]
    assert whole == list(range(1, len(whole) + 1)) and seen[-1][1] == "result"
    frames = re.findall(r"^id: (\d+)$", outputs["curl"].read_text(), re.M)
    lines = [line.split() for line in outputs["node"].read_text().splitlines()]
    assert [int(number) for number in frames] == whole
    assert [int(seq) for seq, name in lines if name not in DELTAS] == whole
    assert numbers_of_json(outputs["grpcurl"].read_text()) == whole


@pytest.mark.parametrize("what, end", [("CONTINUE", "RUN_STATUS_SUCCESS"), ("CANCEL", "RUN_STATUS_CANCELLED"),
                                       ("UNSPECIFIED", "RUN_STATUS_CANCELLED")])
def test_a_disconnect_does_what_the_request_says(services, stubs, what, end):
    messages, rpcs = stubs
    with grpc.insecure_channel(services.grpc) as channel:
        agent = rpcs.AgentServiceStub(channel)
        call = agent.GenerateStream(messages.GenerateStreamRequest(
            task=TASK, on_disconnect=f"ON_DISCONNECT_{what}"), timeout=60)
        run_id = next(call).event.run_id
        call.cancel()
        last = list(agent.WatchRun(messages.WatchRunRequest(run_id=run_id), timeout=60))[-1].event
        assert messages.RunStatus.Name(last.result.status) == end


def test_a_submitted_run_has_nobody_to_leave_it(services):
    request = urllib.request.Request(f"http://{services.http}/api/v1/runs",
                                     headers={"Content-Type": "application/json"},
                                     data=json.dumps({"task": TASK, "on_disconnect": "CANCEL"}).encode())
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=90)
    assert caught.value.code == 422
    assert json.load(caught.value)["detail"][0]["loc"] == ["body", "on_disconnect"]
