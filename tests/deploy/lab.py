# SPDX-License-Identifier: Apache-2.0
"""What the tests of deploy/ share: where things are, and the real programs' own word on flags."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
DEPLOY = os.path.join(SOURCE, "deploy")
BUILD = os.environ.get("CRISOL_BUILD", os.path.join(SOURCE, "build"))
BIN = os.environ.get("CRISOL_BIN", os.path.join(BUILD, "bin"))
TOOLS = os.environ.get("CRISOL_TOOLS", "")
SKIP = 77

# After --grace-ms sandboxd gives its front ten seconds and its backend twenty-four (sandboxd/supervisor/supervisor.c).
SANDBOXD_END_S = 34
# The orchestrator cancels what is left and closes its store.
ORCHESTRATOR_END_S = 5


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def tool(name):
    """Path of a program that scripts/tools.sh brings, or the end of this test."""
    path = os.path.join(TOOLS, name)
    if not TOOLS or not os.path.exists(path):
        skip(f"there is no {name} (scripts/tools.sh)")
    return path


def end_constants():
    """The seconds behind --grace-ms that sandboxd's own source has."""
    with open(os.path.join(SOURCE, "sandboxd", "supervisor", "supervisor.c"), encoding="utf-8") as file:
        text = file.read()
    return sum(int(re.search(rf"#define {name} (\d+)", text).group(1)) for name in ("BACKEND_STOP_MS", "FRONT_STOP_EXTRA_MS")) / 1000


def known_flags(program):
    """The flags of --help."""
    text = subprocess.run([os.path.join(BIN, program), "--help"], capture_output=True, text=True, timeout=90, check=True).stdout
    return set(re.findall(r"^  (--[a-z0-9-]+)", text, re.M))


def settings_of(program, flags, environment=None):
    """What would be in force with these flags: {name: text}. Fails when the program refuses them."""
    done = subprocess.run([os.path.join(BIN, program), *flags, "--check-config"], capture_output=True, text=True, timeout=90,
                          check=False, env={"PATH": "/usr/bin:/bin", **(environment or {})})
    assert done.returncode == 0, f"{program} {' '.join(flags)}: {done.stderr}"
    return dict(re.findall(r"^([\w-]+) = (.*)$", done.stdout, re.M))
