#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`sandboxd selftest --backend=docker`: every control held or named as partial, every one seen red, nothing left."""
import collections
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import engine as docker  # noqa: E402
import sandboxd_service as service  # noqa: E402

SANDBOXD = os.path.join(service.BIN, "sandboxd")
CONTROLS = {"network", "memory", "swap", "cpu", "pids", "no_new_privs", "capabilities", "user", "wall_time", "cpu_time",
            "rootfs", "tmpfs", "seccomp", "proc", "dev", "ipc", "output", "rlimits"}
# What a container answers in a weaker way, by control; docs/threat-model.md has the same list, with the reasons.
ACCEPTED = {"user": ["kill-init", "host-sees-own-user", "host-sees-user-namespace", "init-is-another-user"],
            "proc": ["mount-table", "count-processes", "see-other-box-processes", "proc-mount"],
            "dev": ["dev-is-complete"]}
NAMES = {name for names in ACCEPTED.values() for name in names}

service.need_root()
ENGINE = docker.Engine()


def setUpModule():
    ENGINE.__enter__()
    ENGINE.load_base()


def tearDownModule():
    ENGINE.__exit__(None, None, None)


def images():
    """Tags of the images that sandboxd has built."""
    return [tag for image in json.loads(ENGINE.ask("GET", "/images/json")[1]) for tag in image["RepoTags"] or []
            if tag.startswith("crisol-sandbox:")]


class DockerSelftest(unittest.TestCase):
    def test_every_control_holds_or_is_named_and_was_seen_to_fail(self):
        done = subprocess.run([SANDBOXD, "selftest", "--json", "--backend=docker", f"--docker-socket={ENGINE.socket}",
                               f"--docker-base={docker.BASE}", "--docker-pull=never", f"--accept={','.join(NAMES)}"],
                              capture_output=True, text=True, timeout=500 * service.SLOWNESS, check=False)
        document = json.loads(done.stdout)
        statuses = [probe["status"] for probe in document["probes"]]
        wrong = [probe for probe in document["probes"] if probe["status"] not in ("PASS", "GAP")]
        answers = collections.Counter((probe["status"], probe["seen"]) for probe in wrong)
        self.assertEqual((answers.most_common(5), document["problem"]), ([], ""), done.stderr[-2000:])
        weaker = [(probe["name"], probe["seen"]) for probe in document["probes"] if probe.get("is_accepted") is False]
        self.assertEqual((weaker, [control["name"] for control in document["controls"] if control["is_gap"]]), ([], []))
        self.assertEqual([control for control in document["controls"] if not control["red_seen"]], [], done.stderr[-2000:])
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual((document["backend"], document["is_good"]), ("docker", True))
        self.assertGreaterEqual(len(statuses), 150)
        self.assertEqual({control["name"] for control in document["controls"]}, CONTROLS)
        for control in document["controls"]:
            self.assertTrue(control["red_seen"] and control["probes"] > 0, control)
            self.assertFalse(control["is_gap"], control)
            self.assertEqual((control["weaker"], control["not_accepted"]), (len(ACCEPTED.get(control["name"], [])), 0), control)
        # Exactly these: what a container learns to do is taken off the list.
        self.assertEqual({probe["name"] for probe in document["probes"] if probe.get("is_accepted")}, NAMES)
        print(f"{len(statuses)} probes executed on docker: {statuses.count('PASS')} PASS, {statuses.count('GAP')} GAP; "
              f"{len(document['controls'])} controls seen to fail when left out")
        # The weakened boxes and the image of the weak init are gone.
        service.wait_for(lambda: not ENGINE.containers(), 30, "no container is left")
        self.assertEqual(len(images()), 1)

    def test_nobody_leaves_a_control_out_by_a_setting(self):
        for program, text in (("sandboxd", "weaken"), ("sandboxd-docker", "is for the self-test")):
            done = subprocess.run([os.path.join(service.BIN, program), "--weaken=seccomp"], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_an_engine_that_is_absent_is_the_answer(self):
        done = subprocess.run([SANDBOXD, "selftest", "--json", "--backend=docker",
                               f"--docker-socket={ENGINE.folder}/nothing.sock"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the docker engine is absent", done.stderr)
        document = json.loads(done.stdout)  # said once, and not of each probe
        self.assertEqual((document["probes"], document["unanswered"] > 150), ([], True))
        self.assertIn("the sandboxes did not start", document["problem"])


if __name__ == "__main__":
    unittest.main()
