# SPDX-License-Identifier: Apache-2.0
"""POST /api/v2/execute, GET /api/v2/runtimes and /packages: the Piston judge's shape over the same sandboxes."""
import json
import urllib.error
import urllib.request

import pytest

import services as crisol


@pytest.fixture(scope="module", name="house")
def start_house():
    with crisol.Services() as running:
        yield running


def ask(house, path, body=None, kind="application/json"):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{house.http}{path}", data=data, headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=90 * crisol.SLOWNESS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def run(house, code, **fields):
    return ask(house, "/api/v2/execute", {"language": "python", "version": "*", "files": [{"content": code}],
                                          "run_timeout": 30000, **fields})


def test_runtimes_have_names_versions_and_aliases(house):
    def listed():
        status, found = ask(house, "/api/v2/runtimes")
        python = next(runtime for runtime in found if runtime["language"] == "python")
        return (status, python) if python["version"] != "0.0.0" else None
    status, python = crisol.wait_for(listed, 20, "python was asked for its version")
    assert status == 200 and python["aliases"] == ["py", "py3", "python3"]
    # Exactly this version can be asked for, and any range that it is in.
    for version in (python["version"], "^3.2", ">=3.8 <4", "2.7 || 3.x", "3.8 - 3.99"):
        status, answer = run(house, "print(1)", version=version)
        assert status == 200 and answer["version"] == python["version"], version
    status, packages = ask(house, "/api/v2/packages")
    assert status == 200 and {"language": "python", "language_version": python["version"], "installed": True} in packages


def test_a_language_has_the_name_that_the_judge_gives_it(house):
    script = {"version": "*", "files": [{"content": "console.log(process.argv.slice(2))"}], "args": ["1"], "run_timeout": 30000}
    for name in ("javascript", "js", "node"):
        status, answer = ask(house, "/api/v2/execute", {"language": name, **script})
        assert (status, answer["language"], answer["run"]["stdout"]) == (200, "javascript", "[ '1' ]\n"), answer


def test_a_program_has_input_arguments_and_files(house):
    code = "import sys, os; print(sys.argv[1:], input(), open('data.bin', 'rb').read()); print('e', file=sys.stderr)"
    status, answer = ask(house, "/api/v2/execute", {
        "language": "py", "version": "3.x", "stdin": "typed", "args": ["a", "b c"],
        "files": [{"name": "my_cool_code.py", "content": code},
                  {"name": "data.bin", "content": "AP8=", "encoding": "base64"}],
        "compile_timeout": 10000, "run_timeout": 30000, "compile_memory_limit": -1, "run_memory_limit": -1})
    stage = answer["run"]
    assert status == 200 and answer["language"] == "python" and "compile" not in answer
    assert stage["stdout"] == "['a', 'b c'] typed b'\\x00\\xff'\n" and stage["stderr"] == "e\n"
    # Both, as they came: where the one goes on behind the other is no matter of lines.
    assert sorted(stage["output"]) == sorted(stage["stdout"] + stage["stderr"])
    assert (stage["code"], stage["signal"], stage["message"], stage["status"]) == (0, None, None, None)
    assert stage["wall_time"] >= 0 and stage["cpu_time"] >= 0 and stage["memory"] > 0


def test_the_files_of_a_program_know_each_other_by_their_names(house):
    def of(language, *files, **fields):
        status, answer = ask(house, "/api/v2/execute", {"language": language, "version": "*", "run_timeout": 30000, "files": [
            {"name": name, "content": content} for name, content in files], **fields})
        assert status == 200, answer
        return answer["run"]["code"], answer["run"]["stdout"]
    assert of("python", ("app.py", "import helper, sys; print(__file__, sys.argv[1:])"), ("helper.py", "import app"),
              args=["a"]) == (0, "/workspace/app.py ['a']\n" * 2)
    assert of("python", ("app.py", "import main"), ("main.py", "print('not the first')")) == (0, "not the first\n")
    assert of("c", ("prog.c", "int two(void); int main(void) { return two(); }"), ("main.c", "int two(void) { return 2; }"),
              compile_timeout=60000) == (2, "")
    status, answer = ask(house, "/api/v2/execute", {"language": "python", "version": "*", "files": [
        {"name": "app.py", "content": "1"}, {"name": "x", "content": "1"}, {"name": "../x", "content": "1"}]})
    assert status == 400 and answer["message"].startswith("files[2].path"), answer


