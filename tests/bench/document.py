#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/performance.md from build/bench/summary.json, which `make bench` (tests/bench/run.sh) has made.

Usage: document.py [SUMMARY [DOCUMENT]]
"""
import json
import os
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HEAD = """# Performance

Measured by `{command}` on {date}: {cpu}, {cores} vCPU, {memory_mib} MiB, Linux {kernel}, control groups v{cgroup_version}. Load average
{load_before} before and {load_after} after it: {quiet}.
This page is made of `build/bench/summary.json` by `tests/bench/document.py`; the
numbers below are those of that run and of no other.

{sentences}
"""

HOW = """
## How it is measured

* One program per question (`tests/bench/*_bench.c`) drives `Execute` over the unix socket with our own C client: the time of a run goes from the request
  to its result at the client, gRPC, the connection guard, admission and the verdict included. Times of peers go from before their start until they were
  reaped and their output was read.
* Peers take turns with the sandbox in one process run, so both have the same neighbours. {samples} samples each, after a warm-up of 20; where a sample takes
  long there are fewer, and the table of spread says how many.
* Verdict, exit code and output (of pytest the count of tests) of every sample are asserted, those of the peers too; one that is wrong ends the benchmark. So
  does a series in which fewer than nine of ten programs came to be as its name says (executed, forked from a template, forked inside the collection).
* `cpu_per_run` is the CPU time of a whole sandboxd and all that it has started, divided by the runs: supervisor, front, backend, templates, boxes, refill and
  teardown, until nothing goes on any more. On control groups v1 the kernel adds it up (cpuacct).
* The fork server (`tests/bench/fork_server.py`) warms up by the code of sandboxd's template and forks inside the collection, too, with no isolation at all.
* *Sparse* is one request each 50 ms, *b2b* the next when the last has answered; a *warm* docker row sends the next when the pool is full again, which takes a
  container a good part of a second. *warm* is a service as it is by default; *cold* one with `--pool=0
  --preload=off`, which makes each box for its run. Rows with `_default` have the default limit of half a core; the other pytest, python, throughput and
  stream rows have one core.
* Rows of `docker` are of one private engine: `docker run --rm` with the limits of a sandbox, `docker exec` into a container that is there already, and our
  docker backend; `pool` says whether its containers had been made ahead.
* Rows of `agent` are of one orchestrator without a journal: a scripted model in a process of its own answers each request after 5 to 30 s (which of these
  depends on the request alone), and a double of sandboxd after 5 ms; `agent_real` rows and the end-to-end rows have the real sandboxd; the latter are one run at a time, half
  a second after the one before it or (`b2b`) at once. Every run is followed
  from its first event to its end; `agent_cpu_per_run` has that in it, 500 watchers of one run, and a health check twenty times a second. LangGraph runs the same
  graph with the same calls to the same two (`tests/bench/langgraph_app.js`), a thousand at one time.
* On control groups v1 a box enters five hierarchies as a single thread, by their files `tasks`: since Linux 5.5 that waits for nobody. On older kernels it waits for an RCU grace period
  when nobody did so lately: some milliseconds, for a box that is made for its run and when runs are sparse. On v2 boxes are cloned into their group.
"""

STAGES = """
## Where the time of a warm `true` goes

On the way of a request: connection guard and gRPC → admission, pipes, sealed payload (front) → wire, checks, resource limits, LOAD_GO (native) → sandbox-init → files in
place, filter and exec (the process that becomes the program) → the program → reaping (sandbox-init) → counters, RESULT (native) → the rest of the pipes (front) → gRPC.
Each arrow between processes is a wake-up, and on a busy machine a turn of the scheduler. *Not* in there: clone and namespaces, four attaches, mounts, user namespace,
exec of sandbox-init, its forks, dropping of capabilities, the CPU share, the first reading of the counters, the end of the box.

