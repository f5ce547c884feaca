# SPDX-License-Identifier: Apache-2.0
"""Bad input over every interface: one error that names the thing, the right code, and the services go on."""
import http.server
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import grpc
import pytest

import services as crisol

AGENT = "/crisol.agent.v1.AgentService/"
SANDBOX = "/crisol.sandbox.v1.SandboxService/"
TASK = "Write an LRU cache in Python."
MEBIBYTE = 1 << 20
Code = grpc.StatusCode


def field(number, value):
    """One field on the wire: what generated code refuses to make can be sent, too."""
    def varint(rest):
        out = b""
        while rest > 127:
            out += bytes([rest & 127 | 128])
            rest >>= 7
        return out + bytes([rest])
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def program(*files, runtime=b"python", code=b"pass"):
    return field(2, runtime) + field(3, code) + b"".join(field(6, field(1, path)) for path in files)


def refusal(target, method, message, is_stream):
    """(code, text) of a call that must be refused."""
    with grpc.insecure_channel(target) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            if is_stream:
                list(channel.unary_stream(method)(message, timeout=90))
            else:
                channel.unary_unary(method)(message, timeout=90)
    return caught.value.code(), caught.value.details()


def works(target):
    """One more real run, which must succeed."""
    with grpc.insecure_channel(target) as channel:
        answer = channel.unary_unary(SANDBOX + "Run")(program(code=b"print(2 + 2)"), timeout=90)
    return b"OK: exit 0" in answer and b"4\n" in answer


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(services):
    """Everything below runs between two counts."""
    assert works(services.sandbox)
    # The orchestrator connects with its first request, and stays connected.
    assert post(services, "/api/v1/execute", '{"runtime":"python","code":"pass"}')[0] == 200
    before = crisol.settled(services)
    pids = services.sandboxd_pids()[:1], services.orchestrator.pid, services.replay.pid
    yield
    assert works(services.sandbox)
    assert (services.sandboxd_pids()[:1], services.orchestrator.pid, services.replay.pid) == pids
    assert services.orchestrator.popen.poll() is None
    assert crisol.settled(services).differences(before) == []


# ---- gRPC, as raw bytes ----

@pytest.mark.parametrize("method", ["Generate", "GenerateStream"])
@pytest.mark.parametrize("message, code, text", [
    (b"", Code.INVALID_ARGUMENT, r"^task: is required"),
    (field(1, b" \n "), Code.INVALID_ARGUMENT, r"^task: is required"),
    (field(1, b"x" * MEBIBYTE), Code.INVALID_ARGUMENT, r"^task: is longer than 65536 bytes"),
    (field(1, b"x" * 5 * MEBIBYTE), Code.RESOURCE_EXHAUSTED, r"larger than max"),
    (field(1, b"\xff\xfe"), Code.INVALID_ARGUMENT, r"^task: is not valid UTF-8"),
    (field(1, b"a\0b"), Code.INVALID_ARGUMENT, r"^task: has a NUL"),
    (field(1, b"t") + field(2, -1), Code.INVALID_ARGUMENT, r"^max_iterations: is -1; allowed are 1 to 10"),
    (field(1, b"t") + field(2, 99), Code.INVALID_ARGUMENT, r"^max_iterations: is 99; allowed are 1 to 10"),
    (b"\xff\xff\xff", Code.INVALID_ARGUMENT, r"cannot be read"),
], ids=["empty", "blank", "1MiB", "5MiB", "utf8", "nul", "minus", "99", "garbage"])
def test_agent_refuses(services, method, message, code, text):
    found = refusal(services.grpc, AGENT + method, message, method.endswith("Stream"))
    assert found[0] == code and re.search(text, found[1]), found


