# SPDX-License-Identifier: Apache-2.0
"""POST /api/v2/execute and GET /api/v2/runtimes: the Piston judge's shape over the same sandboxes."""
import json
import urllib.error
import urllib.request

import pytest

import services as crisol


@pytest.fixture(scope="module", name="house")
def start_house():
    with crisol.Services() as running:
        yield running


def ask(house, path, body=None):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{house.http}{path}", data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30 * crisol.SLOWNESS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def run(house, code, **fields):
    return ask(house, "/api/v2/execute", {"language": "python", "version": "*", "files": [{"content": code}], **fields})


def test_runtimes_have_names_versions_and_aliases(house):
    def listed():
        status, found = ask(house, "/api/v2/runtimes")
        python = next(runtime for runtime in found if runtime["language"] == "python")
        return (status, python) if python["version"] != "0.0.0" else None
    status, python = crisol.wait_for(listed, 20, "python was asked for its version")
    assert status == 200 and python["aliases"] == ["py", "py3", "python3"]
    # Exactly this version can be asked for.
    status, answer = run(house, "print(1)", version=python["version"])
    assert status == 200 and answer["version"] == python["version"]


def test_a_program_has_input_arguments_and_files(house):
    code = "import sys, os; print(sys.argv[1:], input(), open('data.bin', 'rb').read()); print('e', file=sys.stderr)"
    status, answer = ask(house, "/api/v2/execute", {
        "language": "py", "version": "3.x", "stdin": "typed", "args": ["a", "b c"],
        "files": [{"name": "my_cool_code.py", "content": code},
                  {"name": "data.bin", "content": "AP8=", "encoding": "base64"}],
        "compile_timeout": 10000, "run_timeout": 3000, "compile_memory_limit": -1, "run_memory_limit": -1})
    stage = answer["run"]
    assert status == 200 and answer["language"] == "python" and "compile" not in answer
    assert stage["stdout"] == "['a', 'b c'] typed b'\\x00\\xff'\n" and stage["stderr"] == "e\n"
    # Both, as they came: where the one goes on behind the other is no matter of lines.
    assert sorted(stage["output"]) == sorted(stage["stdout"] + stage["stderr"])
    assert (stage["code"], stage["signal"], stage["message"], stage["status"]) == (0, None, None, None)
    assert stage["wall_time"] >= 0 and stage["cpu_time"] >= 0 and stage["memory"] > 0


@pytest.mark.parametrize("code, fields, expected", [
    ("raise SystemExit(3)", {}, (3, None, "RE")),
    ("import os; os.kill(os.getpid(), 11)", {}, (None, "SIGSEGV", "SG")),
    ("while True: pass", {"run_timeout": 300}, (None, "SIGKILL", "TO")),
    ("x = bytearray(99 << 20)", {"run_memory_limit": 32 << 20}, (None, "SIGKILL", "SG")),
    ("print('x' * (2 << 20))", {}, (None, "SIGKILL", "OL")),
])
def test_what_goes_wrong_is_an_answer(house, code, fields, expected):
    status, answer = run(house, code, **fields)
    stage = answer["run"]
    assert status == 200 and (stage["code"], stage["signal"], stage["status"]) == expected, stage["message"]
    assert stage["message"]


@pytest.mark.parametrize("body, message", [
    ({"version": "*", "files": [{"content": "x"}]}, "language is required as a string"),
    ({"language": "python", "files": [{"content": "x"}]}, "version is required as a string"),
    ({"language": "python", "version": "*"}, "files is required as an array"),
    ({"language": "python", "version": "*", "files": [{}]}, "files[0].content is required as a string"),
    ({"language": "python", "version": "2.7", "files": [{"content": "x"}]}, "python-2.7 runtime is unknown"),
    ({"language": "python", "version": "*", "files": [{"content": "x"}], "run_timeout": 10 ** 9}, "run_timeout: "),
    ({"language": "python", "version": "*", "files": [{"content": "x"}, {"name": "../x", "content": "x"}]}, "files[1].path"),
    ({"language": 7}, "language: "),
    (b"{", "not valid JSON"),
])
def test_a_wrong_request_is_400_with_a_message(house, body, message):
    status, answer = ask(house, "/api/v2/execute", body)
    assert status == 400 and list(answer) == ["message"] and message in answer["message"], answer
