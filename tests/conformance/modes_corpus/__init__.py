# SPDX-License-Identifier: Apache-2.0
"""What is run in every way to start a program, and must look the same in all of them.

PYTEST and PYTHON: name -> {path: text, or (text, mode)}. The tests that fail do so on purpose: then pytest shows
what it captured, and that is compared.
"""
from . import collection, ends, late, outcomes, output, processes, programs, sights  # noqa: F401
from .cases import PYTEST, PYTHON  # noqa: F401

# With arguments of the request, the same again: those in which more than the outcome matters.
STOPPING = (
    "failures", "broken_setup", "skips", "ids", "fixtures", "capture_fixtures", "warnings", "ignored_files", "at_exit",
    "identity", "module_list", "hooks", "plugins")
SHALLOW = (
    "skips", "ids", "fixtures", "descriptors", "capture_fixtures", "warnings", "ignored_files", "shadowed_modules",
    "at_exit", "open_file", "threads", "identity", "descriptor_table", "module_list", "hooks", "plugins")