CPU time and system calls of one run, everything included that is done ahead or afterwards (`perf record -F 8000` of all processes of a sandboxd with `--preload=off`, and
`strace -c`, 220 sparse runs; what the kernel does later in threads of its own is not in it). *Before* is commit 27e7cd4 of the same hour: the machine was shared with builds at a load of
20, so the columns are to be compared with each other, by way of the program's own row, and not with the medians above.

| process | before | now | what it is now |
|---|---|---|---|
| sandboxd-front | 1285 us | 883 us | HTTP/2 and protobuf in user space 60 %, epoll and wake-ups 15 %, pipes and the memfd of the payload |
| sandboxd-native, with the children that it clones | 2739 us, 219 calls | 1882 us, 160 calls | opening control files 305, clone3 261, exec of sandbox-init 181, mounts 130, reading and writing limits and counters 100 |
| crisol-keeper | 1434 us, 25 calls | 533 us, 15 calls | mkdir and rmdir of four control groups 420 |
| sandbox-init, and what becomes the program | 1593 us, 518 calls | 1364 us, 315 calls | start of a static binary 280 (CPUID), page faults 170, filter 100, two forks 70, 41 capabilities 45 |
| `true` itself | 726 us | 674 us | start of a dynamic binary 283 (CPUID), page faults 137, exec 91 |
| all | 7.8 ms, 763 calls | 5.4 ms, 490 calls | |

What was done, each seen in the table or in the least time of a run (2.2 ms before, 1.3 ms after, same machine and load): no collector is forked when nothing is collected; GO goes along with
LOAD (four wake-ups less); the answer waits neither for the end of the box, in which nobody is left, nor for the front's word that the pipes are empty (three less); counters stay
open and are read once; networks without a socket are used again; boxes without a slot of the pool find their first half done, the attaches of control groups v1 included (sparse
cold runs: 15 ms before, 4.5 ms after, at that load); threads that pass things on ask for short time slices.

Since that table: control groups (v1) in which a box left nothing are used again with their files open, so that such a run costs no mkdir, rmdir and some twenty opens; folders of the
workspace are cloned from the detached mount (Linux 6.15); kill(-1), which looks at every process of the machine, is left out when there is no child; the front keeps the texts of the last policy;
a box that has had 20 ms of CPU time falls behind those that have had less; the filter is loaded ahead, and between LOAD_GO and the end nobody
is told anything (three wake-ups less); the front wakes the call of a short program once; boxes are forked from one sandbox-init that was executed once: no exec, no start of a static binary with its CPUID, no 64 calls of
sigaction.

What was thought of and left out: real-time priority for the backend (a program that makes it work would then
keep the machine busy).
"""

SHORT = """
## Bars that this run did not reach

