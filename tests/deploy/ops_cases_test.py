#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cases.tsv accounts for every case of the list of public reports about deployment: a test that exists, or why none can."""
import os
import re
import sys
import unittest

import lab

sys.path.insert(0, os.path.join(lab.SOURCE, "tests", "conformance"))
from cases_test import SHORTEST_REASON, all_tests  # noqa: E402  # pylint: disable=wrong-import-position

# The numbers of the list; gaps are cases of other parts.
NUMBERS = [1, 3, 4, 6, 8, 10, 11, 12, 14, 15, 16, 17, 18, 19, 21, 23, 24, 25, 26, 28, 29, 30]


def read_table():
    """[(number, about, names of tests, note)] in the order of the file."""
    rows = []
    with open(os.path.join(lab.HERE, "cases.tsv"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                case, about, tests, note = (line.rstrip("\n").split("\t") + [""] * 3)[:4]
                rows.append((case, about, [] if tests == "-" else tests.split(), note))
    return rows


class Cases(unittest.TestCase):
    def test_every_case_is_there_once_and_no_other(self):
        self.assertEqual([case for case, *_ in read_table()], [f"ops {number}" for number in NUMBERS])

    def test_each_names_tests_that_exist_or_says_why_it_has_none(self):
        tests = all_tests()
        for case, about, names, note in read_table():
            self.assertTrue(about, case)
            self.assertEqual([name for name in names + re.findall(r"\btest_\w+", note) if name not in tests], [], case)
            if not names:
                self.assertGreaterEqual(len(note), SHORTEST_REASON, f"{case}: say why no test can apply")

    def test_a_test_that_is_named_after_a_case_is_in_its_row(self):
        rows = {case: names for case, _, names, _ in read_table()}
        for name in all_tests():
            for number in re.findall(r"_ops_(\d+)(?=_|$)", name):
                self.assertIn(name, rows.get(f"ops {number}", []), name)


if __name__ == "__main__":
    unittest.main(verbosity=1)
