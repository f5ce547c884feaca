# SPDX-License-Identifier: Apache-2.0
"""Thousands of runs leave nothing behind, and a canary key is nowhere."""
import json
import os
import subprocess

import mixed_runs
import services as crisol

RUNS = 2000


def test_two_thousand_mixed_runs_leave_nothing_behind():
    figures = mixed_runs.figures(RUNS)
    print(json.dumps(figures))
    assert figures["problems"] == [] and figures["drift"] == []
    assert figures["runs"] == RUNS and set(figures["kinds"]) == {kind[0] for kind in mixed_runs.KINDS}


def test_a_canary_key_is_in_no_sandboxd_process_nor_in_the_box():
    with crisol.Services() as running:
        box = running.crisol("exec", "--runtime", "shell", "--",
                             "env; cat /proc/*/environ /proc/self/mountinfo 2>/dev/null; grep -rs canary- /etc /workspace /tmp; true")
        assert box.returncode == 0
        assert crisol.CANARY.encode() not in box.stdout + box.stderr
        for pid in running.sandboxd_pids():
            for name in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        content = file.read()
                except (FileNotFoundError, ProcessLookupError):
                    continue  # a box whose run was answered ends meanwhile
                # The supervisor was started with it in its environment, as by a careless unit file.
                assert crisol.CANARY.encode() not in content, f"{name} of {pid}"
        with open(f"/proc/{running.orchestrator.pid}/cmdline", "rb") as file:
            assert crisol.CANARY.encode() not in file.read()
        done = running.crisol("run", "Write an LRU cache in Python.")
        assert done.returncode == 0
        for folder, _, names in os.walk(running.folder):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        assert crisol.CANARY.encode() not in file.read(), path


def rss_anon_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))


def is_template(pid):
    """Interpreters that wait to be forked cost memory instead of time; --preload=off is without."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().startswith(b"/usr/bin/python3")


def test_idle_memory_is_within_its_bars():
    with crisol.Services() as running:
        crisol.settled(running)  # the first start asks each runtime for its version
        everybody = running.sandboxd_pids()
        templates = [pid for pid in everybody if is_template(pid)]
        pids = [pid for pid in everybody if pid not in templates]
        assert sum(pss_kib(pid) for pid in templates) <= 120 * 1024
        anon = {pid: rss_anon_kib(pid) for pid in [*pids, running.orchestrator.pid]}
        sandboxd = sum(pss_kib(pid) for pid in pids)
        orchestrator = pss_kib(running.orchestrator.pid)
        print(f"RssAnon {anon} KiB, PSS sandboxd {sandboxd} KiB, orchestrator {orchestrator} KiB")
        assert max(anon.values()) <= 8 * 1024
        assert sandboxd <= 30 * 1024
        assert orchestrator <= 28 * 1024


def test_sigterm_lets_a_run_in_flight_finish():
    running = crisol.Services(with_agent=False)
    call = subprocess.Popen([os.path.join(crisol.BIN, "crisol"), "exec", "--runtime", "shell", "--",
                             "echo up; sleep 1; echo done"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            env={"CRISOL_SANDBOX": running.sandbox, "PATH": "/usr/bin:/bin"})
    try:
        assert call.stdout.readline() == b"up\n"
    finally:
        codes = running.stop()
    assert call.stdout.read() == b"done\n"
    call.stdout.close()
    assert call.wait(60) == 0
    assert codes == {"sandboxd": 0}
