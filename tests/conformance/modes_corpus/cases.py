# SPDX-License-Identifier: Apache-2.0
"""PYTEST and PYTHON, and what adds to them."""
import textwrap

PYTEST = {}
PYTHON = {}
SHOW = "\n\ndef test_show():\n    show()\n    raise AssertionError('shown')\n"


def add(name, test, files=None, **more):
    cases = {f"test_{name}.py": textwrap.dedent(test)}
    for path, text in {**(files or {}), **more}.items():
        cases[path] = textwrap.dedent(text)
    PYTEST[name] = cases


def show(name, text, files=None):
    """A case whose function show() prints what is compared."""
    add(name, textwrap.dedent(text) + SHOW, files)


def program(name, main, **files):
    PYTHON[name] = {"main.py": textwrap.dedent(main), **files}
