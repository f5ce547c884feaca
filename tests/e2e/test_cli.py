# SPDX-License-Identifier: Apache-2.0
"""The command line against the real services."""
import json
import os
import signal
import subprocess
import time

import services as crisol


def test_exec_prints_what_the_program_prints(services, tmp_path):
    program = tmp_path / "main.py"
    program.write_text("import sys\nprint(2 + 2)\nprint('err', file=sys.stderr)\n")
    done = services.crisol("exec", str(program))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"4\n", b"err\n")


def test_exec_exits_with_the_programs_own_code(services):
    done = services.crisol("exec", "--runtime", "shell", "--", "echo hi; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hi\n", b"")


def test_exec_passes_stdin_and_arguments(services, tmp_path):
    program = tmp_path / "main.py"
    program.write_text("import sys\nprint(sys.argv[1:], sys.stdin.read())\n")
    done = services.crisol("exec", str(program), "--", "-x", "two words", stdin=b"input")
    assert (done.returncode, done.stdout) == (0, b"['-x', 'two words'] input\n")


def test_exec_of_a_limit_is_124_with_one_line(services):
    done = services.crisol("exec", "--wall-ms=300", "--runtime", "python", "--", "while True: pass")
    assert done.returncode == 124
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1 and b"WALL_TIME_LIMIT" in done.stderr


def test_exec_of_a_signal_is_128_plus_its_number(services):
    done = services.crisol("exec", "--runtime", "python", "--", "import os; os.kill(os.getpid(), 11)")
    assert done.returncode == 128 + 11


def test_exec_json_is_one_document(services):
    done = services.crisol("exec", "--json", "--runtime", "python", "--", "print('x')")
    answer = json.loads(done.stdout)
    assert answer["stdout_text"] == "x\n"
    assert answer["result"]["verdict"]["code"] == "VERDICT_CODE_OK"


def test_exec_names_an_unknown_runtime(services):
    done = services.crisol("exec", "--runtime", "cobol", "--", "x")
    assert done.returncode == 125
    assert b"NOT_FOUND" in done.stderr and b"cobol" in done.stderr


def test_text_with_a_nul_byte_is_refused_and_not_cut(services, tmp_path):
    text = tmp_path / "text.py"
    text.write_bytes(b"print(1)\0print(2)\n")
    for words in (("exec", str(text)), ("batch", "--program", str(text)), ("resume", "--tests", str(text), "0" * 32),
                  ("resume", "--plan", str(text), "0" * 32)):
        done = services.crisol(*words)
        assert done.returncode not in (0, 1) and b"text.py' holds a NUL byte" in done.stderr, (words, done.stderr)


def test_exec_runs_pytest_files(services, tmp_path):
    test = tmp_path / "test_it.py"
    test.write_text("def test_a():\n    assert 1 == 2\n")
    done = services.crisol("exec", "--wall-ms=60000", str(test))
    assert done.returncode == 1
    assert b"assert 1 == 2" in done.stdout


def test_ctrl_c_kills_the_program_and_exits_130(services):
    call = subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "exec", "--wall-ms=60000", "--runtime", "python", "--",
                             "import time; print('up', flush=True); time.sleep(50)"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            env={"CRISOL_SANDBOX": services.sandbox, "PATH": "/usr/bin:/bin"})
    assert call.stdout.readline() == b"up\n"
    call.send_signal(signal.SIGINT)
    assert call.wait(90 * crisol.SLOWNESS) == 130
    call.stdout.close()
    crisol.wait_for(lambda: not crisol.has_box(services.sandboxd_pids()), 2, "the program is dead")


def test_ctrl_c_ends_a_call_that_answers_in_json(services):
    """Nothing is printed before the end, so the box is what shows that the program runs."""
    crisol.settled(services)
    call = subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "exec", "--json", "--wall-ms=60000", "--runtime", "python",
                             "--", "import time; time.sleep(50)"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            env={"CRISOL_SANDBOX": services.sandbox, "PATH": "/usr/bin:/bin"})
    crisol.wait_for(lambda: crisol.has_box(services.sandboxd_pids()), 5, "the program runs")
    call.send_signal(signal.SIGINT)
    assert call.wait(90 * crisol.SLOWNESS) == 130
    assert call.stdout.read() == b""
    call.stdout.close()


