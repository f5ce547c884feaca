# SPDX-License-Identifier: Apache-2.0
"""Runs the corpora of cheats and of honest solutions through the real services.

Each case is a text file: a few "# key: value" lines, then its files, each behind "# --- NAME", and the terms of
its task, when it has any, behind "# --- terms.json"; their cases count at level ORACLE only. Its answer is
played by gemini-replay; the tests run in real sandboxes. A cheat names the lowest level that catches it: it must
be refused there, for the cause that it names, and pass the level below, which so claims no more than it shows
("# below" names another one that is claimed then, since the level below does not apply). An
honest solution must pass at the highest level.

Usage: verify_test.py cheats|honest [NAME…]
"""
import concurrent.futures
import json
import os
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import services as crisol  # noqa: E402  (needs the path above)

LEVELS = ["OFF", "EVIDENCE", "CANARY", "STUBS", "MUTANTS", "ORACLE"]
RUNS_AT_ONCE = 6
ANSWERS_PER_SCRIPT = 60


class Case:
    def __init__(self, folder, name):
        self.name = name
        self.keys, self.files, self.terms = {}, [], {}
        with open(os.path.join(HERE, folder, name + ".txt"), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for line in lines:
            if line.startswith("# --- "):
                self.files.append((line[6:], []))
            elif self.files:
                self.files[-1][1].append(line)
            elif ": " in line:
                key, value = line[2:].split(": ", 1)
                self.keys[key] = value
        for part in [part for part in self.files if part[0] == "terms.json"]:
            self.files.remove(part)
            self.terms = json.loads("\n".join(part[1]))

    @property
    def highest(self):
        return "ORACLE" if "cases" in self.terms else "MUTANTS"

    @property
    def task(self):
        return f"corpus case <{self.name}>"

    def answer(self):
        return "\n\n".join("\n".join([f"````python path={name}", *lines, "````"]) for name, lines in self.files)


def load(folder, names):
    every = sorted(name[:-4] for name in os.listdir(os.path.join(HERE, folder)) if name.endswith(".txt"))
    return [Case(folder, name) for name in every if not names or name in names]


def write_scripts(cases, folder):
    """Scripts of as many answers as one may have; returns what names them all to gemini-replay."""
    answers = [{"match": ["You are the planner"], "text": "1. Tests. 2. Code."}]
    answers += [{"match": ["You are the generator", case.task], "text": case.answer()} for case in cases]
    paths = []
    for start in range(0, len(answers), ANSWERS_PER_SCRIPT):
        paths.append(os.path.join(folder, f"corpus{start}.json"))
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump({"task": f"corpus from {start}", "answers": answers[start:start + ANSWERS_PER_SCRIPT]}, file)
    return ",".join(paths)[:-len(".json")]


def run(services, case, level):
    """The result of one attempt at this level."""
    # More time than a run has by default, as the machine may be busy; but a mutant that never ends takes all of it.
    terms = {key: value for key, value in case.terms.items() if key != "cases" or level == "ORACLE"}
    body = json.dumps({"task": case.task, "max_iterations": 1, "verify": level, "terms": terms,
                       "sandbox_limits": {"wall_time_ms": 30000, "cpu_millicores": 1000}}).encode()
    request = urllib.request.Request(f"http://{services.http}/api/v1/generate", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def brief(result):
    return (f"{result['status']} cause={result['cause']} level={result['verification']['level']} "
            f"attempts={[(a['cause'], a['summary']) for a in result['attempts']]} {result['final_response'][:300]}")


def below(level):
    return LEVELS[LEVELS.index(level) - 1]


def check_cheat(services, case):
    caught = case.keys["caught"]
    if caught == "FORMAT":
        result = run(services, case, case.highest)
        if (result["status"], result["cause"], result["attempts"]) != ("FAILED", "MODEL_OUTPUT", []):
            yield f"a file of another name was not refused: {brief(result)}"
        return
    # Without evidence no check is made: the levels above it are the same run.
    for level in {caught} if caught == "EVIDENCE" else {caught, case.highest}:
        result = run(services, case, level)
        cause = result["attempts"][0]["cause"] if result["attempts"] else None
        if result["status"] != "FAILED" or cause != case.keys["cause"]:
            yield f"{level} did not refuse it for {case.keys['cause']}: {brief(result)}"
        if result["verification"]["level"] != "OFF":
            yield f"a level is claimed for a failure: {brief(result)}"
    if caught == "OFF":
        return  # the task's own checks count at every level
    result = run(services, case, below(caught))
    if result["status"] != "SUCCESS" or result["verification"]["level"] != case.keys.get("below", below(caught)):
        yield f"{below(caught)} catches it already: {brief(result)}"


def check_honest(services, case):
    result = run(services, case, case.highest)
    reaches = case.keys.get("reaches", case.highest)
    if result["status"] != "SUCCESS":
        yield f"an honest solution was refused: {brief(result)}"
    elif result["verification"]["level"] != reaches:
        yield f"reached another level than {reaches}: {brief(result)} {result['verification']['shows']}"


CORPORA = {"cheats": (check_cheat, 40), "honest": (check_honest, 60)}


def main(corpus, names):
    check, least = CORPORA[corpus]
    cases = load(corpus, names)
    begin = time.monotonic()
    problems = []
    with tempfile.TemporaryDirectory(prefix="crisol-verify-") as folder:
        script = write_scripts(cases, folder)
        with crisol.Services(script=script, sandboxd_flags=("--slots=6",)) as services, \
                concurrent.futures.ThreadPoolExecutor(RUNS_AT_ONCE) as pool:
            for case, found in zip(cases, pool.map(lambda case: list(check(services, case)), cases)):
                problems += [f"{case.name}: {problem}" for problem in found]
    for problem in problems:
        print(problem)
    levels = {}
    for case in cases:
        key = case.keys.get("caught", case.keys.get("reaches", case.highest))
        levels[key] = levels.get(key, 0) + 1
    print(f"{corpus}: {len(cases)} cases, {len(problems)} problems, "
          f"{', '.join(f'{level} {count}' for level, count in sorted(levels.items()))}, "
          f"{time.monotonic() - begin:.1f} s")
    if not names and len(cases) < least:
        print(f"{corpus}: fewer than {least} cases")
        return 1
    return 1 if problems or not cases else 0


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("starting sandboxd needs root")
        sys.exit(77)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
