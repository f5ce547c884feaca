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
* On control groups v1 a box attaches itself to four hierarchies, which waits for an RCU grace period of the kernel when nobody did so lately: some
  milliseconds, for a box that is made for its run and when runs are sparse. Boxes that wait have done so ahead. On v2 boxes are cloned into their group
  and nobody waits.
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

What was thought of and left out: to use control groups again (0.6 ms; the peaks of processes cannot be reset, and pages charged to a group stay with it); a lower share for
runs that take long (attacks would hold up short runs less, and so would honest work be held up by short runs); real-time priority for the backend (a program that makes it work would then
keep the machine busy).

The physical floor: exec and end of `true`, 0.7 ms bare; of that 0.28 ms are some thirty CPUID instructions of the libc's start, each of which a virtual machine hands to its host. A
static sandbox-init pays for as many once more, ahead of the request when a box waits and in it when not. To that come seven wake-ups of about 0.05 to 0.1 ms on an idle virtual processor.
"""


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
                    f"{value['pytest_isolation_cost_sparse']:+.2g} ms against it (the sandbox was made ahead, and its pages with it; its "
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
                       quiet="a quiet one" if is_quiet else "other work ran on it at the same time, so that medians and tails are those of a "
                       "contended machine; the bars are meant for a quiet one and are not decided by them",
                       sentences=sentences(rows))
    text += "\n" + table(rows) + "\n"
    text += f"\n{sum(row['pass'] is True for row in rows)} bars reached, {len(short)} short" + (
        ": " + ", ".join(f"`{name}`" for name in short) + ".\n" if short else ".\n")
    text += "\n## Spread\n\n" + spread(data) + "\n"
    text += HOW.format(samples=data["samples"]) + STAGES
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
