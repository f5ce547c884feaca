#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The build of the images sees all that the build reads: .dockerignore lets in what it names, and new folders are easily forgotten."""
import os
import re
import subprocess
import unittest

import lab


def read(*path):
    with open(os.path.join(lab.SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def let_in():
    """What .dockerignore makes exceptions for, behind a '*' that keeps everything out."""
    lines = read(".dockerignore").splitlines()
    return [line[1:] for line in lines[lines.index("*"):] if line.startswith("!")]


class Context(unittest.TestCase):
    def covered(self, path):
        return any(path == folder or path.startswith(folder + "/") for folder in let_in())

    def test_every_folder_that_is_built_is_in_it(self):
        folders = set(re.findall(r"add_subdirectory\((\w+)\)", read("CMakeLists.txt"))) - {"tests"}
        self.assertGreater(len(folders), 5)
        self.assertEqual({folder for folder in folders if not self.covered(folder)}, set())

    def test_everything_that_the_build_names_is_in_it(self):
        files = subprocess.run(["git", "-C", lab.SOURCE, "ls-files", "*CMakeLists.txt", "cmake/*"], capture_output=True, text=True,
                               check=True).stdout.split()
        named = {path.rstrip("/*") for file in files if not file.startswith("tests/")
                 for path in re.findall(r"\$\{CMAKE_SOURCE_DIR\}/([\w./*-]+)", read(file))}
        self.assertIn("deploy/debian", named)
        self.assertEqual({path for path in named if not path.startswith("tests/") and not self.covered(path)}, set())

    def test_everything_that_the_dockerfile_copies_or_calls_is_in_it(self):
        text = read("deploy", "Dockerfile")
        named = set(re.findall(r"^COPY (?!--from)(\S+) ", text, re.M)) | set(re.findall(r"\bdeploy/[\w./-]+\.sh", text))
        self.assertIn("scripts/deps.sh", named)
        self.assertEqual({path for path in named - {"."} if not self.covered(path)}, set())


if __name__ == "__main__":
    unittest.main(verbosity=1)
