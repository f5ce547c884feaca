#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`sandboxd selftest`: green here, red where a control is really missing, and nothing left behind."""
import glob
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sandboxd_service as service  # noqa: E402

SANDBOXD = os.path.join(service.BIN, "sandboxd")
CONTROLS = {"network", "memory", "swap", "cpu", "pids", "no_new_privs", "capabilities", "user", "wall_time", "cpu_time",
            "rootfs", "tmpfs", "seccomp", "proc", "dev", "ipc", "output", "rlimits"}


def selftest(*flags):
    """Returns the exit code, the JSON document and everything on stderr."""
    with subprocess.Popen([SANDBOXD, "selftest", "--json", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=dict(os.environ, GEMINI_API_KEY=service.CANARY)) as process:
        output, errors = process.communicate(timeout=180 * service.SLOWNESS)
    assert service.CANARY not in output + errors
    assert not folders_of(process.pid)
    return process.returncode, json.loads(output) if output else None, errors


def folders_of(pid):
    """Only those of one self-test: others may run on this host, too."""
    return glob.glob(f"/tmp/crisol-selftest-{pid}-*")


def failing_controls(document):
    return {probe["control"] for probe in document["probes"] if probe["status"] == "FAIL"}


def every_control_holds_and_was_seen_to_fail():
    code, document, errors = selftest()
    wrong = [probe for probe in document["probes"] if probe["status"] != "PASS"]
    assert code == 0, (wrong, errors)
    assert wrong == [] and document["is_good"] is True
    assert len(document["probes"]) >= 150
    for probe in document["probes"]:
        assert set(probe) == {"id", "name", "class", "status", "expected", "seen", "control"}, probe
        assert probe["control"] is None or probe["control"] in CONTROLS, probe
    assert {control["name"] for control in document["controls"]} == CONTROLS
    for control in document["controls"]:
        assert control["red_seen"] is True and control["probes"] > 0, control
    assert document["backend"] == "native" and document["host"]["kernel"]
    check = subprocess.run([sys.executable, os.path.join(service.SOURCE, "scripts", "security_table.py"), "--check",
                            os.path.join(service.SOURCE, "README.md")], input=json.dumps(document), text=True,
                           capture_output=True, timeout=90, check=False)
    assert check.returncode == 0, check.stderr
    print(f"{len(document['probes'])} probes executed, {len(document['controls'])} controls seen to fail when left out")


def a_missing_control_fails_its_probes_and_no_others():
    for control in ("network", "seccomp", "tmpfs"):
        code, document, errors = selftest(f"--weaken={control}")
        assert code == 1, errors
        assert document["is_good"] is False
        assert control in failing_controls(document), document
        # Some probes lean on two controls; most of what fails is of the missing one.
        failed = [probe for probe in document["probes"] if probe["status"] == "FAIL"]
        assert sum(probe["control"] == control for probe in failed) * 2 > len(failed), failed


def what_cannot_be_meant_is_refused():
    for flags, text in ((["--backend=none"], "--backend"), (["--accept=nothing"], "is neither a control nor a probe"),
                        (["--weaken=nothing"], "is no control"), (["--slots=3"], "slots")):
        code, document, errors = selftest(*flags)
        assert code != 0 and document is None and text in errors, (flags, errors)
    # Of the environment it is given this alone.
    done = subprocess.run([SANDBOXD, "selftest"], capture_output=True, text=True, timeout=180, check=False,
                          env={"CRISOL_SLOW_HOST": "very"})
    assert done.returncode == 1 and "CRISOL_SLOW_HOST: 'very' is not" in done.stderr, done.stderr


def nobody_leaves_a_control_out_by_a_setting():
    help_text = subprocess.run([SANDBOXD, "--help"], capture_output=True, text=True, timeout=90, check=True).stdout
    assert "--weaken" not in help_text
    done = subprocess.run([SANDBOXD, "--weaken=seccomp"], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode != 0 and "weaken" in done.stderr, done.stderr
    done = subprocess.run([os.path.join(service.BIN, "sandboxd-native"), "--weaken=seccomp"], capture_output=True, text=True,
                          timeout=90, check=False)
    assert done.returncode != 0 and "is for the self-test" in done.stderr, done.stderr
    # sandbox-init cannot leave anything out; the one that does is another program.
    texts = {}
    for program in ("sandbox-init", "sandbox-init-weak"):
        with open(os.path.join(service.BIN, program), "rb") as file:
            texts[program] = file.read()
    assert b"weaken" not in texts["sandbox-init"]
    assert [b"CRISOL_LEAVE_OUT" in text for text in texts.values()] == [False, True]


def an_interrupted_one_leaves_nothing():
    process = subprocess.Popen([SANDBOXD, "selftest"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    service.wait_for(lambda: any("sandboxd-native" in service.processes().get(pid, (0, ""))[1]
                                 for pid in service.descendants(process.pid)), 20, "a stack")
    assert folders_of(process.pid)
    family = set(service.descendants(process.pid))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=90) == -signal.SIGINT
    service.wait_for(lambda: not family & set(service.processes()), 30, "all processes gone")
    assert not folders_of(process.pid)


def main():
    service.need_root()
    for test in (every_control_holds_and_was_seen_to_fail, a_missing_control_fails_its_probes_and_no_others,
                 what_cannot_be_meant_is_refused, nobody_leaves_a_control_out_by_a_setting):
        test()
        print(f"ok {test.__name__}")
    an_interrupted_one_leaves_nothing()
    print("ok an_interrupted_one_leaves_nothing")


main()
