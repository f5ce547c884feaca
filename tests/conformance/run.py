#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite by hand: run.py [--backend=native|docker] [--bin=FOLDER] [FILE…]."""
import argparse
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=["native", "docker"], default="native")
    parser.add_argument("--bin", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "bin"))
    parser.add_argument("--flag", action="append", default=[], help="a further flag of sandboxd, e.g. --flag=--docker-image=X")
    parser.add_argument("files", nargs="*", help="names such as output_test; default: all")
    options = parser.parse_args()
    environment = dict(os.environ, CRISOL_BIN=os.path.abspath(options.bin), CRISOL_BACKEND=options.backend,
                       CRISOL_SANDBOXD_FLAGS=" ".join(options.flag))
    names = options.files or sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(HERE, "*_test.py")))
    failed = []
    for name in names:
        print(f"== {name} on {options.backend}", flush=True)
        path = os.path.join(HERE, name + ".py")
        if subprocess.run(["/usr/bin/python3", "-B", path], env=environment, check=False).returncode != 0:
            failed.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} files passed" + "".join(f"\nfailed: {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
