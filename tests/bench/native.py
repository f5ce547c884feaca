# SPDX-License-Identifier: Apache-2.0
"""Rows of the native backend, and of the ways without a daemon that it is compared with."""
import contextlib
import os
import shutil
import subprocess
import tempfile

import peers
from measure import (BENCH, CORE, DEEP, OUTPUT, PRELOAD, SANDBOXD, SHALLOW, COLD, Service, bench, cgroup_version, misses,
                     ms)

from services import wait_for

ONE_CORE = f"--millicores={CORE}"
BARE_PYTEST = "/usr/bin/python3 -B -m pytest -q -p no:cacheprovider"
ADD_FILES = {"solution.py": "def add(a, b):\n    return a + b\n",
             "test_solution.py": "from solution import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"}
# As the question "work" of tests/bench/question.c.
WORK_FILES = {"solution.py": "import time\n\n\ndef work(seconds):\n    end = time.process_time() + seconds\n"
                             "    while time.process_time() < end:\n        pass\n    return seconds\n",
              "test_solution.py": "from solution import work\n\n\ndef test_work():\n    with open(\"work_ms\") as file:\n"
                                  "        seconds = int(file.read()) / 1000\n    assert work(seconds) == seconds\n"}
FLOOR_STEPS = ("fork and exec", "+ namespaces", "+ control groups", "+ network", "+ mounts", "+ user and filter")
# CPU time of a test, and how many samples of it there are at most.
WORK = ((0, 60), (10, 60), (100, 60), (1000, 10), (10000, 2))


@contextlib.contextmanager
def services(run):
    """One sandboxd as it is by default, and one that makes every box for its run."""
    if not set(run.options.groups) - {"start", "journal", "agent", "agent-real"}:
        yield
        return
    with Service() as warm, Service("--pool=0", "--preload=off") as cold:
        run.warm, run.cold = warm, cold
        yield


def write_files(folder, files):
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


@contextlib.contextmanager
def fork_server(run):
    """An equally warm process that forks without any isolation: its address, and the folder of its tests."""
    folder = tempfile.mkdtemp(prefix="tests-", dir=run.folder)
    address = os.path.join(run.folder, "fork-server")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fork_server.py")
    with subprocess.Popen(["/usr/bin/python3", "-I", "-B", program, address, folder]) as process:
        try:
            wait_for(lambda: os.path.exists(address) or process.poll() is not None, 30, "the fork server listens")
            write_files(folder, ADD_FILES)
            yield f"unix:{address}"
        finally:
            process.terminate()
    os.unlink(address)
    shutil.rmtree(folder)