For each: where the time (or the memory) goes, what was tried, and the least that the kernel and gRPC ask for, measured in the same run: `tests/bench/floor_bench.c` makes boxes by bare
calls in a small process that does nothing else, `call_bench.c` calls what runs nothing. Stages are medians, those of the service by its own account (`timing` of a result); medians do not add up
exactly, what is missing or too much is in the last line before the sum.
"""

NO_TABLE = "\nOf {names} there is no table of stages here; the rows and the table of spread have what was measured.\n"

WARM_TRIED = """Tried, and in: GO along with LOAD, the answer before the end of the box, networks and control groups used again, counters that stay open, the filter ahead of the request, short time slices
for threads that pass things on, texts of the policy kept, one wake-up of the call instead of three. Tried, and out: real-time priority (a program could keep the machine busy with it). Left: a run
passes four processes (front, backend, sandbox-init, program), which is what keeps privilege, arbiter and gRPC apart; fewer of them would be faster, and is not wanted."""

COLD_TRIED = """Tried, and in: control groups and networks made ahead by the keeper, the first half of boxes begun ahead (the attaches of control groups v1 with it), workspaces dropped behind the answer, folders cloned
from the detached mount, no collector where nothing is collected. Tried, and no gain: the new calls for mounts against the old ones, one mount less. Left: everything that a box is, in one line behind the
request, and the words between backend, sandbox-init and front that a supervised run has and the bare calls have not."""

RATE_TRIED = """Tried, and in: all of the above, each of which took CPU time off a run, and no making and removing of control groups and networks for runs that left nothing in them. The processors are busy at this
rate, so only less work for each run raises it; waiting is not what limits it."""

NEIGHBOURS_TRIED = """Tried, and in: the backend in front of programs and boxes behind it (nice), the share of one box bounded by its control group, a sixteenth of the weight for a box that has had 20 ms of CPU time, and
boxes that enter their groups (v1) by `tasks`: by `cgroup.procs` each waited for all that forked or ended at that moment, and everybody else on the machine for it (p99 of 240 to 370 ms before, 35 to 70 after). Tried, and
out: real-time priority (see above). The bare program beside the same attack shows what the scheduler of the kernel gives to anybody who is not a sandbox at all."""

DOCKER_TRIED = """Tried, and in: containers that wait, stdin hijacked ahead, no call to the engine between request and answer, limits written to the control groups instead of through the engine, the answer before the
container's end, removal off the path. What is left beside the native backend's time is the relay that holds the hijacked connection and takes its frames apart."""

PYTEST_TRIED = """Tried, and in: start, plug-ins and the set-up of a collection done ahead, the pages that a child will write copied ahead (found by /proc/self/pagemap), objects frozen for the garbage collector, boxes forked
ahead of the request. The ratios are to a start from scratch and to `docker run`, which are quick on a quick machine: what is left is the test's own run in a forked interpreter, which isolation does not touch."""

SHALLOW_TRIED = """Tried, and in: a box that waits right before pytest.main, which reads the arguments of a request. What pytest does from there on, plug-ins and the set-up of the collection among it, depends
on the arguments, so it cannot be done ahead."""

CPU_LIMIT_TRIED = """Tried, and in: the counter is read when the limit can be used up at the earliest, and then at the next such moment; the backend stands in front of all programs (nice). Beside programs that keep all processors
busy it waits for one as everybody does, and the program goes on meanwhile on the other: the error is what it had until then. Nothing of it is charged wrongly: the result tells the time that was used."""

LRU_TRIED = """Tried, and in: the runs of the stubs side by side, programs and packages kept by the service, one connection to sandboxd, one write for the events of a step, a box that waits for each of the three checks, boxes made ahead in a lull and not beside the attempts and checks of a task, no test behind the first one
that notices an emptied function, no wake-up of who waits for the result before it is there. Tried, and out: the canary together with a stub
(a runner that was patched would pass), the canary ahead of the verdict (a run more for each attempt that fails)."""

SLOT_TRIED = """Tried, and in: a static sandbox-init as the only process of a container that waits, no log driver, no network, a relay only for containers that run. The engine's shim is a program of its own for each container, and
the largest part; `--docker-runtime` can name another one."""


class Facts:
    """What the run has measured, found by what it is."""

    def __init__(self, data):
        self.value = {row["id"]: row["value"] for row in data["rows"]}
        self.cores = data["machine"]["cores"]
        self.runs = data["series"]

    def find(self, bench, has=lambda run: True):
        return next((run for run in self.runs if run["bench"] == bench and has(run)), None)

    def latency(self, shape, is_warm):
        """Of `true`, by a service whose sandboxes wait, or not."""
        return self.find("latency", lambda run: (run["question"], run["shape"]) == ("true", shape) and "stages" in run
                         and (run["series"]["sandbox"]["pool_hits"] > 0) == is_warm)

    def median_ms(self, bench, name, has=lambda run: True):
        run = self.find(bench, lambda run: name in run.get("series", {}) and has(run))
        return run["series"][name]["p50_us"] / 1000 if run else None


def known(*values):
    return all(value is not None for value in values)


def lines_of(unit, lines, total=None):
    """Stages as a table; with a total, what is missing to it comes before it."""
    if total is not None:
        lines = [*lines, ("the rest: the front's own work, what the medians leave out", total - sum(value for _, value in lines if value)),
                 ("**all**", total)]
    return "\n".join([f"| stage | {unit} |", "|---|---|",
                      *(f"| {name} | {'–' if value is None else format(value, '.3g')} |" for name, value in lines)])


