#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every case of the two lists of public bug reports has a test here, or a reason why it has none."""
import glob
import os
import re
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

# The numbers of the lists; gaps are cases of other parts.
SANDBOX = [2, 4, 5, 6, 8, 9, 11, 12, 14, 15, 16, 17, 19, 20, 22, 23, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35, 36, 40, 42, 43, 44,
           45, 47, 48, 50, 51, 52, 54, 55, 57, 58, 59, 60, 62, 63, 64, 65, 66, 67]
SECURITY = list(range(1, 51))

# Case -> why no test of this suite can show it, and what does.
ELSEWHERE = {
    "sandbox 43": "a pool member that died: there is no pool of prepared sandboxes; each run makes its own",
    "sandbox 45": "stale pool members: there is no pool of prepared sandboxes",
    "sandbox 63": "what a start needs of the host, with the fix: e2e/check_test.py takes each need away",
    "sandbox 64": "a control group tree that is read-only: e2e/check_test.py; sandboxd makes and removes a group before it serves",
    "security 19": "files written as the caller: sandboxd writes no file for a caller; inputs are unpacked inside the box",
    "security 22": "a kernel without the filter action: unit tests backend/seccomp_test.c and front/confine_test.c",
    "security 23": "the service as another user: it starts as root only and says so (e2e_sandboxd, test_not_root)",
    "security 28": "a filter that denies execve to the jail itself: the policy is a table of ours and takes no rules from outside",
    "security 30": "a root filesystem with hostile links: it is the host's own /usr; docker images: integration tests of sandboxd/docker",
    "security 38": "containers that outlive their client: e2e test of the docker backend (sweep by label)",
    "security 44": "escape sequences on a terminal: sandboxd hands out bytes; unit test clients/crisol_untrusted_test.c has the client",
}


def tested():
    """The cases that names of tests claim: "sandbox 16", …"""
    found = set()
    for path in glob.glob(os.path.join(HERE, "*_test.py")):
        with open(path, encoding="utf-8") as file:
            for name in re.findall(r"^    def (test_\w+)", file.read(), re.MULTILINE):
                for kind, numbers in re.findall(r"(sandbox|security)((?:_\d+)+)", name):
                    found |= {f"{kind} {number}" for number in numbers.split("_") if number}
    return found


class Cases(unittest.TestCase):
    def test_each_case_is_tested_or_says_why_not(self):
        known = {f"sandbox {n}" for n in SANDBOX} | {f"security {n}" for n in SECURITY}
        self.assertEqual(known - tested() - set(ELSEWHERE), set(), "these have neither a test nor a reason")
        self.assertEqual(tested() - known, set(), "tests are named after cases that do not exist")
        self.assertEqual(tested() & set(ELSEWHERE), set(), "these have a test and need no reason")

    def test_the_files_that_the_reasons_name_exist(self):
        tests = os.path.dirname(HERE)
        for reason in ELSEWHERE.values():
            for path in re.findall(r"[\w/]+_test\.(?:c|py)", reason):
                found = glob.glob(os.path.join(tests, "**", os.path.basename(path)), recursive=True)
                self.assertTrue([name for name in found if name.endswith(path)], path)


if __name__ == "__main__":
    unittest.main(verbosity=1)
