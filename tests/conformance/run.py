#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite: run.py [--backend=native|docker] [--jobs=N] [--build=FOLDER] [FILE…].

For docker it starts an engine of its own on private paths, as the end-to-end tests do. With --jobs that many
files run side by side, each with a sandboxd of its own. Ends with 77 where nothing can be run.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = ["native", "docker"]
LONGEST = "modes_test"  # begins first, so that nothing waits for it alone at the end
SKIP = 77  # a file that does not apply to the backend, and says why


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


def run_file(name, environment):
    """Exit code and number of cases that were executed; prints what the file had to say."""
    begin = time.monotonic()
    done = subprocess.run(["/usr/bin/python3", "-B", os.path.join(HERE, name + ".py")], env=environment, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ran = re.search(r"^Ran (\d+) tests?", done.stdout, re.M)
    skipped = re.search(r"skipped=(\d+)", done.stdout)
    executed = (int(ran.group(1)) if ran else 0) - (int(skipped.group(1)) if skipped else 0)
    print(f"== {name}: {executed} cases in {time.monotonic() - begin:.0f} s, exit status {done.returncode}\n"
          f"{done.stdout}", flush=True)
    return done.returncode, executed


def run_files(names, backend, flags, jobs):
    """Names of the files that failed, and how many cases were executed."""
    environment = dict(os.environ, CRISOL_BACKEND=backend, CRISOL_SANDBOXD_FLAGS=" ".join(flags))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ended = list(pool.map(lambda name: run_file(name, environment), names))
    return [name for name, (status, _) in zip(names, ended) if status not in (0, SKIP)], sum(count for _, count in ended)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("files", nargs="*", help="names such as output_test; default: all")
    options = parser.parse_args()
    os.environ["CRISOL_BUILD"] = os.path.abspath(options.build)
    names = options.files or sorted((os.path.basename(path)[:-3] for path in glob.glob(os.path.join(HERE, "*_test.py"))),
                                    key=lambda name: (name != LONGEST, name))
    with backend_flags(options.backend) as flags:
        failed, executed = run_files(names, options.backend, flags, options.jobs)
    print(f"{executed} cases on {options.backend}, {len(names) - len(failed)} of {len(names)} files passed" +
          "".join(f"\nfailed: {name}" for name in failed))
    if failed:
        return 1
    return 0 if executed > 0 else SKIP


if __name__ == "__main__":
    sys.exit(main())
