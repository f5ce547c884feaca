# SPDX-License-Identifier: Apache-2.0
"""Every block of the README that is marked with <!-- run --> works as printed."""
import os
import re
import subprocess

import pytest

import services as crisol


def blocks():
    with open(os.path.join(crisol.SOURCE, "README.md"), encoding="utf-8") as file:
        return re.findall(r"<!-- run -->\n```(\w+)\n(.*?)```", file.read(), re.S)


@pytest.mark.parametrize("language,code", blocks(), ids=lambda value: value if len(value) < 10 else "")
def test_block_works(services, language, code):
    if "grpcurl" in code and not os.path.exists(os.path.join(crisol.TOOLS, "grpcurl")):
        pytest.skip("grpcurl could not be had on this machine (scripts/tools.sh)")
    # The README speaks of the default addresses; the services under test have their own.
    code = (code.replace("/tmp/crisol-", services.folder + "/").replace("127.0.0.1:50051", services.grpc)
            .replace("127.0.0.1:8000", services.http).replace("/run/crisol/sandboxd.sock", services.socket))
    if crisol.BUILD != os.path.join(crisol.SOURCE, "build"):
        code = code.replace("build/bin", crisol.BIN)
    argv = ["/usr/bin/python3", "-c", code] if language == "python" else ["/bin/bash", "-euo", "pipefail", "-c", code]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                          cwd=crisol.SOURCE,
                          env={"PATH": f"{crisol.TOOLS}:/usr/bin:/bin", "HOME": services.folder,
                               "CRISOL_SANDBOX": services.sandbox, "CRISOL_ORCHESTRATOR": services.grpc})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_readme_has_blocks_of_each_kind():
    text = "".join(code for _, code in blocks())
    assert all(word in text for word in ("crisol exec", "grpcurl", "curl -s", "urllib"))