@pytest.mark.parametrize("method", ["Run", "Execute"])
@pytest.mark.parametrize("message, code, text", [
    (program(runtime=b"cobol"), Code.NOT_FOUND, r"'cobol'.*this host has .*pytest, python, "),
    (program(runtime=b""), Code.INVALID_ARGUMENT, r"^runtime: is required"),
    (program(b"../x"), Code.INVALID_ARGUMENT, r"^files\[0\].path: .*'\.\.'"),
    (program(b"a/../../x"), Code.INVALID_ARGUMENT, r"^files\[0\].path: .*'\.\.'"),
    (program(b"/etc/passwd"), Code.INVALID_ARGUMENT, r"^files\[0\].path: must be relative"),
    (program(b"a\0b"), Code.INVALID_ARGUMENT, r"^files\[0\].path: has a NUL"),
    (program(b"a", b"a"), Code.INVALID_ARGUMENT, r"^files\[1\].path: is the path of files\[0\] too"),
    (program(b"a", b"a/b"), Code.INVALID_ARGUMENT, r"^files\[1\].path: clashes with files\[0\]"),
    (program(b"main.py"), Code.INVALID_ARGUMENT, r"^files\[0\].path: clashes with 'main.py'"),
    (program(b"\xff"), Code.INVALID_ARGUMENT, r"^files\[0\].path: is not valid UTF-8"),
    (program(code=b"\xff"), Code.INVALID_ARGUMENT, r"^code: is not valid UTF-8"),
    (program(code=b"#" * 5 * MEBIBYTE), Code.RESOURCE_EXHAUSTED, r"larger than max"),
    (b"\xff\xff", Code.INVALID_ARGUMENT, r"cannot be read"),
], ids=["runtime", "none", "dotdot", "inner", "absolute", "nul", "twice", "clash", "main", "utf8", "code", "5MiB",
        "garbage"])
def test_sandboxd_refuses(services, method, message, code, text):
    found = refusal(services.sandbox, SANDBOX + method, message, method == "Execute")
    assert found[0] == code and re.search(text, found[1]), found


def test_unknown_methods_are_named(services):
    for target, method in ((services.grpc, AGENT + "Nope"), (services.sandbox, SANDBOX + "Nope")):
        assert refusal(target, method, b"", False) == (Code.UNIMPLEMENTED, f"unknown method '{method}'")


# ---- REST and SSE ----

def post(services, path, body, *headers, kind="application/json"):
    """(status, answer) of curl."""
    names = [item for header in (f"Content-Type: {kind}", *headers) for item in ("-H", header)]
    done = subprocess.run(["curl", "-sS", "-m", "20", "-w", "\n%{http_code}", *names, "--data-binary", "@-",
                           f"http://{services.http}{path}"],
                          input=body if isinstance(body, bytes) else body.encode(), capture_output=True, timeout=90,
                          check=True)
    answer, status = done.stdout.decode().rsplit("\n", 1)
    return int(status), json.loads(answer)


@pytest.mark.parametrize("path", ["/api/v1/generate", "/api/v1/stream"])
@pytest.mark.parametrize("body, status, where, text", [
    ("{}", 422, ["body", "task"], "say what to build"),
    ('{"task":""}', 422, ["body", "task"], "say what to build"),
    ('{"task":null}', 422, ["body", "task"], "say what to build"),
    ('{"task":"t","max_iterations":0}', 422, ["body", "max_iterations"], "must be 1 to 10"),
    ('{"task":"t","max_iterations":-1}', 422, ["body", "max_iterations"], "must be 1 to 10"),
    ('{"task":"t","max_iterations":99}', 422, ["body", "max_iterations"], "must be 1 to 10"),
    ('{"task":"t","colour":1}', 422, ["body", "colour"], "unknown field; known: task, max_iterations, "),
    ('{"task":"t', 422, ["body", "task"], "without its closing quote"),
    ('{"task":"t"', 422, ["body"], "the text ends"),
    ("", 422, ["body"], "the text ends"),
    ('{"task":"a","task":"b"}', 422, ["body", "task"], "given twice"),
    ('{"task":"a\\u0000b"}', 422, ["body", "task"], "NUL"),
    (b'{"task":"\xff"}', 422, ["body", "task"], "UTF-8"),
    ('{"task":"' + "x" * (MEBIBYTE - 20) + '"}', 422, ["body", "task"], "longer than 65536"),
    ('{"task":"' + "x" * MEBIBYTE + '"}', 413, None, "larger than the 1048576 bytes"),
], ids=["missing", "empty", "null", "0", "minus", "99", "unknown", "cut", "cut2", "none", "twice", "nul", "utf8",
        "1MiB", "body"])
