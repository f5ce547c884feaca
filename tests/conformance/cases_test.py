#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cases.tsv accounts for every case of the two lists of public bug reports: a test that exists, or a reason why none can."""
import os
import re
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)

# The numbers of the lists; gaps are cases of other parts.
NUMBERS = {"sandbox": [2, 4, 5, 6, 8, 9, 11, 12, 14, 15, 16, 17, 19, 20, 22, 23, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35, 36, 40, 42,
                       43, 44, 45, 47, 48, 50, 51, 52, 54, 55, 57, 58, 59, 60, 62, 63, 64, 65, 66, 67],
           "security": list(range(1, 51))}
# What a test is called in C (cmocka), in unittest and pytest, and in the scripts of tests/e2e.
TEST_NAME = re.compile(r"^(?:static void (\w+)\(void \*\*state\)| *def (\w+)\()", re.MULTILINE)
SHORTEST_REASON = 30


def read_table():
    """[(case, about, names of tests, note)] in the order of the file."""
    rows = []
    with open(os.path.join(HERE, "cases.tsv"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                case, about, tests, note = (line.rstrip("\n").split("\t") + [""] * 3)[:4]
                rows.append((case, about, [] if tests == "-" else tests.split(), note))
    return rows


def all_tests():
    """name -> path of every test function below tests/."""
    found = {}
    for folder, _, files in os.walk(TESTS):
        for name in files:
            if name.endswith(("_test.c", "_test.py")) or (name.startswith("test_") and name.endswith(".py")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    for match in TEST_NAME.finditer(file.read()):
                        found[match.group(1) or match.group(2)] = path
    return found


def claims(name):
    """The cases in a name: test_sandbox_16_security_13_… is "sandbox 16" and "security 13"."""
    return {f"{kind} {number}" for kind, numbers in re.findall(r"(sandbox|security)((?:_\d+)+)", name)
            for number in numbers.split("_") if number}


class Cases(unittest.TestCase):
    def setUp(self):
        self.table = read_table()
        self.tests = all_tests()

    def test_every_case_is_there_once_and_no_other(self):
        known = [f"{kind} {number}" for kind, numbers in NUMBERS.items() for number in numbers]
        self.assertEqual([case for case, *_ in self.table], known)

    def test_each_case_names_tests_that_exist_or_says_why_it_has_none(self):
        for case, about, names, note in self.table:
            self.assertTrue(about, case)
            self.assertEqual([name for name in names if name not in self.tests], [], case)
            if not names and not re.fullmatch(r"as (sandbox|security) \d+", note):
                self.assertGreaterEqual(len(note), SHORTEST_REASON, f"{case}: say why no test can apply")

    def test_the_tests_that_a_note_names_exist(self):
        for case, _, _, note in self.table:
            self.assertEqual([name for name in re.findall(r"\btest_\w+", note) if name not in self.tests], [], case)

    def test_a_test_of_this_suite_that_is_named_after_a_case_is_in_its_row(self):
        rows = {case: names for case, _, names, _ in self.table}
        for name, path in self.tests.items():
            if os.path.dirname(path) != HERE or not name.startswith("test_"):
                continue
            for case in claims(name):
                self.assertIn(name, rows.get(case, []), case)


if __name__ == "__main__":
    unittest.main(verbosity=1)
