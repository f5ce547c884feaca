#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Mixed load on three sandboxd and two orchestrators, while one process after the other is killed, connections of the
database are cut, and a network is. No run may be lost, no step may have two results, no answer may be wrong, and
nothing may stay.

Usage: soak.py [SECONDS [SEED]]   (default: CRISOL_SOAK_S, else 120; a seed of the time) prints the figures as JSON; exit status 1 when
something was lost, wrong or left.
"""
import collections
import contextlib
import http.client
import json
import os
import random
import signal
import sys
import threading
import time
import urllib.error

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for folder in ("harness", "e2e", "durable", "deploy"):
    sys.path.insert(0, os.path.join(TESTS, folder))

import services as crisol  # noqa: E402  # pylint: disable=wrong-import-position
from fleet import CLAIMED_UIDS, UIDS, claim  # noqa: E402  # pylint: disable=wrong-import-position
from house import check_whole  # noqa: E402  # pylint: disable=wrong-import-position
from postgres import Postgres, folder_of_programs  # noqa: E402  # pylint: disable=wrong-import-position
from stage import Load, Stage  # noqa: E402  # pylint: disable=wrong-import-position

SKIP = 77
EXECUTORS = 2
PAUSE_S = (1.0, 5.0)  # between one evil and the next
SILENCES_S = (0.5, 2, 5, 35)  # the last is longer than a peer that says nothing is waited for
PAUSES_S = (0.5, 4, 6)  # the lease of a run is three seconds
FDS_TO_SPARE = 16  # connections come and go
# Program, limits, verdict
PROGRAMS = [
    ("python", "print(sum(range(1000)))", {}, "OK"),
    ("shell", "echo oh no >&2; exit 9", {}, "NONZERO_EXIT"),
    ("shell", "kill -9 $$", {}, "SIGNALED"),
    ("shell", "setsid sleep 30 & exit 0", {}, "OK"),
    ("shell", "sleep 30", {"wall_time_ms": 300}, "WALL_TIME_LIMIT"),
    ("shell", "yes", {"output_bytes": 100000}, "OUTPUT_LIMIT"),
    ("python", "x = b'x' * (256 << 20)", {"memory_bytes": 32 << 20}, "MEMORY_LIMIT"),
]


# That it could not be had, and may be asked for again (docs/verdicts.md).
TOLD = ("HTTP 429", "HTTP 503", "no answer", "SANDBOX_LOST", "SANDBOX_ERROR")


class Executors:
    """Callers that execute a program and take what they are told: the right verdict, or that it could not be had."""

    def __init__(self, stage, seed):
        self.stage = stage
        self.must_end = threading.Event()
        self.lock = threading.Lock()
        self.ends, self.wrong = collections.Counter(), []
        self.threads = [threading.Thread(target=self.work, args=(random.Random(f"{seed} {index}"),), daemon=True)
                        for index in range(EXECUTORS)]
        for thread in self.threads:
            thread.start()

    def execute(self, chance):
        """(what came, what should)"""
        runtime, code, limits, wanted = chance.choice(PROGRAMS)
        replica = self.stage.replicas[chance.randrange(len(self.stage.replicas))]
        try:
            with replica.ask("POST", "/api/v1/execute", {"runtime": runtime, "code": code, "limits": limits}) as answer:
                got = json.loads(answer.read())["result"]["verdict"]["code"].replace("VERDICT_CODE_", "")
        except urllib.error.HTTPError as error:
            return (f"HTTP {error.code}" if error.code in (429, 503) else f"HTTP {error.code}: {error.read()[:300]}"), wanted
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return "no answer", wanted
        return got, wanted

    def work(self, chance):
        while not self.must_end.is_set():
            try:
                got, wanted = self.execute(chance)
            except (KeyError, TypeError, ValueError) as error:
                got, wanted = f"an answer that cannot be read ({error!r})", "a verdict"
            is_told = got in TOLD
            with self.lock:
                self.ends[got if is_told else "as it must"] += 1
                if not is_told and got != wanted:
                    self.wrong.append(f"{got}, not {wanted}")
            if is_told:
                time.sleep(0.2)

    def finish(self):
        self.must_end.set()
        for thread in self.threads:
            thread.join(60 * crisol.SLOWNESS)


# ---- evils: each is over when it returns ----

def back(member):
    """As a service manager does: starts what has ended, once nothing of it is left."""
    member.process.popen.wait(60)
    crisol.wait_for(lambda: not left_of(member), 60, "what a dead supervisor left behind ends by itself")
    member.start()


def left_of(member):
    """Processes that were started with its folder, or that are users of its boxes."""
    first = member.fleet.first_uid + member.number * UIDS
    found = []
    for pid, (_, command) in crisol.processes().items():
        with contextlib.suppress(OSError, StopIteration):
            if member.folder + "/" in command or first <= crisol.user_of(pid) < first + UIDS:
                found.append((pid, command))
    return found


def kill_one_of(stage, chance, name):
    member = chance.choice(stage.fleet.members)
    for pid in member.pids():
        with contextlib.suppress(OSError):
            if crisol.name_of(pid).startswith(name):
                os.kill(pid, signal.SIGKILL)
                break
    # The supervisor starts another; one whose parts die again and again ends, which is what the manager is for.
    with contextlib.suppress(AssertionError):
        crisol.wait_for(lambda: member.process.popen.poll() is not None, 1, "it gives up")
        back(member)


def kill_front(stage, chance):
    kill_one_of(stage, chance, "sandboxd-front")


def kill_backend(stage, chance):
    kill_one_of(stage, chance, "sandboxd-native")


def kill_supervisor(stage, chance):
    member = chance.choice(stage.fleet.members)
    os.kill(member.process.pid, signal.SIGKILL)
    back(member)


def kill_sandboxd(stage, chance):
    member = chance.choice(stage.fleet.members)
    member.kill()
    time.sleep(chance.uniform(0, 2))
    back(member)


def kill_orchestrator(stage, chance):
    stage.replace(chance.randrange(2), signal.SIGKILL)


def stop_orchestrator(stage, chance):
    """Longer than its leases, perhaps: another one goes on with its runs, and it does not know when it wakes."""
    replica = chance.choice(stage.replicas)
    replica.signal(signal.SIGSTOP)
    time.sleep(chance.choice(PAUSES_S))
    replica.signal(signal.SIGCONT)


def cut_database(stage, _):
    stage.postgres.ask("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                   f"WHERE datname = '{stage.database}'")


def stop_front(stage, chance):
    """It is there, takes connections, and says nothing."""
    member = chance.choice(stage.fleet.members)
    member.signal_front(signal.SIGSTOP)
    time.sleep(chance.choice(SILENCES_S))
    member.signal_front(signal.SIGCONT)


def cut_network(stage, chance):
    island = stage.fleet.members[2].island
    island.cut()
    time.sleep(chance.choice(SILENCES_S))
    island.heal()


EVILS = [kill_front, kill_backend, kill_supervisor, kill_sandboxd, kill_orchestrator, kill_orchestrator, stop_orchestrator,
         cut_database, stop_front, cut_network]


# ---- what stays ----

def names_of(pids):
    """Names of processes in order, by which one that is too many is known; one that nobody has reaped is told by its Z."""
    names = []
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        names.append(f"[{name}] Z" if rest.split()[0] == "Z" else name)
    # Boxes that are begun ahead come and go, and not all of them may have been there at the beginning.
    return sorted(name for name in names if name != "sandbox-idle")


def idle_state(stage):
    """Processes and number of descriptors of each service that does nothing: {name: (names of processes, descriptors)}."""
    found = {}
    for member in stage.fleet.members:
        pids = member.pids()
        found[f"sandboxd-{member.number}"] = (names_of(pids), max(crisol.count_fds(pid) for pid in pids))
    for index, replica in enumerate(stage.replicas):
        pids = [replica.process.pid, *crisol.descendants(replica.process.pid)]
        found[f"orchestrator-{index}"] = (names_of(pids), crisol.count_fds(replica.process.pid))
    return found


def settle(stage):
    """Once no box is there any more."""
    def look():
        with contextlib.suppress(OSError, StopIteration):
            return not any(crisol.has_box(member.pids()) for member in stage.fleet.members) and idle_state(stage)
        return None
    return crisol.wait_for(look, 60, "every box is gone")


def growth(before, stage, seconds=30):
    """What each service has more than it had, and keeps for so long."""
    def look():
        after = settle(stage)
        more = [f"{name}: processes and descriptors {before[name]} -> {after[name]}" for name in before
                if len(after[name][0]) > len(before[name][0]) or after[name][1] > before[name][1] + FDS_TO_SPARE]
        if more:
            time.sleep(0.5)  # connections that nobody uses any more are still being closed
        problems[:] = more
        return not more
    problems = []
    with contextlib.suppress(AssertionError):
        crisol.wait_for(look, seconds, "nothing is more than before")
    return problems


def is_link(name):
    return os.path.exists(f"/sys/class/net/{name}")


def leftovers(stage, natives, seconds=30):
    """Of services that have ended, `natives` the backends of all: processes, control groups, mounts, links into networks."""
    problems = [f"process {one}" for member in stage.fleet.members for one in left_of(member)]
    problems += [f"process {pid}: {command}" for pid, (_, command) in crisol.processes().items() if stage.folder in command]
    # One that runs now has the number of one that is gone.
    problems += [f"control group {folder}" for folder in crisol.cgroup_folders(set(natives) - set(crisol.processes()))]
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        problems += [f"mount {line}" for line in file if stage.folder in line]
    links = [member.island.link for member in stage.fleet.members if member.island]
    with contextlib.suppress(AssertionError):  # the kernel ends a network some time after the last process in it
        crisol.wait_for(lambda: not any(is_link(link) for link in links), seconds, "the links are gone")
    return problems + [f"link {link} into a network" for link in links if is_link(link)]


def events_of(replica, run_id):
    """Also of a run that has just ended elsewhere: an orchestrator hears of it with its next look into the store."""
    crisol.wait_for(lambda: replica.knows(run_id), 30, "the run is known")
    return replica.events(run_id)


def torn_runs(read, run_ids):
    """Those whose journal has a gap, a step with two results, or not one end."""
    torn = []
    for run_id in run_ids:
        try:
            check_whole(read(run_id))
        except (AssertionError, LookupError, ValueError, OSError) as error:  # OSError: also that nobody knows the run any more
            torn.append(f"{run_id}: {error!r:.300}")
    return torn


def peak_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) >> 10


def run(stage, seconds, seed, natives):
    chance = random.Random(seed)
    before = settle(stage)
    load, executors, evils = Load(stage), Executors(stage, seed), collections.Counter()
    load.wait_for_runs(1)
    end, stuck = time.monotonic() + seconds, []
    while time.monotonic() < end and not load.failed and not executors.wrong and not stuck:
        natives.update(*(member.natives() for member in stage.fleet.members))
        evil = chance.choice(EVILS)
        try:
            evil(stage, chance)
        except AssertionError as error:  # what it was done to does not come back
            stuck.append(f"{evil.__name__}: {error!s:.1000}")
        evils[evil.__name__] += 1
        time.sleep(chance.uniform(*PAUSE_S))
    executors.finish()
    load.finish()
    return {
        "seconds": seconds, "seed": seed, "evils": dict(evils), "runs": len(load.ended), "lost": load.failed,
        "stuck": stuck,
        "torn": torn_runs(lambda run_id: events_of(stage.replicas[0], run_id), load.ended),
        "asked_again": load.retries, "programs": dict(executors.ends), "wrong": executors.wrong, "growth": growth(before, stage),
        "peak_mib": {f"orchestrator-{index}": peak_mib(replica.process.pid) for index, replica in enumerate(stage.replicas)},
    }


def figures(seconds, seed):
    first_uid, claimed = claim(CLAIMED_UIDS)
    postgres = Postgres()
    stage, natives = None, set()
    try:
        stage = Stage(postgres, first_uid=first_uid)
        found = run(stage, seconds, seed, natives)
        if any(found[name] for name in ("lost", "stuck", "torn", "wrong")):
            print(stage.logs(), *(member.log()[-3000:] for member in stage.fleet.members), sep="\n", file=sys.stderr)
            for run_id, _ in found["lost"]:
                print(f"the lost run {run_id}:", stage.account(run_id), sep="\n", file=sys.stderr, flush=True)
    finally:
        if stage:
            stage.close()
        postgres.close()
    found["left"] = leftovers(stage, natives)
    claimed.close()
    return found


def is_red(found):
    """Nothing but all is good enough; and who did nothing has shown nothing."""
    return any(found[name] for name in ("lost", "stuck", "torn", "wrong", "growth", "left")) or not found["runs"] or not found["evils"]


def main():
    if os.geteuid() != 0 or not folder_of_programs():
        print("skipped: it takes root and a PostgreSQL server (scripts/deps.sh test)")
        return SKIP
    seconds = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("CRISOL_SOAK_S", "120"))
    seed = sys.argv[2] if len(sys.argv) > 2 else str(int(time.time()))
    print(f"soak of {seconds:.0f} s, seed {seed}", flush=True)
    found = figures(seconds, seed)
    print(json.dumps(found, indent=1))
    return 1 if is_red(found) else 0


if __name__ == "__main__":
    sys.exit(main())
