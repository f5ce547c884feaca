#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the last column of the README's table of controls as the self-test says.

sandboxd selftest --json | scripts/security_table.py [--check] README.md

Rewrites the rows between the two markers: every control, how many probes attack it, and which of
docs/threat-model.md they are. Refuses the document of a self-test that was not good. With --check
it changes nothing and fails when the table is not current.
"""
import json
import re
import sys

BEGIN = "<!-- selftest: the last column is written by scripts/security_table.py -->"
END = "<!-- /selftest -->"


def ranges(numbers):
    """E01, E02, E03, E07 as "E01–E03, E07"."""
    runs = []
    for name in numbers:
        letter, number = name[0], int(name[1:])
        if runs and runs[-1][0] == letter and runs[-1][2] == number - 1:
            runs[-1][2] = number
        else:
            runs.append([letter, number, number])
    parts = []
    for letter, first, last in runs:
        if last - first > 1:
            parts.append(f"{letter}{first:02}–{letter}{last:02}")
        else:
            parts += [f"{letter}{number:02}" for number in range(first, last + 1)]
    return ", ".join(parts)


def proofs(document):
    """{control: text of its last cell}."""
    cells = {}
    for control in document["controls"]:
        if not control["red_seen"]:
            raise SystemExit(f"{control['name']}: never seen to fail")
        numbers = sorted({probe["id"] for probe in document["probes"] if probe["control"] == control["name"]})
        plural = "" if control["probes"] == 1 else "s"
        cells[control["name"]] = f"{control['probes']} probe{plural}: {ranges(numbers)}"
    return cells


def rewrite(text, cells):
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise SystemExit(f"no lines '{BEGIN}' and '{END}'")
    missing = dict(cells)
    lines = []
    for line in text[begin:end].split("\n"):
        match = re.match(r"(\| `(\w+)` \|.*\| )[^|]*\|$", line)
        if match and match.group(2) in missing:
            line = f"{match.group(1)}{missing.pop(match.group(2))} |"
        lines.append(line)
    if missing:
        raise SystemExit(f"no row for {', '.join(missing)}")
    return text[:begin] + "\n".join(lines) + text[end:]


def main():
    is_check = sys.argv[1] == "--check"
    path = sys.argv[-1]
    document = json.load(sys.stdin)
    if not document["is_good"]:
        raise SystemExit("this self-test was not good; the table stays as it is")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    current = rewrite(text, proofs(document))
    if is_check:
        if current != text:
            raise SystemExit(f"{path} is not current: sandboxd selftest --json | scripts/security_table.py {path}")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(current)


main()
