#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two hundred mixed runs on docker leave nothing: no container, shim, mount, control group, process or descriptor."""
import json

import mixed_runs

RUNS = 200


def main():
    with mixed_runs.docker() as backend:
        figures = mixed_runs.figures(RUNS, backend)
    print(json.dumps(figures))
    assert figures["problems"] == [] and figures["drift"] == []
    assert figures["runs"] == RUNS and set(figures["kinds"]) == {kind[0] for kind in mixed_runs.KINDS}
    assert figures["host"]["containers"] == figures["host"]["shims"] == mixed_runs.POOL


main()
