#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Lets schemathesis make requests from /openapi.json, and fails on answers that it does not describe.

Opt-in and bounded, because it takes minutes and a tool with many parts: scripts/tools.sh api brings
it. Usage: fuzz_api.py [EXAMPLES [SEED]]
"""
import os
import subprocess
import sys

import services as crisol

# A request that fits the description may still be refused (a run that is not there, a network that
# this version does not have), and JSON of protobuf is read more freely than it is described (numbers
# as strings, null, camelCase): both are no fault.
CHECKS = "status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance"


class Storing(crisol.Services):
    """With a journal, so that every operation can work."""

    def start_orchestrator(self, base_url, key):
        folder = os.path.join(self.folder, "journal")
        os.mkdir(folder)
        os.chown(folder, crisol.SERVICE_UID, crisol.SERVICE_UID)
        self.orchestrator_flags = [f"--store=sqlite:{folder}/runs.db"]
        super().start_orchestrator(base_url, key)


def main():
    tree = os.path.join(crisol.TOOLS, "schemathesis")
    examples, seed = (sys.argv[1:] + ["15", "1"][len(sys.argv) - 1:])[:2]
    if not crisol.TOOLS or not os.path.isdir(tree):
        print("skipped: schemathesis is not here; scripts/tools.sh api brings it")
        return 77
    with Storing() as services:
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"http://{services.http}/openapi.json",
             f"--max-examples={examples}", f"--seed={seed}", f"--checks={CHECKS}", "--request-timeout=30",
             "--phases=examples,coverage,fuzzing", "--exclude-path=/metrics"],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": tree, "HOME": services.folder}, cwd=services.folder,
            timeout=1800, check=False)
        assert services.orchestrator.popen.poll() is None, services.orchestrator.log()[-2000:]
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