def test_a_closed_pipe_is_quiet(services):
    done = subprocess.run(
        ["/bin/sh", "-c", f"'{crisol.BIN}/crisol' exec --runtime python -- 'for i in range(9999): print(i)' | head -n 1"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * crisol.SLOWNESS, check=False,
        env={"CRISOL_SANDBOX": services.sandbox, "PATH": "/usr/bin:/bin"})
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_service_that_is_not_there_is_125_and_says_where(services, tmp_path):
    done = services.crisol("exec", "--sandbox", f"unix:{tmp_path}/none.sock", "--runtime", "shell", "--", "true")
    assert done.returncode == 125
    assert b"none.sock" in done.stderr


def test_health_says_that_both_serve(services):
    done = services.crisol("health")
    assert done.returncode == 0
    assert done.stdout.count(b" SERVING ") == 2


def test_health_asks_one_alone(services):
    nobody = ("--sandbox=unix:/nowhere/s.sock", "--orchestrator=127.0.0.1:1")
    assert services.crisol("health", nobody[0]).returncode == 1
    for name, other in (("orchestrator", nobody[0]), ("sandboxd", nobody[1])):
        done = services.crisol("health", f"--only={name}", other)
        assert (done.returncode, done.stdout.count(b"\n")) == (0, 1), done.stdout
        assert done.stdout.startswith(name.encode())
    assert services.crisol("health", "--only=orchestrator", nobody[1]).returncode == 1
    done = services.crisol("health", "--only=both")
    assert done.returncode == 125 and b"neither sandboxd nor orchestrator" in done.stderr


def test_attack_is_held(services):
    done = services.crisol("attack")
    assert done.returncode == 0, done.stdout.decode()
    assert b"10 of 10 held" in done.stdout


def test_run_repairs_and_succeeds(services):
    begin = time.monotonic()
    done = services.crisol("run", "--json", "Write an LRU cache in Python.")
    answer = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr.decode()
    assert answer["status"] == "SUCCESS" and answer["iterations"] == 2
    assert sorted(file["path"] for file in answer["files"]) == ["solution.py", "test_solution.py"]
    assert answer["verification"]["level"] == "STUBS"
    assert answer["models_served"] == ["gemini-replay (scripted)"] and answer["warnings"]
    assert "red" in done.stderr.decode() and "green" in done.stderr.decode()
    assert time.monotonic() - begin < 100 * crisol.SLOWNESS


def test_a_receipt_fits_its_result_and_no_other(services, tmp_path):
    done = services.crisol("run", "--json", "Write an LRU cache in Python.")
    assert done.returncode == 0, done.stderr.decode()
    answer = tmp_path / "answer.json"
    answer.write_bytes(done.stdout)
    checked = services.crisol("verify-receipt", str(answer))
    assert checked.returncode == 0, checked.stderr.decode()
    head = checked.stdout.decode().split("head=")[1].strip()
    assert services.crisol("verify-receipt", "--head", head, "-", stdin=done.stdout).returncode == 0
    other = services.crisol("verify-receipt", "--head", "0" * 64, str(answer))
    assert other.returncode == 1 and b"kept" in other.stderr
    result = json.loads(done.stdout)
    result["attempts"][0]["files"][0]["text"] += " "
    changed = services.crisol("verify-receipt", "-", stdin=json.dumps(result).encode())
    assert changed.returncode == 1 and b"solution.py of attempt 1 was changed" in changed.stderr
    assert services.crisol("verify-receipt", "-", stdin=b"[]").returncode == 125


def test_run_takes_terms_and_writes_its_files(services, tmp_path):
    terms = tmp_path / "terms.json"
    terms.write_text(json.dumps({
        "cases": [{"setup": "c = LRUCache(1)\nc.put(1, 'a')\nc.put(2, 'b')", "expression": "[c.get(1), c.get(2)]",
                   "expected_json": '[null, "b"]'},
                  {"expression": "LRUCache(0)", "raises": "ValueError"}],
        "checks": [{"command": ["/usr/bin/python3", "-m", "py_compile", "solution.py"]}]}))
    done = services.crisol("run", "--json", "--out", str(tmp_path / "out"), "--terms", str(terms),
                           "Escribe una caché LRU en Python.")
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert answer["verification"]["level"] == "ORACLE", answer["verification"]
    assert answer["final_response"].startswith("Resuelto en el intento 2 de 3: ")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["solution.py", "test_solution.py"]


def test_run_looks_at_its_folder_before_it_starts(services, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("")
    for folder in (taken, tmp_path / "none" / "out"):
        done = services.crisol("run", "--out", str(folder), "Write an LRU cache in Python.")
        assert done.returncode == 125 and done.stdout == b"" and b"attempt" not in done.stderr, done.stderr
        assert b"--out: " in done.stderr and str(folder).encode() in done.stderr, done.stderr


def test_run_names_what_is_wrong_with_its_terms(services):
    for text, field in [('{"cases":[{"expression":"f()","expected_json":"x"}]}', b"terms.cases[0].expected_json"),
                        ('{"cases":[{"raises":1}]}', b"cases[0].raises"), ("[]", b"--terms")]:
        done = services.crisol("run", "--terms", "-", "x", stdin=text.encode())
        assert done.returncode == 125 and field in done.stderr, done.stderr


def test_a_run_is_cancelled_by_its_id(services):
    run = services.crisol("run", "--detach", "--pause-after", "planner", "Write an LRU cache in Python.").stdout.decode().strip()
    done = services.crisol("cancel", run)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert services.crisol("watch", run).returncode == 1
    assert services.crisol("cancel", run).stdout == b"the run had ended\n"
    done = services.crisol("cancel", "0" * 32)
    assert done.returncode == 125 and b"NOT_FOUND" in done.stderr
    done = services.crisol("cancel")
    assert done.returncode == 125 and b"'crisol runs' lists them" in done.stderr


def test_runs_are_listed_with_whole_characters(services):
    task = "x" + "ñ" * 60
    run = services.crisol("run", "--detach", "--pause-after", "planner", task).stdout.decode().strip()
    line = next(line for line in services.crisol("runs").stdout.decode().splitlines() if line.startswith(run))
    assert line.endswith("  x" + "ñ" * 29 + "…"), line
    assert services.crisol("cancel", run).returncode == 0


def test_run_refuses_an_empty_task(services):
    done = services.crisol("run", "  ")
    assert done.returncode == 125
    assert b"INVALID_ARGUMENT" in done.stderr and b"task" in done.stderr