def test_input_ends_with_a_newline_and_files_may_be_empty(house):
    status, answer = run(house, "import sys; print([sys.stdin.read()], input.__name__)", stdin=None, args=None)
    assert status == 200 and answer["run"]["stdout"] == "['\\n'] input\n"
    status, answer = ask(house, "/api/v2/execute", {"language": "python", "version": "*", "stdin": "a\n", "files": [
        {"name": "data", "content": "eA==", "encoding": "base64"},  # text that comes first is the program, not this
        {"name": "main", "content": "import sys, part; print([sys.stdin.read()], open('data').read(), open('file3.code').read())"},
        {"name": "part.py", "content": ""}, {"content": "79", "encoding": "hex"}]})
    assert status == 200 and answer["run"]["stdout"] == "['a\\n'] x y\n", answer
    status, answer = run(house, "")
    assert status == 200 and answer["run"]["code"] == 0


def test_what_that_judge_does_not_look_at_is_no_fault(house):
    status, answer = run(house, "import sys; print(sys.argv[1:])", args=[1, 2.50, True, "x"], run_timeout=29999.5,
                         run_memory_limit=1e8, compile_timeout=0.5, user="somebody", meta={"deep": [{"er": None}]},
                         files=[{"name": "m.py", "content": "import sys; print(sys.argv[1:])", "language": "python"}])
    assert status == 200 and answer["run"]["stdout"] == "['1', '2.5', 'true', 'x']\n", answer
    # One millisecond, not the default of three seconds.
    assert run(house, "import time; time.sleep(1)", run_timeout=0.5)[1]["run"]["status"] == "TO"


@pytest.mark.parametrize("language, name, source, other", [
    ("python", "-c", "print('its own')", "pass"), ("bash", "+x", "echo its own", "true"), ("js", "-p", "console.log('its own')", "1"),
    ("c", "-o.c", "#include <stdio.h>\nint main(void) { puts(\"its own\"); }", "int other;"),
    ("c++", "-o.cpp", "#include <cstdio>\nint main() { puts(\"its own\"); }", "int other;"),
])
def test_a_name_of_a_file_is_no_option(house, language, name, source, other):
    entry = {"python": "z.py", "bash": "z.sh", "js": "z.js", "c": "main.c", "c++": "main.cpp"}[language]
    status, answer = ask(house, "/api/v2/execute", {"language": language, "version": "*", "run_timeout": 30000, "files": [
        {"name": name, "content": source}, {"name": entry, "content": other}], "compile_timeout": 60000})
    assert status == 200 and (answer["run"]["code"], answer["run"]["stdout"]) == (0, "its own\n"), answer


def test_a_compile_stage_has_limits_and_an_answer(house):
    def compiled(code, **fields):
        return ask(house, "/api/v2/execute", {"language": "c", "version": "*", "files": [{"name": "x.c", "content": code}],
                                              "run_timeout": 30000, "compile_timeout": 60000, **fields})
    status, answer = compiled("#include <stdio.h>\nint main(void) { puts(\"hi\"); return 0; }")
    assert status == 200 and (answer["compile"]["code"], answer["run"]["stdout"]) == (0, "hi\n")
    # What was not compiled has an answer of its run, too: clients read it always.
    status, answer = compiled("int main(void) { return missing; }")
    assert status == 200 and answer["run"] == answer["compile"] and answer["run"]["code"] == 1
    assert "missing" in answer["run"]["stderr"] and answer["run"]["status"] == "RE"
    status, answer = compiled("int main(void) { return 0; }", compile_timeout=1)
    assert status == 200 and answer["compile"]["status"] == "TO"
    status, answer = compiled("int main(void) { return 0; }", compile_memory_limit=1 << 50)
    assert status == 400 and answer["message"].startswith("compile_memory_limit: ")


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
    ({"language": "python", "version": "*", "files": [{"content": "eA==", "encoding": "base64"}]},
     "files must include at least one utf8 encoded file"),
    ({"language": "python", "version": "*", "files": [{"content": "x"}], "run_timeout": 2 ** 32 - 1}, "run_timeout: "),
    ({"language": 7}, "language: "),
    ({"language": "python", "version": "*", "files": [{"content": "x"}], "run_timeout": -3}, "run_timeout must be"),
    ({"language": "python", "version": "*", "files": [{"content": "x"}], "args": [{}]}, "args[0]: must be text"),
    (b"{", "not valid JSON"),
])
def test_a_wrong_request_is_400_with_a_message(house, body, message):
    status, answer = ask(house, "/api/v2/execute", body)
    assert status == 400 and list(answer) == ["message"] and message in answer["message"], answer


def test_every_refusal_has_a_message(house):
    status, answer = ask(house, "/api/v2/execute", b"{}", kind="text/plain")
    assert status == 415 and list(answer) == ["message"]
    status, answer = ask(house, "/api/v2/packages", {"language": "python", "version": "3.x"})
    assert status == 405 and list(answer) == ["message"]
    status, answer = ask(house, "/api/v2/nothing")
    assert status == 404 and list(answer) == ["message"]