def test_rest_refuses(services, path, body, status, where, text):
    found, answer = post(services, path, body)
    assert found == status, answer
    assert text in json.dumps(answer)
    assert where is None or (len(answer["detail"]) == 1 and answer["detail"][0]["loc"] == where), answer


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("body, status, text", [
    ({"runtime": "cobol", "code": "x"}, 404, "cobol"),
    ({"runtime": "python", "code": "x", "files": [{"path": "../x"}]}, 422, '["body", "files", 0, "path"]'),
    ({"runtime": "python", "code": "x", "files": [{"path": "/x"}]}, 422, "must be relative"),
    ({"runtime": "python", "code": "x", "files": [{"path": "a\0b"}]}, 422, "NUL"),
    ({"runtime": "python", "code": "x", "files": [{"path": "a"}, {"path": "a"}]}, 422, '["body", "files", 1, "path"]'),
    ({"runtime": "python", "code": "x", "files": [{"path": "a", "colour": 1}]}, 422, '["body", "files", 0, "colour"]'),
    ({"runtime": "python", "code": "x", "limits": {"wall_time_ms": 1 << 30}}, 422, "maximum of 300000"),
    ({"runtime": "python", "code": "x", "resume": {}}, 422, '["body", "resume"]'),
], ids=["runtime", "dotdot", "absolute", "nul", "twice", "unknown", "limit", "resume"])
def test_rest_execute_refuses(services, accept, body, status, text):
    found, answer = post(services, "/api/v1/execute", json.dumps(body), f"Accept: {accept}")
    assert found == status and text in json.dumps(answer), answer


@pytest.mark.parametrize("path", ["/api/v1/generate", "/api/v1/stream", "/api/v1/execute"])
def test_rest_takes_json_and_its_own_names_only(services, path):
    body = json.dumps({"task": TASK})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"):
        status, answer = post(services, path, body, kind=kind)
        assert status == 415 and "send Content-Type: application/json" in answer["detail"]
    status, answer = post(services, path, body, "Host: evil.example")
    assert status == 421 and "--http-hosts" in answer["detail"]


# ---- the command line ----

@pytest.mark.parametrize("arguments, text", [
    (["run"], "name a TASK"),
    (["run", ""], "task: is required"),
    (["run", "x" * 100000], "task: is longer than 65536"),
    (["run", b"\xff"], "task: is not valid UTF-8"),
    (["run", "--max-iterations=0", "t"], "--max-iterations: '0' is not a whole number from 1 to 10"),
    (["run", "--max-iterations=-1", "t"], "--max-iterations: '-1' is not"),
    (["run", "--max-iterations=99", "t"], "--max-iterations: '99' is not"),
    (["run", "two", "tasks"], "more than one TASK"),
    (["resume", "--hint=", "x" * 32], "--hint: is blank: say what the model should do"),
    (["run", "--orchestrator=nonsense", "t"], "address 'nonsense' has no port; write HOST:PORT"),
    (["run", "--orchestrator=127.0.0.1:1", "t"], "'make up' starts both services"),
    (["exec", "--sandbox=s.sock", "--runtime=shell", "--", "x"], "address 's.sock' has no port; write HOST:PORT or unix:"),
    (["exec", "--runtime=cobol", "--", "x"], "'cobol' is not known here"),
    (["exec", "/nonexistent.py"], "cannot open '/nonexistent.py'"),
    (["exec", "/tmp"], "cannot read '/tmp': Is a directory"),
    (["exec", "/dev/zero"], "larger than 4194304 bytes"),
], ids=lambda value: value[:20] if isinstance(value, str) else None)
def test_crisol_refuses(services, arguments, text):
    done = services.crisol(*arguments)
    assert done.returncode == 125 and done.stdout == b""
    assert text in done.stderr.decode() and done.stderr.count(b"\n") <= 2, done.stderr


