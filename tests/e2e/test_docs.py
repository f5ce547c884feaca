# SPDX-License-Identifier: Apache-2.0
"""Every block of README.md and docs/clients.md that is marked with <!-- run --> works as printed."""
import os
import re
import subprocess

import pytest

import services as crisol


PAGES = ("README.md", "docs/clients.md")
# How each language runs a text; grpc-js is found as if it had been installed beside it.
ARGV = {"sh": ["/bin/bash", "-euo", "pipefail", "-c"], "python": ["/usr/bin/python3", "-c"], "js": ["/usr/bin/node", "-e"]}
MODULES = os.path.join(crisol.TOOLS, "grpc-js", "node_modules")


def blocks():
    """(page, language, text) of each, in their order: what one makes the next may use."""
    for page in PAGES:
        with open(os.path.join(crisol.SOURCE, page), encoding="utf-8") as file:
            for language, code in re.findall(r"<!-- run -->\n```(\w+)\n(.*?)```", file.read(), re.S):
                yield pytest.param(language, code, id=f"{page}-{language}")


@pytest.mark.parametrize("language,code", blocks())
def test_block_works(services, language, code):
    for word, path in (("grpcurl", os.path.join(crisol.TOOLS, "grpcurl")), ("@grpc/grpc-js", MODULES)):
        if word in code and not (crisol.TOOLS and os.path.exists(path)):
            pytest.skip(f"{word} could not be had on this machine (scripts/tools.sh)")
    # The README speaks of the default addresses; the services under test have their own.
    code = (code.replace("/tmp/crisol-", services.folder + "/").replace("127.0.0.1:50051", services.grpc)
            .replace("127.0.0.1:8000", services.http).replace("/run/crisol/sandboxd.sock", services.socket))
    if crisol.BUILD != os.path.join(crisol.SOURCE, "build"):
        code = code.replace("build/bin", crisol.BIN)
    done = subprocess.run([*ARGV[language], code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                          cwd=crisol.SOURCE,
                          env={"PATH": f"{crisol.TOOLS}:/usr/bin:/bin", "HOME": services.folder, "NODE_PATH": MODULES,
                               "CRISOL_SANDBOX": services.sandbox, "CRISOL_ORCHESTRATOR": services.grpc})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_there_are_blocks_of_each_kind():
    text = "".join(block.values[1] for block in blocks())
    assert all(word in text for word in ("crisol exec", "grpcurl", "curl -s", "urllib", "import grpc", "fetch(", "grpc-js"))