def start_rows(run):
    results = []
    for _ in range(5 if run.options.quick else 20):
        service = Service()
        results.append(bench("start", service.socket, SANDBOXD, *service.flags, "--log-level=warn"))
        shutil.rmtree(service.folder, True)
    run.raw.extend(results)
    for key, most in (("serving_ms", 300), ("pool_full_ms", 2000)):
        values = sorted(result[key] for result in results)
        run.table.add(f"start_{key[:-3]}_p50", values[len(values) // 2], "ms", most=most)


def journal_rows(run):
    """On the disk of the build: in memory a step would cost nothing."""
    folder = tempfile.mkdtemp(prefix="journal-", dir=BENCH)
    try:
        result = bench("journal", folder)
    finally:
        shutil.rmtree(folder, True)
    run.raw.append(result)
    step, disk = (result["series"][name]["p99_us"] for name in ("one_run", "disk"))
    run.table.add("journal_step_p99", step / 1000, "ms", most=2, peer="a synced page", ratio=step / disk)
    run.table.add("journal_step_100_runs_p99", ms(result["series"]["hundred_runs"], "p99_us"), "ms")


def memory_rows(run):
    """A plain slot is the smallest that waits, one that was forked from an interpreter the largest."""
    found = wait_for(lambda: sorted(run.warm.slot_bytes())[1:] or None, 10, "sandboxes wait in the pool")
    run.table.add("plain_slot_memory", found[0] / (1 << 20), "MiB", most=2)
    if found[-1] > 2 * found[0]:
        run.table.add("preload_slot_memory", found[-1] / (1 << 20), "MiB", most=11)


def true_rows(run):
    add = run.table.add
    argv = ["/usr/bin/true"]
    bare = {"bare": argv[0]}
    for shape, key in (("sparse", "sparse"), ("back-to-back", "b2b")):
        series = run.latency(run.warm, "true", shape, with_peers=bare, mode=COLD)
        ratio = series["sandbox"]["p50_us"] / series["bare"]["p50_us"]
        add(f"true_warm_{key}_p50", ms(series["sandbox"]), "ms", most=2.5, peer="bare exec", ratio=ratio)
        add(f"true_warm_{key}_p99", ms(series["sandbox"], "p99_us"), "ms", most=10)
        add(f"true_warm_{key}_pool_misses", misses(series), "share")
    cpu, series = run.latency.cpu_ms(run.warm, lambda: run.latency(run.warm, "true", "sparse"))
    add("true_warm_cpu_per_run", cpu, "ms", note="every process of ours, refill and teardown included")
    others, reasons = peers.native(run.folder, argv)
    series = run.latency(run.cold, "true", "back-to-back", with_peers={**bare, **others})
    ours = series["sandbox"]["p50_us"]
    add("true_cold_b2b_p50", ours / 1000, "ms", most=2.5, peer="bare exec", ratio=ours / series["bare"]["p50_us"])
    for name in others:
        add_peer(run, name, series)
    for name, why in reasons.items():
        crun = peers.oci(run.folder, argv, name) if name == "crun" and shutil.which(name) else None
        if crun and not peers.trouble(crun, peers.ONE_VERSION):
            add_peer(run, name, run.latency(run.cold, "true", "back-to-back", with_peers={name: crun},
                                            prefix=peers.ONE_VERSION))
        else:
            run.table.miss(f"true_{name}_to_cold", why)
    series = run.latency(run.cold, "true", "sparse", with_peers=bare)
    add("true_cold_sparse_p50", ms(series["sandbox"]), "ms", most=4 if cgroup_version() == 2 else None)


def add_peer(run, name, series):
    run.table.add(f"true_{name}_to_cold", ms(series[name]), "ms", peer="cold sandbox",
                  ratio=series[name]["p50_us"] / series["sandbox"]["p50_us"], ratio_least=1, note=peers.NATIVE[name])


def floor_rows(run):
    """What the kernel and gRPC ask for, without anything of ours: the least that bars can be compared with."""
    add = run.table.add
    result = bench("floor", str(min(run.options.samples, 200)), "1" if run.options.quick else "3")
    run.raw.append(result)
    series = result["series"]
    add("floor_box_p50", ms(series[FLOOR_STEPS[-1]]), "ms", peer="fork and exec alone",
        ratio=series[FLOOR_STEPS[-1]]["p50_us"] / series[FLOOR_STEPS[0]]["p50_us"], note="the calls that make a box, and its program")
    add("floor_box_sparse_p50", ms(series["whole, sparse"]), "ms")
    for key, name in (("exec", "fork and exec"), ("box", "such a box")):
        add(f"floor_{key}_per_second", result["rates"][key]["per_second"], "1/s", note=f"{name}, a process for each processor")
        add(f"floor_{key}_cpu_per_run", result["rates"][key]["cpu_ms"], "ms")
    for shape, key in (("sparse", "sparse"), ("back-to-back", "b2b")):
        result = run.warm.bench("call", f"--shape={shape}", f"--samples={run.options.samples}")
        run.raw.append(result)
        add(f"floor_call_{key}_p50", ms(result["series"]["nothing"]), "ms", note="a call that runs nothing")


def deep_rows(run, folder):
    """The sandbox, the equally warm fork server and bare pytest take turns."""
    add = run.table.add
    with fork_server(run) as address:
        series = run.latency(run.warm, "pytest", "sparse", mode=DEEP, folder=folder,
                             with_peers={"bare": BARE_PYTEST, "fork server": address})
        ours, bare, server = (series[name]["p50_us"] for name in ("sandbox", "bare", "fork server"))
        add("pytest_deep_sparse_p50", ours / 1000, "ms", most=9, peer="faster than bare python3 -m pytest", ratio=bare / ours,
            ratio_least=25)
        add("pytest_deep_sparse_p99", ms(series["sandbox"], "p99_us"), "ms")
        add("pytest_deep_sparse_pool_misses", misses(series), "share")
        add("pytest_bare_sparse_p50", bare / 1000, "ms")
        add("pytest_fork_server_sparse_p50", server / 1000, "ms", note="equally warm, no isolation, forked on demand")
        add("pytest_isolation_cost_sparse", (ours - server) / 1000, "ms", most=6, peer="fork server", ratio=ours / server)
        series = run.latency(run.warm, "pytest", "back-to-back", mode=DEEP, with_peers={"fork server": address})
        ours, server = (series[name]["p50_us"] for name in ("sandbox", "fork server"))
        add("pytest_isolation_cost_in_turn", (ours - server) / 1000, "ms", most=6, peer="fork server", ratio=ours / server)
    series = run.latency(run.warm, "pytest", "back-to-back", mode=DEEP)
    add("pytest_deep_b2b_p50", ms(series["sandbox"]), "ms", most=12)
    add("pytest_deep_b2b_p99", ms(series["sandbox"], "p99_us"), "ms")
    add("pytest_deep_b2b_pool_misses", misses(series), "share")
    cpu, series = run.latency.cpu_ms(run.warm, lambda: run.latency(run.warm, "pytest", "sparse", mode=DEEP))
    add("pytest_deep_cpu_per_run", cpu, "ms", most=25, note="every process of ours, refill and teardown included")


def pytest_rows(run):
    add = run.table.add
    folder = tempfile.mkdtemp(prefix="bare-", dir=run.folder)
    write_files(folder, ADD_FILES)
    bare = {"bare": BARE_PYTEST}
    deep_rows(run, folder)
    series = run.latency(run.warm, "pytest-arguments", "sparse", ONE_CORE, mode=SHALLOW)
    add("pytest_shallow_p50", ms(series["sandbox"]), "ms", most=35)
    series = run.latency(run.warm, "pytest-arguments", "sparse", mode=SHALLOW)
    add("pytest_shallow_p50_default", ms(series["sandbox"]), "ms")
    series = run.latency(run.cold, "pytest", "back-to-back", ONE_CORE, with_peers=bare, mode=COLD, folder=folder)
    add("pytest_cold_p50", ms(series["sandbox"]), "ms", peer="bare python3 -m pytest",
        ratio=series["sandbox"]["p50_us"] / series["bare"]["p50_us"], ratio_most=1.15)
    series = run.latency(run.cold, "pytest", "back-to-back", mode=COLD, samples=60)
    add("pytest_cold_p50_default", ms(series["sandbox"]), "ms")


def python_rows(run):
    add = run.table.add
    bare = {"bare": "/usr/bin/python3 -c pass"}
    series = run.latency(run.warm, "python", "sparse", ONE_CORE, with_peers=bare, mode=PRELOAD)
    add("python_pass_warm_p50", ms(series["sandbox"]), "ms", peer="bare python3 -c pass",
        ratio=series["sandbox"]["p50_us"] / series["bare"]["p50_us"], ratio_most=0.6)
    cpu, series = run.latency.cpu_ms(run.warm, lambda: run.latency(run.warm, "python", "sparse", mode=PRELOAD))
    add("python_pass_warm_p50_default", ms(series["sandbox"]), "ms")
    add("python_pass_warm_cpu_per_run", cpu, "ms")
    series = run.latency(run.cold, "python", "back-to-back", ONE_CORE, with_peers=bare, mode=COLD)
    add("python_pass_cold_p50", ms(series["sandbox"]), "ms", peer="bare python3 -c pass",
        ratio=series["sandbox"]["p50_us"] / series["bare"]["p50_us"])


def work_rows(run):
    """Start-up that was done ahead is all that a warm sandbox saves: the longer the tests compute, the less."""
    folder = tempfile.mkdtemp(prefix="work-", dir=run.folder)
    os.chmod(folder, 0o755)
    write_files(folder, WORK_FILES)
    for work_ms, most in WORK:
        if run.options.quick and work_ms > 1000:
            continue
        write_files(folder, {"work_ms": str(work_ms)})
        series = run.latency(run.warm, "work", "back-to-back", ONE_CORE, "--wall-ms=60000", f"--work-ms={work_ms}",
                             with_peers={"bare": BARE_PYTEST}, samples=most, folder=folder,
                             warm_up=2 if work_ms < 1000 else 0)
        ours, bare = (series[name] for name in ("sandbox", "bare"))
        run.table.add(f"pytest_of_{work_ms}_ms_p50", ms(ours), "ms", peer="faster than bare python3 -m pytest",
                      ratio=bare["p50_us"] / ours["p50_us"], note=f"one core, {ours['count']} samples")


def throughput_rows(run):
    seconds = f"--seconds={2 if run.options.quick else 5}"
    for question, least in (("true", 600), ("pytest", 60)):
        best = 0
        for callers in (2, 8, 64, 256) if question == "true" else (2, 8, 64):
            result = run.warm.bench("throughput", f"--question={question}", f"--callers={callers}", seconds, ONE_CORE)
            run.raw.append(result)
            best = max(best, result["per_second"])
            run.table.add(f"{question}_per_second_{callers}_callers", result["per_second"], "1/s",
                          least=least if callers == 8 else round(0.7 * best, 1) if callers >= 64 else None)


def stream_rows(run):
    result = run.warm.bench("first_byte", f"--samples={run.options.samples}", ONE_CORE)
    run.raw.append(result)
    run.table.add("first_byte_after_write_p50", ms(result["series"]["sandbox"]), "ms", most=1)
    result = run.warm.bench("stream", "--samples=5", ONE_CORE, f"--bytes={OUTPUT // 4}")
    run.raw.append(result)
    run.table.add("stream_megabytes_per_second", result["bytes"] / result["series"]["sandbox"]["p50_us"], "MB/s",
                  least=400)


def limit_rows(run):
    for callers, key, kill, late in ((1, "quiet", 10, None), (4, "loaded", 50, 250)):
        result = run.warm.bench("limits", f"--samples={run.options.samples}", f"--callers={callers}")
        run.raw.append(result)
        series = result["series"]
        add = run.table.add
        add(f"wall_limit_to_kill_{key}_p99", ms(series["kill_after_wall"], "p99_us"), "ms", most=kill)
        add(f"wall_limit_to_result_{key}_p99", ms(series["result_after_wall"], "p99_us"), "ms", most=late)
        add(f"cpu_limit_error_{key}_p99", ms(series["cpu_from_limit"], "p99_us"), "ms", most=20)


def neighbour_rows(run):
    result = run.warm.bench("neighbours", f"--samples={run.options.samples}", "--callers=7")
    run.raw.append(result)
    quiet, attacked, bare_quiet, bare_attacked = (result["series"][name]
                                                  for name in ("quiet", "attacked", "bare quiet", "bare attacked"))
    run.table.add("true_p99_quiet", ms(quiet, "p99_us"), "ms")
    run.table.add("true_p99_hostile_neighbours", ms(attacked, "p99_us"), "ms", peer="quiet",
                  ratio=attacked["p99_us"] / quiet["p99_us"], ratio_most=3)
    run.table.add("exec_p99_hostile_neighbours", ms(bare_attacked, "p99_us"), "ms", peer="quiet",
                  ratio=bare_attacked["p99_us"] / bare_quiet["p99_us"], note="the bare program beside the same attack, no sandbox")


GROUPS = {"start": start_rows, "journal": journal_rows, "memory": memory_rows, "true": true_rows, "floor": floor_rows,
          "pytest": pytest_rows, "python": python_rows, "stream": stream_rows, "neighbours": neighbour_rows,
          "throughput": throughput_rows, "limits": limit_rows, "work": work_rows}