def run_stages(facts, run, shape):
    """The way of a request, as far as the service and the call that runs nothing tell it."""
    def of(name):
        return run["stages"][name]["p50_us"] / 1000
    call = facts.value.get("floor_call_sparse_p50" if shape == "sparse" else "floor_call_b2b_p50")
    return lines_of("ms", [("gRPC, its guard, there and back (a call that runs nothing)", call), ("queue", of("queue")),
                           ("prepare: make or hand out the sandbox, limits, files", of("prepare")),
                           ("run: wake sandbox-init and program, exec, the program, its end", of("run")),
                           ("until everything in it is dead", of("kill"))], run["series"]["sandbox"]["p50_us"] / 1000)


def warm_part(facts):
    text = []
    for shape, key in (("sparse", "sparse"), ("back-to-back", "b2b")):
        run = facts.latency(shape, True)
        if not run:
            continue
        call = facts.value.get(f"floor_call_{key}_p50")
        bare = facts.median_ms("latency", "bare", lambda run, shape=shape: (run["question"], run["shape"]) == ("true", shape))
        wake = facts.median_ms("floor", "wake-up, sparse" if shape == "sparse" else "wake-up")
        text.append(f"{shape.capitalize()}:\n\n" + run_stages(facts, run, shape))
        if known(call, bare, wake):
            text.append(f"The floor, {shape}: a call that runs nothing {call:.3g} ms, exec and end of `true` {bare:.3g} ms, and the way to two more processes "
                        f"and back, four wake-ups of {wake:.2g} ms: together {call + bare + 4 * wake:.3g} ms.")
    return "\n\n".join(text)


def cold_part(facts):
    run, floor = facts.latency("back-to-back", False), facts.find("floor")
    text = [run_stages(facts, run, "back-to-back")] if run else []
    if floor:
        steps = [(name, one) for name, one in floor["series"].items() if name.startswith("+") or name == "fork and exec"]
        text.append("\n".join(["The floor, back-to-back: the same box by bare calls, each line with all above it.\n", "| steps | least, ms | median, ms |",
                               "|---|---|---|", *(f"| {name} | {one['min_us'] / 1000:.3g} | {one['p50_us'] / 1000:.3g} |" for name, one in steps)]))
        call = facts.value.get("floor_call_b2b_p50")
        if call is not None:
            whole = steps[-1][1]["p50_us"] / 1000 + call
            text.append(f"With a call that runs nothing ({call:.3g} ms) that is {whole:.3g} ms, before anybody has supervised, counted or told anything.")
    return "\n\n".join(text)


def rate_part(facts):
    value = facts.value.get
    text = lines_of("ms of CPU time", [("a run of ours, everything that is done ahead and afterwards included", value("true_warm_cpu_per_run")),
                                       ("of it a box by bare calls, with its program", value("floor_box_cpu_per_run")),
                                       ("of that fork, exec and end of `true`", value("floor_exec_cpu_per_run")),
                                       ("what 600 a second leave for each", facts.cores * 1000 / 600)])
    if known(value("floor_box_per_second"), value("floor_exec_per_second")):
        text += (f"\n\nThe floor: bare boxes come to {value('floor_box_per_second'):.0f} a second on these processors, and the program without any to "
                 f"{value('floor_exec_per_second'):.0f}; neither has a client, which shares the processors here.")
    return text


def neighbours_part(facts):
    run = facts.find("neighbours", lambda run: "bare attacked" in run["series"])
    if not run:
        return ""
    lines = ["| | quiet p50 | p99 | attacked p50 | p99 | p99 to quiet |", "|---|---|---|---|---|---|"]
    for name, quiet, attacked in (("`true` in a sandbox", "quiet", "attacked"), ("the floor: bare `true`", "bare quiet", "bare attacked")):
        one, other = run["series"][quiet], run["series"][attacked]
        lines.append(f"| {name} | " + " | ".join(f"{series[key] / 1000:.3g} ms" for series in (one, other) for key in ("p50_us", "p99_us"))
                     + f" | {other['p99_us'] / one['p99_us']:.3g} × |")
    return "\n".join(lines)


