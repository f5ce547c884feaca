#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/groups.sh, on tests that only say what a runner would: which groups fail, and what is counted.

Usage: groups_test.py SOURCE_DIR
"""
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)
# As the runners say it: two cases ran, of which none failed, and one was left out.
SAID = {
    "cmocka": "[==========] Running 3 test(s).\n[  PASSED  ] 2 test(s).\n[  SKIPPED ] 1 test(s), listed below:",
    "pytest": "..s\n2 passed, 1 skipped in 0.12s",
    "pytest with lines": "============ 2 passed, 1 skipped, 3 warnings in 61.00s (0:01:01) ============",
    "unittest": "Ran 3 tests in 0.001s\n\nOK (skipped=1)",
}
NOTHING = {
    "cmocka": "[==========] Running 0 test(s).\n[  PASSED  ] 0 test(s).",
    "pytest": "no tests ran in 0.01s",
    "unittest": "Ran 0 tests in 0.000s\n\nOK",
    "the words of a program": "12 tests, all passed",
    "a report in the output": "pytest: OK: exit 0 in 11 ms, 18.8 MiB; 1 tests: 1 passed, 0 failed, 0 errors, 0 skipped",
}
LEFT_OUT = {
    "cmocka": "[  PASSED  ] 0 test(s).\n[  SKIPPED ] 3 test(s), listed below:",
    "pytest": "3 skipped in 0.12s",
    "unittest": "Ran 3 tests in 0.001s\n\nOK (skipped=3)",
    "unittest, parts of a test": "Ran 1 test in 0.001s\n\nOK (skipped=3)",
}


class Groups(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="crisol-groups-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        self.tests = []

    def add(self, said, status=0, label="g"):
        """A test that says this and ends with that."""
        number = len(self.tests)
        path = os.path.join(self.folder, f"said-{number}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(said + "\n")
        self.tests.append(f'add_test(test_{number} "/bin/sh" "-c" "cat {path}; exit {status}")\n'
                          f'set_tests_properties(test_{number} PROPERTIES LABELS "{label}" SKIP_RETURN_CODE 77)\n')

    def run_script(self, command):
        """(whether a group failed, all that was said)"""
        with open(os.path.join(self.folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
            file.writelines(self.tests)
        done = subprocess.run(["/bin/bash", "-c", f"set -eu; . scripts/groups.sh; {command}; tell_groups", "-", self.folder],
                              cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout)
        return done.returncode == 1, done.stdout

    def run_group(self, name="g"):
        """(whether it failed, its line, all that was said)"""
        has_failed, said = self.run_script(f'run_group {name} "$1" -L "^g$"')
        return has_failed, said.splitlines()[0].split(maxsplit=1)[1], said

    def run_groups(self, *labels):
        """(whether one failed, the line of each at the end, all that was said)"""
        has_failed, said = self.run_script(f'run_groups "$1" 3 {" ".join(labels)}')
        return has_failed, [" ".join(line.split()) for line in said.split("groups:\n")[1].splitlines()], said

    def check(self, expected_failure, expected_line):
        has_failed, line, said = self.run_group()
        self.assertEqual((has_failed, line), (expected_failure, expected_line), said)
        return said

    def test_cases_are_counted_as_their_runners_count_them(self):
        for said in (*SAID.values(), "honest: 12 cases, 0 problems", "Done 1000 runs in 11 second(s)",
                     "9 points injected, 2 failed, 7 passed", "no case of its own"):
            self.add(said)
        self.check(False, "8 passed, 4 skipped, ctest status 0, 1027 cases")

    def test_a_group_without_a_test_has_failed(self):
        self.add(SAID["cmocka"], label="other")
        said = self.check(True, "0 passed, 0 skipped, ctest status 8, 0 cases")
        self.assertIn("the group 'g' ran no test", said)
        self.assertIn("0 passed, 1 failed, 0 skipped", said)

    def test_a_group_without_a_case_has_failed(self):
        for said in NOTHING.values():
            self.add(said)
        self.assertIn("no case in any", self.check(True, "5 passed, 0 skipped, ctest status 0, 0 cases"))

    def test_a_group_that_left_out_all_cases_has_failed_and_nothing_of_it_passed(self):
        for said in LEFT_OUT.values():
            self.add(said)
        self.check(True, "0 passed, 16 skipped, ctest status 0, 0 cases")

    def test_a_group_of_skipped_tests_has_failed(self):
        self.add("skipped: there is no engine", status=77)
        self.check(True, "0 passed, 1 skipped, ctest status 0, 0 cases")

    def test_a_group_that_not_every_host_can_run_may_be_skipped_but_not_empty(self):
        self.add("skipped: there is no engine", status=77)
        for name in ("containers", "vm"):
            has_failed, line, said = self.run_group(name)
            self.assertEqual((has_failed, line), (False, "0 passed, 1 skipped, ctest status 0, 0 cases"), said)
            self.assertIn("0 passed, 0 failed, 1 skipped", said)
        self.tests[0] = self.tests[0].replace("exit 77", "exit 1")
        for name in ("containers", "vm"):
            self.assertTrue(self.run_group(name)[0])
        self.tests[0] = ""
        for name in ("containers", "vm"):
            self.assertTrue(self.run_group(name)[0])

    def test_a_test_that_failed_fails_its_group_and_is_shown(self):
        self.add(SAID["cmocka"])
        self.add("[  PASSED  ] 3 test(s).\nthe last words", status=1)
        said = self.check(True, "1 passed, 1 skipped, ctest status 8, 2 cases")
        self.assertIn("the last words", said)

    def test_a_second_try_is_told_and_counted_once(self):
        mark = os.path.join(self.folder, "mark")
        self.add(SAID["pytest"])
        self.tests[0] = self.tests[0].replace("; exit 0", f"; test -e {mark} || {{ touch {mark}; exit 1; }}")
        self.check(False, "1 passed, 1 skipped, ctest status 0, 2 cases, passed only at the second try: test_0 ")

    # ---- several groups in one run ----

    def test_groups_in_one_run_are_told_one_by_one(self):
        self.add(SAID["cmocka"], label="one")
        self.add(SAID["pytest"], label="two")
        self.add(SAID["unittest"], label="one;two")
        self.add(SAID["unittest"], label="other")
        self.add("skipped: there is no engine", status=77, label="two")
        has_failed, lines, said = self.run_groups("one", "two")
        self.assertEqual((has_failed, lines), (False, ["one 2 passed, 2 skipped, ctest status 0, 4 cases",
                                                       "two 2 passed, 3 skipped, ctest status 0, 4 cases",
                                                       "4 passed, 0 failed, 5 skipped"]), said)

    def test_a_test_that_failed_fails_its_own_group_alone(self):
        self.add(SAID["cmocka"], label="one")
        self.add("[  PASSED  ] 3 test(s).\nthe last words", status=1, label="one")
        self.add(SAID["pytest"], label="two")
        mark = os.path.join(self.folder, "mark")
        self.tests[2] = self.tests[2].replace("; exit 0", f"; test -e {mark} || {{ touch {mark}; exit 1; }}")
        has_failed, lines, said = self.run_groups("one", "two")
        self.assertEqual((has_failed, lines), (True, ["one 1 passed, 1 skipped, ctest status 8, 2 cases",
                                                      "two 1 passed, 1 skipped, ctest status 0, 2 cases, passed only at the "
                                                      "second try: test_2", "2 passed, 1 failed, 2 skipped"]), said)
        self.assertIn("the last words", said)

    def test_a_test_that_nobody_started_fails_its_group(self):
        self.add(SAID["cmocka"], label="one")
        self.add(SAID["cmocka"], label="two")
        self.tests.append('set_tests_properties(test_1 PROPERTIES REQUIRED_FILES "/nothing/there")\n')
        has_failed, lines, said = self.run_groups("one", "two", "three")
        self.assertEqual((has_failed, lines), (True, ["one 1 passed, 1 skipped, ctest status 0, 2 cases",
                                                      "two 0 passed, 0 skipped, ctest status 8, 0 cases",
                                                      "three 0 passed, 0 skipped, ctest status 8, 0 cases",
                                                      "1 passed, 2 failed, 1 skipped"]), said)


if __name__ == "__main__":
    unittest.main()
