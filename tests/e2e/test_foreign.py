# SPDX-License-Identifier: Apache-2.0
"""Foreign clients: grpcurl, buf curl and curl, with no proto files."""
import json
import os
import subprocess

import pytest

import services as crisol


def tool(name):
    path = os.path.join(crisol.TOOLS, name)
    if not crisol.TOOLS or not os.path.exists(path):
        pytest.skip(f"{name} could not be had on this machine (scripts/tools.sh)")
    return path


def grpcurl(*argv, status=0):
    done = subprocess.run([tool("grpcurl"), "-plaintext", "-max-time", "30", *argv], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def documents(text):
    """The JSON documents that grpcurl prints one behind the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


@pytest.mark.parametrize("which", ["sandboxd", "orchestrator"])
def test_grpcurl_lists_and_describes(services, which):
    address = ["-unix", services.socket] if which == "sandboxd" else [services.grpc]
    name = "crisol.sandbox.v1.SandboxService" if which == "sandboxd" else "crisol.agent.v1.AgentService"
    listed = grpcurl(*address, "list").split()
    assert {name, "grpc.health.v1.Health"} <= set(listed)
    assert any(item.startswith("grpc.reflection") for item in listed)
    described = grpcurl(*address, "describe", name)
    assert f"service {name.rsplit('.', 1)[1]}" in described
    health = json.loads(grpcurl(*address, "grpc.health.v1.Health/Check"))
    assert health == {"status": "SERVING"}


def test_grpcurl_unary(services):
    answer = json.loads(grpcurl("-unix", "-d", '{"runtime":"python","code":"print(2+2)","output_text":true}',
                                services.socket, "crisol.sandbox.v1.SandboxService/Run"))
    assert answer["stdoutText"] == "4\n"
    assert answer["result"]["summary"].startswith("OK")


def test_grpcurl_server_stream(services):
    events = documents(grpcurl("-unix", "-d", '{"runtime":"python","code":"print(2+2)","output_text":true}',
                               services.socket, "crisol.sandbox.v1.SandboxService/Execute"))
    kinds = [next(key for key in event if key in ("started", "output", "result")) for event in events]
    assert kinds[0] == "started" and kinds[-1] == "result" and set(kinds[1:-1]) == {"output"}
    assert "".join(event["output"]["text"] for event in events[1:-1]) == "4\n"
    assert [event.get("seq", 0) for event in events] == list(range(len(events)))


def test_grpcurl_shows_the_details_of_an_error(services):
    out = grpcurl("-unix", "-d", '{"runtime":"python","code":"x","limits":{"wall_time_ms":999999999}}',
                  services.socket, "crisol.sandbox.v1.SandboxService/Run", status=64 + 3)
    assert "InvalidArgument" in out and "limits.wall_time_ms" in out
    assert "google.rpc.BadRequest" in out


def test_grpcurl_generate_stream(services):
    events = documents(grpcurl("-d", '{"task":"Write an LRU cache in Python."}', services.grpc,
                               "crisol.agent.v1.AgentService/GenerateStream"))
    result = events[-1]["event"]["result"]
    assert (result["status"], result["iterations"]) == ("RUN_STATUS_SUCCESS", 2)
    numbers = [event["event"]["seq"] for event in events]
    assert numbers == sorted(numbers) and set(numbers) == set(range(1, numbers[-1] + 1))


def test_grpcurl_lists_the_models_of_the_provider(services):
    out = documents(grpcurl("-d", "{}", services.grpc, "crisol.agent.v1.AgentService/ListModels"))
    assert "gemini-2.5-flash" in out[0]["models"]


@pytest.mark.parametrize("reflection", ["grpc-v1", "grpc-v1alpha"])
def test_buf_curl_by_both_reflections(services, reflection):
    done = subprocess.run(
        [tool("buf"), "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect-protocol", reflection,
         "-d", '{"task":" "}', f"http://{services.grpc}/crisol.agent.v1.AgentService/Generate"],
        capture_output=True, text=True, timeout=60, check=False, env={"HOME": services.folder, "PATH": "/usr/bin:/bin"})
    assert done.returncode != 0
    assert "invalid_argument" in done.stderr and "task" in done.stderr
    done = subprocess.run(
        [tool("buf"), "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect-protocol", reflection,
         "-d", "{}", f"http://{services.grpc}/crisol.agent.v1.AgentService/DescribeGraph"],
        capture_output=True, text=True, timeout=60, check=False, env={"HOME": services.folder, "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert "mermaid" in json.loads(done.stdout)


def curl(*argv):
    done = subprocess.run(["curl", "-sS", "-m", "30", *argv], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl_rest_shapes(services):
    base = f"http://{services.http}/api/v1"
    health = json.loads(curl(f"{base}/health"))
    assert {"status", "docker_available", "gemini_configured", "version", "sandbox_available"} <= set(health)
    assert (health["docker_available"], health["gemini_configured"], health["sandbox_available"]) == (False, True, True)

    answer = json.loads(curl("-H", "Content-Type: application/json", "-d",
                             '{"task":"Write an LRU cache in Python.","max_iterations":3}', f"{base}/generate"))
    assert answer["status"] == "SUCCESS" and answer["iterations"] == 2
    assert set(answer["files"]) == {"solution.py", "test_solution.py"}
    assert {"exit_code", "stdout", "stderr", "duration_seconds", "timed_out", "success"} <= set(
        answer["execution_result"])
    assert answer["execution_result"]["success"] is True and len(answer["error_history"]) == 1

    run = json.loads(curl("-H", "Content-Type: application/json", "-d",
                          '{"runtime":"python","code":"print(2+2)"}', f"{base}/execute"))
    assert "4\n" in json.dumps(run).replace("\\n", "\n")
    runtimes = json.loads(curl(f"{base}/runtimes"))
    assert {"python", "pytest", "shell"} <= {runtime["name"] for runtime in runtimes["runtimes"]}


def test_curl_sse(services):
    text = curl("-N", "-H", "Content-Type: application/json", "-d", '{"task":"Write an LRU cache in Python."}',
                f"http://{services.http}/api/v1/stream")
    blocks = [block for block in text.split("\n\n") if "data:" in block]
    last = dict(line.split(": ", 1) for line in blocks[-1].split("\n") if ": " in line)
    assert last["event"] == "result"
    assert json.loads(last["data"])["status"] == "SUCCESS"
    ids = [int(line[4:]) for line in text.split("\n") if line.startswith("id: ")]
    assert ids == list(range(1, len(ids) + 1))
