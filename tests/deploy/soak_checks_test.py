#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What the soak looks for, put there on purpose: lost runs, torn journals, wrong verdicts, descriptors, processes, control
groups, mounts, networks. Each makes it red, and without them it is green. No service is started.
"""
import contextlib
import http.client
import io
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import lab
import soak
import stage as stages
from soak import crisol

UID = 0x7B000000  # of no other test
NATIVE = 4200000  # no pid: more than any kernel gives out
WHOLE = [(1, "run_started", "{}"), (2, "node_started", "{}"), (3, "model_call", "{}"), (4, "files_ready", "{}"),
         (5, "node_started", "{}"), (6, "sandbox_result", "{}"), (7, "result", json.dumps({"status": "SUCCESS", "final_response": ""}))]
# Does what it is told to, in place of a service: opens descriptors, starts a process.
SERVANT = """
import os, subprocess, sys, tempfile
folder = tempfile.TemporaryDirectory(prefix="crisol-soak-checks-")
programs = {"child": "/usr/bin/sleep", "idle": os.path.join(folder.name, "sandbox-idle")}  # a process has its program's name
os.symlink(programs["child"], programs["idle"])
def start(program):
    return subprocess.Popen(["sleep", "600"], executable=program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
kept = []
for line in sys.stdin:
    word = line.strip()
    kept.append(start(programs[word]) if word in programs else [os.open("/dev/null", os.O_RDONLY) for _ in range(int(word))])
    print("done", flush=True)
for one in kept:
    if isinstance(one, subprocess.Popen):
        one.kill()
"""


class Servant:
    def __init__(self):
        self.popen = subprocess.Popen([sys.executable, "-c", SERVANT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.popen.pid
        self.tell("0")

    def tell(self, word):
        self.popen.stdin.write(word + "\n")
        self.popen.stdin.flush()
        assert self.popen.stdout.readline() == "done\n"

    def close(self):
        self.popen.stdin.close()
        self.popen.wait(30)
        self.popen.stdout.close()


def replica_of(statuses=("SUCCESS",), answer=None, pid=0):
    """An orchestrator that says so of runs, one status after the other, and so of programs."""
    left = list(statuses)

    @contextlib.contextmanager
    def ask(_method, _path, body):
        yield io.BytesIO(answer(body))
    return types.SimpleNamespace(submit=lambda _: "run-1", status=lambda _: left.pop(0) if len(left) > 1 else left[0], ask=ask,
                                 process=types.SimpleNamespace(pid=pid))


def verdict(code):
    return json.dumps({"result": {"verdict": {"code": f"VERDICT_CODE_{code}"}}}).encode()


def right_verdict(body):
    return verdict(next(wanted for runtime, code, _, wanted in soak.PROGRAMS if (runtime, code) == (body["runtime"], body["code"])))


class Runs(unittest.TestCase):
    def load(self, *statuses):
        """Runs that came to an end, and those that were lost."""
        fake = types.SimpleNamespace(replicas=[replica_of(statuses)])
        with mock.patch.object(stages, "RUN_S", 1), mock.patch.object(stages, "WORKERS", 1):
            load = stages.Load(fake)
            crisol.wait_for(lambda: load.ended or load.failed, 30, "a run ends")
            load.finish()
        return load

    def test_runs_that_end_well_are_not_lost(self):
        load = self.load("PLANNING", "SUCCESS")
        self.assertTrue(load.ended)
        self.assertEqual(load.failed, [])

    def test_a_run_that_fails_is_lost(self):
        self.assertEqual(self.load("PLANNING", "FAILED").failed[0], ("run-1", "FAILED"))

    def test_a_run_that_never_ends_is_lost(self):
        self.assertEqual(self.load("PLANNING").failed[0], ("run-1", "still PLANNING"))

    def test_a_run_that_nobody_knows_any_more_is_lost(self):
        self.assertIn("still None", self.load(None).failed[0])

    def test_an_answer_that_was_cut_off_is_asked_for_again(self):
        def cut_once(_, left=[1]):  # pylint: disable=dangerous-default-value
            if left:
                left.pop()
                raise http.client.IncompleteRead(b"{")
            return "SUCCESS"
        replica = replica_of()
        replica.status = cut_once
        with mock.patch.object(stages, "WORKERS", 1):
            load = stages.Load(types.SimpleNamespace(replicas=[replica]))
            crisol.wait_for(lambda: load.ended or load.failed, 30, "a run ends")
            load.finish()
        self.assertEqual((load.failed, load.retries), ([], 1))

    def test_a_run_that_an_orchestrator_hears_of_later_is_not_torn(self):
        looks = [False, False, True]
        replica = types.SimpleNamespace(knows=lambda _: looks.pop(0), events=lambda _: WHOLE)
        self.assertEqual(soak.torn_runs(lambda run_id: soak.events_of(replica, run_id), ["a"]), [])

    def test_a_whole_journal_is_not_torn(self):
        self.assertEqual(soak.torn_runs(lambda _: WHOLE, ["a", "b"]), [])

    def test_every_kind_of_torn_journal_is_seen(self):
        def numbered(names):
            data = {name: text for _, name, text in WHOLE}
            return [(seq, name, data[name]) for seq, name in enumerate(names, 1)]
        names = [name for _, name, _ in WHOLE]
        failed = [*WHOLE[:-1], (7, "result", json.dumps({"status": "FAILED", "final_response": ""}))]
        for what, events in {
                "a step with two results": numbered([*names[:-1], "sandbox_result", "result"]),
                "two answers in one visit": numbered([*names[:3], "model_call", *names[3:]]),
                "two ends": numbered([*names, "result"]),
                "something behind the end": numbered([*names, "node_started"]),
                "a gap": [*WHOLE[:2], *WHOLE[3:]],
                "an event twice": [*WHOLE[:3], WHOLE[2], *WHOLE[3:]],
                "no end": WHOLE[:-1], "nothing": [], "another end": failed}.items():
            with self.subTest(what=what):
                torn = soak.torn_runs({"good": WHOLE, "bad": events}.get, ["good", "bad"])
                self.assertEqual([line.split(":")[0] for line in torn], ["bad"])


class Verdicts(unittest.TestCase):
    def executed(self, answer):
        fake = types.SimpleNamespace(replicas=[replica_of(answer=answer)])
        executors = soak.Executors(fake, "seed")
        crisol.wait_for(lambda: sum(executors.ends.values()) >= 30, 30, "programs were executed")
        executors.finish()
        return executors

    def test_right_verdicts_are_right(self):
        self.assertEqual(self.executed(right_verdict).wrong, [])

    def test_a_wrong_verdict_is_seen(self):
        self.assertIn("OK, not MEMORY_LIMIT", self.executed(lambda _: verdict("OK")).wrong)

    def told(self, answer):
        """What such answers count as."""
        executors = soak.Executors(types.SimpleNamespace(replicas=[replica_of(answer=answer)]), "seed")
        crisol.wait_for(lambda: executors.ends, 30, "a program was executed")
        executors.finish()
        self.assertEqual(executors.wrong, [])
        return set(executors.ends)

    def test_a_sandbox_that_was_lost_is_told_and_not_wrong(self):
        for code in ("SANDBOX_LOST", "SANDBOX_ERROR"):
            self.assertEqual(self.told(lambda _, code=code: verdict(code)), {code})

    def test_an_answer_that_was_cut_off_is_none(self):
        def cut(_):
            raise http.client.IncompleteRead(b"{")
        self.assertEqual(self.told(cut), {"no answer"})

    def test_an_answer_without_a_verdict_is_wrong(self):
        self.assertIn("cannot be read", self.executed(lambda _: b"{}").wrong[0])


class Growth(unittest.TestCase):
    def grown(self, *words):
        """What one service has more after it was told to."""
        servant, quiet = Servant(), Servant()
        try:
            member = types.SimpleNamespace(number=0, pids=lambda: [servant.pid, *crisol.descendants(servant.pid)])
            fake = types.SimpleNamespace(fleet=types.SimpleNamespace(members=[member]), replicas=[replica_of(pid=quiet.pid)])
            before = soak.settle(fake)
            for word in words:
                servant.tell(word)
            return soak.growth(before, fake, 0.2)
        finally:
            servant.close()
            quiet.close()

    def test_a_few_connections_are_no_leak(self):
        self.assertEqual(self.grown("3"), [])

    def test_leaked_descriptors_are_seen(self):
        (problem,) = self.grown(str(soak.FDS_TO_SPARE + 1))
        self.assertIn("sandboxd-0: processes and descriptors", problem)

    def test_a_box_that_is_begun_ahead_is_no_growth(self):
        self.assertEqual(self.grown("idle"), [])

    def test_a_process_that_stays_is_seen(self):
        (problem,) = self.grown("child")
        self.assertRegex(problem, r"sandboxd-0: .* -> .*sleep")


class Leftovers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="crisol-soak-checks-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o711)
        fleet = types.SimpleNamespace(first_uid=UID)
        member = types.SimpleNamespace(fleet=fleet, number=0, folder=os.path.join(self.folder, "sandboxd-0"), island=None)
        os.makedirs(member.folder)
        fleet.members = [member]
        self.stage = types.SimpleNamespace(fleet=fleet, folder=self.folder)

    def left(self):
        return soak.leftovers(self.stage, {NATIVE}, 0.2)

    def keep(self, *argv, **how):
        popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, **how)
        self.addCleanup(popen.wait)
        self.addCleanup(popen.kill)
        return popen

    def run_ip(self, *argv):
        subprocess.run(["ip", *argv], check=True, timeout=30)

    def test_nothing_is_left_of_nothing(self):
        self.assertEqual(self.left(), [])

    def test_a_process_of_a_service_is_seen(self):
        popen = self.keep(f"{self.stage.fleet.members[0].folder}/program", "600", executable="/usr/bin/sleep")
        crisol.wait_for(lambda: any(str(popen.pid) in line for line in self.left()), 30, "the process is seen")

    def test_a_process_of_a_box_is_seen_by_its_user(self):
        popen = self.keep("sleep", "600", user=UID + 70000)
        crisol.wait_for(lambda: any(str(popen.pid) in line for line in self.left()), 30, "the process is seen")

    def test_a_control_group_is_seen(self):
        root = next(root for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory", "/sys/fs/cgroup")
                    if os.path.exists(os.path.join(root, "cgroup.procs")))
        # Below one of its own: services that start remove what dead ones left beside them.
        own = os.path.join(root, f"crisol-soak-checks-{os.getpid()}")
        group = os.path.join(own, f"crisol-native-{NATIVE}")
        for path in (own, group, os.path.join(group, "box-1")):
            os.mkdir(path)
            self.addCleanup(os.rmdir, path)
        self.assertEqual(self.left(), [f"control group {group}/box-1"])

    def test_a_mount_and_a_network_that_is_held_by_one_are_seen(self):
        network = os.path.join(self.folder, "network")
        with open(network, "w", encoding="utf-8"):
            pass
        subprocess.run(["unshare", f"--net={network}", "true"], check=True, timeout=30)
        self.addCleanup(subprocess.run, ["umount", network], check=True, timeout=30)
        (problem,) = self.left()
        self.assertRegex(problem, r"^mount .* - nsfs ")

    def test_a_link_into_a_network_is_seen(self):
        link = f"csoak{os.getpid() % 1000000}"
        self.stage.fleet.members[0].island = types.SimpleNamespace(link=link)
        self.assertEqual(self.left(), [])
        self.run_ip("link", "add", link, "type", "veth", "peer", "name", f"{link}p")
        self.addCleanup(self.run_ip, "link", "del", link)
        self.assertEqual(self.left(), [f"link {link} into a network"])


class Claims(unittest.TestCase):
    def test_two_tests_do_not_have_the_same(self):
        names = [f"of soak_checks {os.getpid()} {number}" for number in range(2)]
        (first, held), (second, other) = soak.claim(names), soak.claim(names)
        self.addCleanup(other.close)
        self.assertEqual([first, second], names)
        with self.assertRaises(RuntimeError):
            soak.claim(names)
        held.close()
        again, held = soak.claim(names)
        held.close()
        self.assertEqual(again, first)


class Status(unittest.TestCase):
    CLEAN = {"runs": 3, "evils": {"kill_front": 1}, "lost": [], "stuck": [], "torn": [], "wrong": [], "growth": [], "left": []}

    def status(self, **found):
        with mock.patch.object(soak, "figures", return_value={**self.CLEAN, **found}), \
                mock.patch.object(soak, "folder_of_programs", return_value="/"), \
                mock.patch.object(sys, "argv", ["soak.py", "1", "7"]), contextlib.redirect_stdout(io.StringIO()):
            return soak.main()

    def test_it_is_green_when_nothing_was_found(self):
        self.assertEqual(self.status(), 0)

    def test_each_thing_that_is_found_makes_it_red(self):
        for name in ("lost", "stuck", "torn", "wrong", "growth", "left"):
            with self.subTest(found=name):
                self.assertEqual(self.status(**{name: ["x"]}), 1)

    def test_who_did_nothing_has_shown_nothing(self):
        self.assertEqual(self.status(runs=0), 1)
        self.assertEqual(self.status(evils={}), 1)


if __name__ == "__main__":
    if os.geteuid() != 0:
        lab.skip("control groups, mounts and links take root")
    unittest.main(verbosity=1)
