# SPDX-License-Identifier: Apache-2.0
"""Logs as JSON: one object per line whatever comes in, and nothing of what must not be in them."""
import json
import re

import pytest
import services as crisol

# Numbers that no time, pid or identifier of a log has in it by chance.
TASK = "Write an LRU cache in Python, mark-task-73194468842."
PROGRAM = "print('mark-output-' + str(73194468800 + 42))  # mark-program-73194468842 \xf1"
COMPONENTS = {"sandboxd", "sandboxd-front", "sandboxd-native", "orchestrator"}


@pytest.fixture(scope="module")
def services():
    with crisol.Services(sandboxd_flags=["--log-format=json", "--metrics="],
                         orchestrator_flags=["--log-format=json"]) as running:
        yield running


@pytest.fixture(scope="module")
def lines(services):
    """What both say while they serve good and bad requests, from the first request on."""
    starts = [len(process.log()) for process in (services.sandboxd, services.orchestrator)]
    assert services.crisol("run", TASK).returncode == 0
    services.crisol("exec", "--runtime", "python", "--", PROGRAM)
    services.crisol("exec", "--runtime", "no\nsuch \"one\"", "--", PROGRAM)
    services.crisol("exec", "--wall-ms=200", "--runtime", "python", "--", "while True: pass  # mark-program-73194468842")
    services.crisol("runs", "--orchestrator", services.grpc)
    found = []
    for process, start in zip((services.sandboxd, services.orchestrator), starts):
        found += process.log()[start:].splitlines()
    return found


def test_every_line_is_an_object_with_the_same_names(services, lines):
    everything = services.sandboxd.log().splitlines() + services.orchestrator.log().splitlines()
    assert len(everything) > 15 and set(lines) <= set(everything)
    for line in everything:
        entry = json.loads(line)
        assert set(entry) - {"trace_id", "span_id"} == {"time", "level", "component", "pid", "version", "message"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])
        assert entry["level"] in ("error", "warn", "info") and entry["component"] in COMPONENTS


def test_runs_can_be_followed(lines):
    entries = [json.loads(line) for line in lines]
    ended = [entry for entry in entries if entry["message"].startswith("run ended")]
    assert {entry["component"] for entry in ended} == {"sandboxd-front", "orchestrator"}
    # But for those that sandboxd makes for itself.
    assert all(entry["trace_id"] and entry["span_id"] for entry in ended if "caller=self" not in entry["message"])


def test_no_key_no_text_of_a_user_and_no_path_of_the_host(services, lines):
    text = "\n".join(lines)
    assert "run ended" in text
    for mark in ("73194468842", "73194468800", "mark-", crisol.CANARY, "LRU", services.folder, "/usr/", "/proc/", "/sys/", crisol.SOURCE):
        assert mark not in text, f"{mark!r} is in the log"
    # From the first line on: no secret at all.
    assert crisol.CANARY not in services.sandboxd.log() + services.orchestrator.log()