def docker_part(facts):
    value, run = facts.value.get, facts.latency("rested", True)
    text = [run_stages(facts, run, "sparse")] if run else []
    if known(value("true_docker_run_p50"), value("true_warm_sparse_p50"), value("true_docker_exec_p50")):
        text.append(f"The bar asks for {value('true_docker_run_p50') / 90:.3g} ms here. The floor: the native backend, which has neither relay nor container, takes "
                    f"{value('true_warm_sparse_p50'):.3g} ms when sparse; `docker exec` into a container that is there takes {value('true_docker_exec_p50'):.3g} ms.")
    return "\n\n".join(text)


def slot_part(facts):
    value = facts.value.get
    shim, box = value("docker_slot_shim_memory"), value("docker_slot_box_memory")
    if not known(shim, box, value("docker_slot_memory")):
        return ""
    return lines_of("MiB", [("the engine's shim (its share, PSS)", shim), ("what is in the container (PSS)", box),
                            ("the rest: kernel, engine, our backend", value("docker_slot_memory") - shim - box),
                            ("**all**", value("docker_slot_memory"))]) + (
        f"\n\nThe floor: {shim:.3g} MiB are the engine's, whatever is in the container.")


def native_to_docker_part(facts):
    value = facts.value.get
    if not known(value("true_docker_run_p50"), value("true_native_to_docker_run")):
        return ""
    return (f"`docker run` takes {value('true_docker_run_p50'):.4g} ms here, so the bar asks for {value('true_docker_run_p50') / 100:.3g} ms; "
            f"the sandbox took {value('true_native_to_docker_run'):.3g} ms between runs of it. Its stages and their floor, when nothing else runs:\n\n" + warm_part(facts))


def pytest_part(facts):
    value = facts.value.get
    run = facts.find("latency", lambda run: (run["question"], run["shape"]) == ("pytest", "sparse") and "fork server" in run["series"])
    if not run:
        return ""
    text = run_stages(facts, run, "sparse")
    bare, true_run = value("pytest_bare_sparse_p50"), facts.latency("sparse", True)
    if known(bare, value("pytest_fork_server_sparse_p50"), true_run):
        inside = (run["stages"]["run"]["p50_us"] - true_run["stages"]["run"]["p50_us"]) / 1000
        text += (f"\n\nA twenty-fifth of the start from scratch is {bare / 25:.3g} ms here. The floor: a fork server without any isolation, as warm, takes "
                 f"{value('pytest_fork_server_sparse_p50'):.3g} ms, forked on demand; `true` on the same way, with nothing of Python in it, takes "
                 f"{value('true_warm_sparse_p50'):.3g} ms. Of the stage *run* {inside:.3g} ms are the forked interpreter's: collecting the file, running it, reporting, its end.")
    return text


def shallow_part(facts):
    value = facts.value.get
    run = facts.find("latency", lambda run: run["question"] == "pytest-arguments")
    text = run_stages(facts, run, "sparse") if run else ""
    if known(value("floor_box_sparse_p50"), value("floor_box_p50")):
        text += (f"\n\nThe floor of *prepare*: a bare box, sparse, takes {value('floor_box_sparse_p50'):.3g} ms on this host, of which all but {value('floor_box_p50'):.2g} ms (back-to-back) "
                 "is waiting.")
    return text


def cpu_limit_part(facts):
    lines = ["| killed after the limit was used up, by the counter | median | p99 |", "|---|---|---|"]
    for run in facts.runs:
        if run["bench"] == "limits":
            one = run["series"]["cpu_from_limit"]
            lines.append(f"| {'quiet' if run['load'] == 0 else str(run['load']) + ' programs that only compute beside it'} | {one['p50_us'] / 1000:.3g} ms | {one['p99_us'] / 1000:.3g} ms |")
    return "\n".join(lines)