def test_crisol_says_who_may_call(services, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    # The clone may lie where a stranger cannot look.
    binary = shutil.copy(os.path.join(crisol.BIN, "crisol"), services.folder)
    command = [binary, "exec", "--runtime=shell", "--", "echo hi"]

    def call(address, value="", user=()):
        done = subprocess.run([*user, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
                              check=False, env={"PATH": "/usr/bin:/bin", "CRISOL_SANDBOX": address,
                                                "CRISOL_TOKEN": value})
        return done.returncode, done.stdout, done.stderr

    stranger = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    code, _, text = call(services.sandbox, user=stranger)
    assert code == 125 and "Permission denied" in text and "--socket-owner and --allow-uid" in text
    with crisol.Services(with_agent=False, sandboxd_flags=["--listen=127.0.0.1:0", f"--token-file={token}"]) as running:
        address = "127.0.0.1:" + running.sandboxd.match(r" sandboxd ready .*port=(\d+)").group(1)
        for value in ("", "wrong"):
            code, _, text = call(address, value)
            assert code == 125 and "UNAUTHENTICATED" in text and "into CRISOL_TOKEN" in text
        assert call(address, "0123456789abcdef") == (0, "hi\n", "")
        assert "0123456789abcdef" not in running.sandboxd.log()
        # Whoever opens the folder by hand still does not open the service.
        os.chmod(os.path.dirname(running.socket), 0o755)
        os.chmod(running.socket, 0o666)
        code, _, text = call(running.sandbox, user=stranger)
        assert code == 125 and "--socket-owner and --allow-uid" in text, text
    os.unlink(binary)


def grpcurl(services, body):
    tool = os.path.join(crisol.TOOLS, "grpcurl")
    if not crisol.TOOLS or not os.path.exists(tool):
        pytest.skip("grpcurl could not be had on this machine (scripts/tools.sh)")
    return subprocess.run([tool, "-plaintext", "-max-time", "20", "-d", body, services.grpc, AGENT[1:] + "Generate"],
                          capture_output=True, text=True, timeout=90, check=False)


def test_limits_that_sandboxd_would_refuse_are_refused_before_anything_is_bought(services):
    """As long as it is not known what sandboxd allows, a run begins and ends with what it says."""
    def refused():
        found, answer = post(services, "/api/v1/generate",
                             '{"task":"t","sandbox_limits":{"wall_time_ms":300001,"memory_bytes":1000000,"open_files":5000}}')
        return found == 422 and answer
    answer = crisol.wait_for(refused, 30, "the orchestrator knows what sandboxd allows")
    assert [(item["loc"], item["msg"]) for item in answer["detail"]] == [
        (["body", "sandbox_limits", "wall_time_ms"], "300001 is more than sandboxd's maximum of 300000"),
        (["body", "sandbox_limits", "memory_bytes"], "1000000 is less than sandboxd's minimum of 4194304"),
        (["body", "sandbox_limits", "open_files"], "5000 is more than sandboxd's maximum of 4096")], answer
    limits = field(1, 300001)  # wall_time_ms
    message = field(1, b"t") + field(4, limits)
    for method, body in (("Generate", message), ("GenerateStream", message), ("SubmitRun", field(1, message))):
        found = refusal(services.grpc, AGENT + method, body, method == "GenerateStream")
        assert found[0] == Code.INVALID_ARGUMENT, (method, found)
        assert found[1].startswith("sandbox_limits.wall_time_ms: 300001 is more than sandboxd's maximum of 300000"), found


def test_grpcurl_is_told_the_field(services):
    for body, text in (('{"task":"t","max_iterations":99}', "max_iterations"), ("{}", "task")):
        done = grpcurl(services, body)
        assert done.returncode == 64 + 3 and f'"field": "{text}"' in done.stderr, done.stderr
    for body, text in (('{"colour":"t"}', "colour"), ('{"task":"t', "EOF")):  # it says so by reflection, or itself
        done = grpcurl(services, body)
        assert done.returncode == 1 and text in done.stderr, done.stderr


# ---- starting ----

def start(name, *flags, env=None):
    """(exit code, last line) of a service that must not start."""
    done = subprocess.run([os.path.join(crisol.BIN, name), *flags], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=15, check=False, env={"PATH": "/usr/bin:/bin", **(env or {})})
    return done.returncode, done.stderr.rstrip("\n").rsplit("\n", 1)[-1]


def test_a_taken_port_names_who_has_it(services, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        own = f"port {port} is taken by process {os.getpid()} ("
        user = f"port {port} is taken by a process of user {os.geteuid()}; 'sudo ss -ltnp sport = :{port}' names it"
        script = os.path.join(crisol.SCRIPTS, "lru_cache.json")
        token = tmp_path / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        # The orchestrator has dropped what it takes to look into a process of root.
        for name, text, flags in (
                ("gemini-replay", own, [f"--listen=127.0.0.1:{port}", f"--script={script}"]),
                ("orchestrator", user, [f"--listen=127.0.0.1:{port}", "--http=127.0.0.1:0"]),
                ("orchestrator", user, ["--listen=127.0.0.1:0", f"--http=127.0.0.1:{port}"]),
                ("sandboxd", own, [f"--socket={tmp_path}/s/s.sock", f"--listen=127.0.0.1:{port}",
                                   f"--token-file={token}"])):
            code, line = start(name, *flags)
            assert code == 1 and text in line, line
    code, line = start("orchestrator", f"--listen={services.grpc}", "--http=127.0.0.1:0", f"--user={crisol.SERVICE_UID}")
    assert code == 1 and f"is taken by a process of user {crisol.SERVICE_UID}; 'sudo ss " in line, line


def test_the_socket_of_a_live_server_is_left_alone(services, tmp_path):
    code, line = start("sandboxd", f"--socket={services.socket}")
    assert code == 1 and re.search(r"sandboxd.sock' is served by another process \(pid \d+\)", line), line
    file = tmp_path / "plain"
    file.write_text("mine")
    code, line = start("sandboxd", f"--socket={file}")
    assert code == 1 and "exists and is not a socket" in line and file.read_text() == "mine"
    assert works(services.sandbox)


@pytest.mark.parametrize("flags, env, text", [
    (["--sandbox=nonsense"], {}, "address 'nonsense' has no port"),
    (["--colour"], {}, "there is no setting '--colour'"),
    (["--listen=127.0.0.1:99999"], {}, "the port is not a number from 0 to 65535"),
    (["--gemini-api-key=x"], {}, "set GEMINI_API_KEY instead"),
    ([], {"GEMINI_BASE_URL": "ftp://x"}, "GEMINI_BASE_URL"),
    ([], {"GEMINI_API_KEY": "a\nb"}, "GEMINI_API_KEY"),
    ([], {"GEMINI_MODEL": "../x"}, "GEMINI_MODEL"),
    (["--provider=openai", "--openai-model=m", "--openai-base-url=http://192.0.2.1/v1"], {}, "OPENAI_BASE_URL"),
    (["--http-origins=https://pages.example/"], {}, "http-origins: 'https://pages.example/' is no origin"),
    (["--http-origins=https://a.example,*"], {}, "http-origins: '*' is no origin"),
    (["--http-origins=pages.example"], {}, "http-origins: 'pages.example' is no origin"),
], ids=lambda value: str(value)[:24])
def test_settings_that_cannot_work_are_named(flags, env, text):
    for more in ((), ("--check-config",)):
        code, line = start("orchestrator", "--listen=127.0.0.1:0", "--http=127.0.0.1:0", *flags, *more, env=env)
        assert code == 1 and text in line, (more, line)


def test_settings_that_can_work_are_told_so():
    done = subprocess.run([os.path.join(crisol.BIN, "orchestrator"), "--check-config", "--sandbox=dns:///sandboxd:50052",
                           "--http-origins=https://a.example,http://[::1]:8080,http://my_pages:8080,moz-extension://0a-1b"], capture_output=True,
                          text=True, timeout=15 * crisol.SLOWNESS, check=False, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and done.stdout.endswith("the settings are well formed\n"), done


@pytest.mark.parametrize("flag, text", [
    ("--pool=cobol=2", "--pool: 'cobol=2' is neither 0 nor KIND=N"),
    ("--pool=plain=99", "--pool: 'plain=99' needs a number from 0 to 16"),
    ("--accept-gap=gravity", "--accept-gap: 'gravity' is no control"),
])
def test_sandboxd_checks_the_settings_of_its_backends(tmp_path, flag, text):
    for backend, check in itertools.product(("native", "docker"), ((), ("--check-config",))):
        if backend == "docker" and not check:
            continue  # a start looks for an engine first
        done = subprocess.run([os.path.join(crisol.BIN, "sandboxd"), f"--socket={tmp_path}/s/s.sock", f"--backend={backend}", flag,
                               *check], capture_output=True, text=True, timeout=60 * crisol.SLOWNESS, check=False,
                              env={"PATH": "/usr/bin:/bin"})
        assert done.returncode == 1 and text in done.stderr, (backend, check, done)
        assert "well formed" not in done.stdout
    done = subprocess.run([os.path.join(crisol.BIN, "sandboxd"), "--check-config", "--pool=plain=3", "--accept-gap=swap"],
                          capture_output=True, text=True, timeout=60 * crisol.SLOWNESS, check=False, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0 and done.stdout.endswith("the settings are well formed\n"), done


@pytest.mark.parametrize("flags", [("--backend=native", "--preload=off"), ("--backend=native", "--preload=caller"),
                                   ("--backend=docker", "--preload=off"), ("--backend=auto", "--rootless")])
def test_sandboxd_counts_the_boxes_that_a_start_would_make(flags):
    """Those of interpreters are made only where one is started ahead."""
    def check(*more):
        return subprocess.run([os.path.join(crisol.BIN, "sandboxd"), "--check-config", "--pool=plain=16", *more],
                              capture_output=True, text=True, timeout=60 * crisol.SLOWNESS, check=False,
                              env={"PATH": "/usr/bin:/bin"})
    done = check(*flags)
    assert done.returncode == 0 and done.stdout.endswith("the settings are well formed\n"), done
    assert "more than 16 slots in all" in check(flags[0]).stderr


def test_a_task_without_a_key_is_refused_at_once(tmp_path):
    script = os.path.join(crisol.SOURCE, "scripts", "run.sh")
    done = subprocess.run([script, "demo"], capture_output=True, text=True, timeout=90, check=False,
                          env={"PATH": "/usr/bin:/bin", "TASK": "$(touch pwned)", "HOME": str(tmp_path)})
    assert done.returncode == 1 and "set GEMINI_API_KEY in the environment or in .env" in done.stderr


# ---- what the orchestrator needs is down, or turns it away ----

class Echo(http.server.BaseHTTPRequestHandler):
    """A model that sends the key back in everything that it says."""
    status = 401

    def do_POST(self):  # noqa: N802 (the name that http.server calls)
        self.rfile.read(int(self.headers["content-length"]))
        key = self.headers["x-goog-api-key"]
        if self.status == 200:
            answer = {"modelVersion": key, "candidates": [{"content": {"parts": [{"text": f"Plan {key}"}]},
                                                           "finishReason": "STOP"}]}
            body = f"data: {json.dumps(answer)}\r\n\r\n".encode()
        else:
            body = json.dumps({"error": {"code": self.status, "status": key, "message": f"no '{key}' here"}}).encode()
        self.send_response(self.status)
        self.send_header("content-type", "text/event-stream" if self.status == 200 else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def agent(services):
    """Starts further orchestrators beside the one of the services."""
    class Beside(crisol.Services):
        def __init__(self, base_url, sandbox=services.sandbox):  # pylint: disable=super-init-not-called
            self.folder, self.sandbox = services.folder, sandbox
            self.start_orchestrator(base_url, crisol.CANARY)

    kept, log = [], os.path.join(services.folder, "orchestrator.log")
    with open(log, "rb") as file:
        first_log = file.read()

    def make(*arguments, **options):
        kept.append(Beside(*arguments, **options))
        return kept[-1]
    yield make
    for beside in kept:
        assert beside.orchestrator.stop() == 0
    with open(log, "wb") as file:
        file.write(first_log)


@pytest.mark.parametrize("status, cause, text", [
    (400, "INTERNAL", "did not understand the request"),
    (401, "MODEL_AUTH", "check GEMINI_API_KEY"),
    (403, "MODEL_AUTH", "check GEMINI_API_KEY"),
    (404, "MODEL_GONE", "GEMINI_MODEL"),
    (200, "MODEL_OUTPUT", "no fenced block"),
])
def test_a_refused_key_is_named_and_shown_nowhere(agent, status, cause, text):
    Echo.status = status
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        beside = agent(f"http://127.0.0.1:{model.server_port}")
        code, answer = post(beside, "/api/v1/generate", json.dumps({"task": TASK}))
        with grpc.insecure_channel(beside.grpc) as channel:
            events = b"".join(channel.unary_stream(AGENT + "GenerateStream")(field(1, TASK.encode()), timeout=90))
        model.shutdown()
    assert code == 200 and (answer["status"], answer["cause"]) == ("FAILED", cause), answer
    assert text in json.dumps(answer), answer
    for shown in (json.dumps(answer).encode(), events, beside.orchestrator.log().encode()):
        assert crisol.CANARY.encode() not in shown


def test_a_model_that_is_down_is_asked_again_and_named(agent):
    with grpc.insecure_channel(agent("http://127.0.0.1:1").grpc) as channel:
        call = channel.unary_stream(AGENT + "GenerateStream")(field(1, TASK.encode()), timeout=90)
        assert any(b"127.0.0.1:1 cannot be connected to" in event for event in call)
        call.cancel()


def test_sandboxd_that_is_down_is_named(agent, tmp_path):
    beside = agent("http://127.0.0.1:1", sandbox=f"unix:{tmp_path}/none.sock")
    status, answer = post(beside, "/api/v1/execute", '{"runtime":"python","code":"pass"}')
    assert status == 503 and answer["code"] == "UNAVAILABLE" and "sandboxd" in answer["detail"]
    assert "none.sock" not in answer["detail"]
    done = subprocess.run(["curl", "-sS", f"http://{beside.http}/api/v1/health"], capture_output=True, timeout=90,
                          check=True)
    health = json.loads(done.stdout)
    assert (health["status"], health["sandbox_available"]) == ("degraded", False)


# ---- killed ----

@pytest.mark.parametrize("victim, ends", [
    ("sandboxd-native", {"SANDBOX_LOST"}),
    ("sandboxd-front", {"UNAVAILABLE"}),
])
def test_a_killed_process_ends_every_run_with_a_type(victim, ends):
    with crisol.Services(with_agent=False, sandboxd_flags=["--slots=2"]) as running:
        assert works(running.sandbox)
        pid = next(pid for pid in running.sandboxd_pids()
                   if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == victim)
        before = crisol.settled(running)
        with grpc.insecure_channel(running.sandbox) as channel:
            method = channel.unary_stream(SANDBOX + "Execute")
            calls = [method(program(runtime=b"shell", code=b"echo up; sleep 8"), timeout=90) for _ in range(2)]
            for call in calls:
                next(call)  # it has begun: a client repeats what never reached the service
            os.kill(pid, signal.SIGKILL)
            found = {end_of(call) for call in calls}
        assert found == ends, found
        crisol.wait_for(lambda: running.sandboxd.log().count(" sandboxd ready ") == 2, 10, "a restart")
        assert works(running.sandbox)
        # A new front asks for the versions again, in sandboxes.
        crisol.wait_for(lambda: counts(crisol.settled(running)) == counts(before), 20, "nothing is left")


def test_a_killed_supervisor_ends_every_run_with_a_type():
    with crisol.Services(with_agent=False, sandboxd_flags=["--slots=2"]) as running:
        assert works(running.sandbox)
        old = running.sandboxd_pids()[1:]
        before = crisol.settled(running)
        with grpc.insecure_channel(running.sandbox) as channel:
            method = channel.unary_stream(SANDBOX + "Execute")
            calls = [method(program(runtime=b"shell", code=b"echo up; sleep 8"), timeout=90) for _ in range(2)]
            for call in calls:
                next(call)
            old += running.sandboxd_pids()[1:]
            running.sandboxd.popen.kill()
            assert {end_of(call) for call in calls} == {"SANDBOX_LOST"}
        running.sandboxd.popen.wait()
        crisol.wait_for(lambda: not any(is_alive(pid) for pid in old), 10, "its children are gone")
        running.start_sandboxd(["--slots=2"])
        assert works(running.sandbox)
        crisol.wait_for(lambda: counts(crisol.settled(running)) == counts(before), 20, "there is as much as before")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def counts(state):
    """What does not depend on which processes they are."""
    return state.processes, state.cgroups, state.namespaces, state.files


def end_of(call):
    """The word for how a stream ended; the verdict's message names it too."""
    try:
        last = b"".join(call)
    except grpc.RpcError as error:
        return error.code().name
    return "SANDBOX_LOST" if b"SANDBOX_LOST" in last else "a result"
