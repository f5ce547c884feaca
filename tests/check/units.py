#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""systemd reads every unit of deploy/systemd without a word, with the programs of this build in their places.

Usage: units.py SOURCE_DIR BUILD_DIR   exit status 77 where there is no systemd-analyze
"""
import os
import shutil
import subprocess
import sys
import tempfile

INSTALLED = "/usr/libexec/crisol/"


def main():
    source, build = sys.argv[1:]
    if not shutil.which("systemd-analyze"):
        print("skipped: there is no systemd-analyze")
        return 77
    folder = os.path.join(source, "deploy", "systemd")
    names = sorted(os.listdir(folder))
    with tempfile.TemporaryDirectory(prefix="crisol-units-") as copy:
        # The build may lie below a folder with spaces in its name, which would be two words in a unit.
        programs = os.path.join(copy, "bin")
        os.symlink(os.path.join(build, "bin"), programs)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read().replace(INSTALLED, programs + "/")
            with open(os.path.join(copy, name), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(os.path.join(copy, name) for name in names)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    print(f"{len(names)} units: {' '.join(names)}\n{done.stdout}")
    return 1 if done.returncode != 0 or done.stdout.strip() or not names else 0


if __name__ == "__main__":
    sys.exit(main())