def lru_part(facts):
    value = facts.value.get
    one, cpu, whole = value("pytest_deep_b2b_p50"), value("pytest_deep_cpu_per_run"), value("agent_lru_end_to_end_p50")
    if not known(one, cpu, whole):
        return ""
    side_by_side = 3 * cpu / facts.cores
    return lines_of("ms", [("two attempts, one after the other: a sandbox run of one small test file each", 2 * one),
                           (f"canary and two stubs, side by side on {facts.cores} processors: the CPU time of three such runs, refill included", side_by_side),
                           ("the rest: eight tests in place of one, tracebacks of those that fail, answers of the model over HTTP, reading and stubbing the code, events",
                            whole - 2 * one - side_by_side),
                           ("**all**", whole)]) + (
        f"\n\nThe floor is the first two lines, {2 * one + side_by_side:.3g} ms: the second attempt needs the first one's failure, and the three checks keep all processors busy.")


# Bars, what they are about, and what is to be said of them when they are not reached.
PARTS = (
    (("true_warm_sparse_p50", "true_warm_b2b_p50", "true_warm_b2b_p99", "true_warm_sparse_p99"), "`true`, warm", warm_part, WARM_TRIED),
    (("true_cold_b2b_p50", "true_cold_sparse_p50", "true_bwrap_to_cold"), "`true`, cold", cold_part, COLD_TRIED),
    (("true_per_second_8_callers",), "`true` each second", rate_part, RATE_TRIED),
    (("true_p99_hostile_neighbours",), "Hostile neighbours", neighbours_part, NEIGHBOURS_TRIED),
    (("true_docker_warm_p50",), "`true` by docker, warm", docker_part, DOCKER_TRIED),
    (("docker_slot_memory",), "A plain slot of docker", slot_part, SLOT_TRIED),
    (("true_native_to_docker_run",), "`true` against `docker run`", native_to_docker_part, WARM_TRIED),
    (("pytest_deep_sparse_p50", "pytest_deep_b2b_p50", "pytest_native_to_docker_run"), "One pytest file", pytest_part, PYTEST_TRIED),
    (("pytest_shallow_p50",), "pytest with arguments of its own", shallow_part, SHALLOW_TRIED),
    (("cpu_limit_error_quiet_p99", "cpu_limit_error_loaded_p99"), "The CPU limit", cpu_limit_part, CPU_LIMIT_TRIED),
    (("agent_lru_end_to_end_p50",), "A task from end to end", lru_part, LRU_TRIED),
)


def shorts(data, short):
    """A part for each bar that was not reached; nothing where all were."""
    facts, text, left = Facts(data), "", list(short)
    for names, title, part, tried in PARTS:
        here = [name for name in names if name in short]
        left = [name for name in left if name not in here]
        if here:
            text += f"\n### {title}: {', '.join(f'`{name}`' for name in here)}\n\n{part(facts)}\n\n{tried}\n"
    if left:
        text += NO_TABLE.format(names=", ".join(f"`{name}`" for name in left))
    return SHORT + text if text else ""


def bar_of(row):
    return row["bar"] or "–"


