#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The files that are made of the tables of settings: deploy/NAME.conf and the tables of docs/settings.md.

Usage: settings.py SOURCE_DIR BIN_DIR           fails when a file is not what the programs say
       settings.py --write SOURCE_DIR BIN_DIR   writes the files
"""
import os
import re
import subprocess
import sys

PROGRAMS = ["orchestrator", "sandboxd"]
PAGE = "docs/settings.md"


def ask(bin_dir, program, form):
    """What the program says, in an environment that says nothing."""
    return subprocess.run([os.path.join(bin_dir, program), f"--help={form}"], check=True, text=True, env={},
                          stdout=subprocess.PIPE, timeout=30).stdout


def fill_page(page, bin_dir):
    """The page with each table between its two comments made anew."""
    for program in PROGRAMS:
        begin, end = f"<!-- begin {program} -->\n", f"<!-- end {program} -->\n"
        if page.count(begin) != 1 or page.count(end) != 1:
            sys.exit(f"{PAGE}: the comments around the table of {program} are missing")
        table = ask(bin_dir, program, "markdown")
        page = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + table + end, page, flags=re.S)
    return page


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_example(bin_dir, path, program):
    """With every line of the example in force, nothing changes."""
    text = re.sub(r"^#(?! )([\w-]+ = .+)$", r"\1", read(path), flags=re.M)
    plain = subprocess.run([os.path.join(bin_dir, program), "--print-config"], check=True, text=True, env={},
                           stdout=subprocess.PIPE, timeout=30).stdout
    loaded = subprocess.run([os.path.join(bin_dir, program), "--config=/dev/stdin", "--print-config"], check=True,
                            text=True, env={}, input=text, stdout=subprocess.PIPE, timeout=30).stdout
    return [] if plain == loaded else [f"{path}: {program} --print-config differs with every default of it in force"]


def main():
    must_write = sys.argv[1] == "--write"
    root, bin_dir = sys.argv[-2:]
    made = {f"deploy/{program}.conf": ask(bin_dir, program, "conf") for program in PROGRAMS}
    made[PAGE] = fill_page(read(os.path.join(root, PAGE)), bin_dir)
    problems = []
    for path, text in made.items():
        if must_write:
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        elif read(os.path.join(root, path)) != text:
            problems.append(f"{path}: is not what the programs say; write it with "
                            f"tests/check/settings.py --write . build/bin")
    for program in PROGRAMS:
        problems += check_example(bin_dir, os.path.join(root, f"deploy/{program}.conf"), program)
    for problem in problems:
        print(problem)
    print(f"{len(made)} files, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
