# SPDX-License-Identifier: Apache-2.0
"""A task that never succeeds."""
import json

import services as crisol


def test_never_succeeding_task_fails_after_three_iterations():
    with crisol.Services(script="never") as running:
        done = running.crisol("run", "--json", "Convert the integers 1 to 3999 to Roman numerals.")
        answer = json.loads(done.stdout)
        assert done.returncode == 1
        assert (answer["status"], answer["cause"], answer["iterations"]) == ("FAILED", "MAX_ITERATIONS", 3)
        assert len(answer["error_history"]) == 3
        assert b"cause     MAX_ITERATIONS\n" in done.stderr

        one = json.loads(running.crisol("run", "--json", "--max-iterations=1", "Convert the integers 1 to 3999 to Roman numerals.").stdout)
        assert (one["cause"], one["iterations"]) == ("MAX_ITERATIONS", 1)
