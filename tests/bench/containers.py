# SPDX-License-Identifier: Apache-2.0
"""Rows of the docker backend, and of `docker run` and `docker exec` on the same engine, which is a private one."""
import contextlib
import json
import os
import tempfile
import time

import native
import peers
from measure import COLD, DEEP, PRELOAD, Service, misses, ms

from services import descendants

IMAGE_PYTEST = ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
QUESTIONS = {"true": ["/usr/bin/true"], "python": ["/usr/bin/python3", "-c", "pass"], "pytest": IMAGE_PYTEST}
# A start by docker takes most of a second, and the whole shall end before one goes home.
SAMPLES = {"true": 100, "python": 30, "pytest": 40}
SLOTS = 8
# How a program in a container comes to be that waited for it.
WARM_MODES = {"true": COLD, "python": PRELOAD, "pytest": DEEP}
# What the native and the docker backend have to be faster than `docker run`, by question.
NATIVE_BARS = {"true": 100, "python": None, "pytest": 80}
DOCKER_BARS = {"true": 90, "python": None, "pytest": 10}


@contextlib.contextmanager
def engine(run):
    """One engine for the rows that need it."""
    if "docker" not in run.options.groups:
        yield
        return
    with peers.docker() as server:
        run.engine = server
        yield


def available_bytes():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))


def steady(measure, tolerance):
    """A value, once it has moved no more than so much for two seconds; after a minute whatever it is."""
    seen = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        seen.append(measure())
        last = seen[-9:]
        if len(last) == 9 and max(last) - min(last) <= tolerance:
            break
        time.sleep(0.25)
    return sorted(seen[-9:])[len(seen[-9:]) // 2]


def shims():
    """pids of the processes that the engine keeps beside its containers."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            if file.read().startswith("containerd-shim"):
                found.append(int(pid))
    return found


def proportional_bytes(pids):
    """What they have for themselves, and their shares of what they share."""
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            found += next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    return found


def backend(server):
    return ("--backend=docker", f"--docker-socket={server.socket}", f"--docker-base={peers.engine.BASE}",
            "--docker-pull=never")


def count_running(server):
    """Containers that are ready or run, of whomever."""
    return len(json.loads(server.ask("GET", "/containers/json")[1]))


def slot_memory_row(run):
    """The fall of MemAvailable when the pool fills: container, init, shim, and what the engine keeps of it."""
    server = run.engine
    with Service(slots=SLOTS, backend=backend(server)):
        pass  # the image is built, and the engine has done what it does once
    for key, pool, most in (("docker_slot_memory", "plain=8", 13), ("docker_preload_slot_memory", "pytest=4", None)):
        before = steady(available_bytes, 2 << 20)
        others = count_running(server)
        with Service(f"--pool=0,{pool}", slots=SLOTS, backend=backend(server)) as service:
            service.wait_pool_full()
            waiting = steady(lambda: count_running(server), 0) - others
            if waiting <= 0:
                run.table.miss(key, "no container waits in a pool")
                continue
            fall = before - steady(available_bytes, 2 << 20)
            of_shims = proportional_bytes(shims())
            of_boxes = proportional_bytes({child for shim in shims() for child in descendants(shim)})
        # Others on the machine give memory back meanwhile: it is at least what those who wait have.
        fall = max(fall, of_shims + of_boxes)
        run.table.add(key, fall / waiting / (1 << 20), "MiB", most=most,
                      note=f"fall of MemAvailable for {waiting} that wait ({pool.split('=', maxsplit=1)[0]}), at least their shares (PSS); shims included, sandboxd too")
        for name, share in (("shim", of_shims), ("box", of_boxes)):
            run.table.add(f"{key.replace('_memory', '')}_{name}_memory", share / waiting / (1 << 20), "MiB",
                          note="of it the share (PSS) of " + ("the engine's shim" if name == "shim" else "what is in the container"))


def ratio_rows(run, question, ours):
    """Native, our docker backend warm and cold, `docker run` and `docker exec` take turns with one of ours each."""
    server, add = run.engine, run.table.add
    folder = tempfile.mkdtemp(prefix="docker-", dir=run.folder)
    os.chmod(folder, 0o755)
    native.write_files(folder, native.ADD_FILES)
    # The files of the peers are bound into the container; ours travel with every request.
    mount = [f"--volume={folder}:/tests:ro", "--workdir=/tests"] if question == "pytest" else []
    container = peers.start_container(server, mount)
    started = {"docker run": peers.run_of(server, QUESTIONS[question], mount)}
    entered = {"docker exec": peers.exec_in(server, container, QUESTIONS[question])}
    samples = SAMPLES[question]
    series = run.latency(run.warm, question, "back-to-back", with_peers=started, samples=samples, warm_up=3)
    by_run = series["docker run"]["p50_us"]
    add(f"{question}_docker_run_p50", by_run / 1000, "ms", note=f"{series['docker run']['count']} samples")
    add(f"{question}_native_to_docker_run", ms(series["sandbox"]), "ms", peer="faster than docker run",
        ratio=by_run / series["sandbox"]["p50_us"], ratio_least=NATIVE_BARS[question])
    for mode, service in ours.items():
        series = run.latency(service, question, "rested" if mode == "warm" else "back-to-back", samples=samples, warm_up=3,
                             with_peers=entered if mode == "warm" else None, mode=WARM_MODES[question] if mode == "warm" else COLD)
        mine, missed = series["sandbox"], misses(series)
        if mode == "warm":
            add(f"{question}_docker_exec_p50", ms(series["docker exec"]), "ms",
                note="in a container that is there already, and with all that runs before left in it")
        add(f"{question}_docker_{mode}_p50", ms(mine), "ms", peer="faster than docker run", ratio=by_run / mine["p50_us"],
            ratio_least=DOCKER_BARS[question] if mode == "warm" else None,
            note=f"pool: {'hit' if missed == 0 else 'miss' if missed == 1 else f'{missed:.0%} miss'}")
    series = run.latency(ours["warm"], question, "back-to-back", samples=samples, warm_up=3)
    add(f"{question}_docker_b2b_p50", ms(series["sandbox"]), "ms", note=f"faster than the pool is filled: {misses(series):.0%} miss")
    server.ask("DELETE", f"/containers/{container}?force=1")


def docker_rows(run):
    if isinstance(run.engine, str):
        run.table.miss("true_docker_run_p50", run.engine)
        return
    slot_memory_row(run)
    flags = backend(run.engine)
    with Service(backend=flags, slots=SLOTS) as warm, Service("--pool=0", backend=flags, slots=2) as cold:
        for question in QUESTIONS:
            ratio_rows(run, question, {"warm": warm, "cold": cold})


GROUPS = {"docker": docker_rows}