def table(rows):
    lines = ["| what | measured | bar | | compared | |", "|---|---|---|---|---|---|"]
    for row in rows:
        verdict = {True: "PASS", False: "short", None: "–"}[row["pass"]]
        against = f"{row['ratio']:g} × {row['peer']}" if row["ratio"] is not None else "–"
        value = "–" if row["value"] is None else f"{row['value']:g} {row['unit']}"
        note = (row.get("note") or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{row['id']}` | {value} | {bar_of(row)} | {verdict} | {against} | {note} |")
    return "\n".join(lines)


def spread(data):
    """Least, median and 99th percentile of each series: on a busy machine the least is what a quiet moment gave."""
    lines = ["| series | samples | least | median | p99 |", "|---|---|---|---|---|"]
    for run in data["series"]:
        about = " ".join(str(run[key]) for key in ("bench", "question", "shape", "callers", "load") if key in run)
        for name, one in run.get("series", {}).items():
            if run["bench"] == "latency" and name == "sandbox":
                name += " (warm)" if one["pool_hits"] else " (cold)"
            values = " | ".join(f"{one[key] / 1000:.3g} ms" for key in ("min_us", "p50_us", "p99_us"))
            lines.append(f"| {about}: {name} | {one['count']} | {values} |")
    return "\n".join(lines)


def sentences(rows):
    """What an expert would say, from the numbers of this run."""
    value = {row["id"]: row["value"] for row in rows if row["value"] is not None}
    ratio = {row["id"]: row["ratio"] for row in rows}
    said = []
    if "true_warm_sparse_p50" in value:
        said.append(f"A warm sandbox returns the result of `true` in {value['true_warm_sparse_p50']:.2g} ms when requests are sparse and "
                    f"{value['true_warm_b2b_p50']:.2g} ms back-to-back (medians, RPC included); a bare exec of it took "
                    f"{value['true_warm_sparse_p50'] / ratio['true_warm_sparse_p50']:.2g} ms in the same run.")
    if "pytest_deep_sparse_p50" in value:
        said.append(f"One pytest file returns in {value['pytest_deep_sparse_p50']:.3g} ms; starting pytest from scratch takes "
                    f"{value['pytest_bare_sparse_p50']:.3g} ms, because its start-up was done ahead. That gain comes from the work done "
                    f"ahead and not from the sandbox: an equally warm fork server without any isolation takes "
                    f"{value['pytest_fork_server_sparse_p50']:.3g} ms, forked on demand, so isolation costs "
                    f"{value['pytest_isolation_cost_sparse']:+.2g} ms against it (below zero where making sandbox and pages ahead saves more than isolation takes; its "
                    f"price is CPU time, {value['pytest_deep_cpu_per_run']:.3g} ms for each run of all our processes).")
    else:
        said.append("The rows of pytest were not reached in this run.")
    if "pytest_of_10000_ms_p50" in value:
        said.append(f"Tests that compute for long gain nothing: of 100 ms {ratio['pytest_of_100_ms_p50']:.2g} ×, of ten seconds "
                    f"{ratio['pytest_of_10000_ms_p50']:.2g} ×.")
    if "true_docker_run_p50" not in value:
        said.append("Not measured here: the docker backend, `docker run` and `docker exec`.")
    if "agent_cpu_per_run" in value:
        said.append(f"The orchestrator had {value['agent_peak_in_flight']:.0f} runs in flight in {value['agent_pss_most']:.0f} MiB, for "
                    f"{value['agent_cpu_per_run']:.2g} ms of CPU time each.")
    return "\n".join(said)


def main(summary=os.path.join(SOURCE, "build", "bench", "summary.json"),
         target=os.path.join(SOURCE, "docs", "performance.md")):
    with open(summary, encoding="utf-8") as file:
        data = json.load(file)
    data["machine"]["kernel"] = data["machine"]["kernel"].split("-")[0]
    rows = data["rows"]
    short = [row["id"] for row in rows if row["pass"] is False]
    # What it is afterwards is mostly the benchmarks' own work.
    is_quiet = data["load_before"] <= data["machine"]["cores"]
    text = HEAD.format(**data["machine"], **{name: data[name] for name in ("command", "date", "load_before", "load_after")},
                       quiet="a quiet one" if is_quiet else "there was work for more than its processors just before it (a build, or others), so "
                       "that early rows may be those of a contended machine; the bars are meant for a quiet one",
                       sentences=sentences(rows))
    text += "\n" + table(rows) + "\n"
    text += f"\n{sum(row['pass'] is True for row in rows)} bars reached, {len(short)} short" + (
        ": " + ", ".join(f"`{name}`" for name in short) + ".\n" if short else ".\n")
    text += shorts(data, short)
    text += "\n## Spread\n\n" + spread(data) + "\n"
    text += HOW.format(samples=data["samples"]) + STAGES
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
