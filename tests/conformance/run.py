#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite by hand: run.py [--backend=native|docker] [--build=FOLDER] [FILE…].

For docker it starts an engine of its own on private paths, as the end-to-end tests do.
"""
import argparse
import contextlib
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = ["native", "docker"]


@contextlib.contextmanager
def backend_flags(backend):
    """Flags of sandboxd while the backend can be used."""
    if backend == "native":
        yield []
        return
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
    import engine  # pylint: disable=import-outside-toplevel
    with engine.Engine() as running:
        running.load_base()
        yield [f"--docker-socket={running.socket}", f"--docker-base={engine.BASE}", "--docker-pull=never"]


def run_files(names, backend, flags):
    """Names of the files that failed."""
    environment = dict(os.environ, CRISOL_BACKEND=backend, CRISOL_SANDBOXD_FLAGS=" ".join(flags))
    failed = []
    for name in names:
        print(f"== {name} on {backend}", flush=True)
        path = os.path.join(HERE, name + ".py")
        if subprocess.run(["/usr/bin/python3", "-B", path], env=environment, check=False).returncode != 0:
            failed.append(name)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build"))
    parser.add_argument("files", nargs="*", help="names such as output_test; default: all")
    options = parser.parse_args()
    os.environ["CRISOL_BUILD"] = os.path.abspath(options.build)
    names = options.files or sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(HERE, "*_test.py")))
    with backend_flags(options.backend) as flags:
        failed = run_files(names, options.backend, flags)
    print(f"{len(names) - len(failed)} of {len(names)} files passed" + "".join(f"\nfailed: {name}" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
