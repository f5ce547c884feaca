# SPDX-License-Identifier: Apache-2.0
"""What pytest finds, and what it finds instead."""
from .cases import PYTEST, add

add("missing_import", """
    import there_is_no_module_of_this_name

    def test_never():
        pass
""")
add("broken_solution", """
    from solution import value

    def test_never():
        assert value
""", {"solution.py": "raise OSError('cannot be imported')\n", "test_second.py": "def test_goes_on():\n    pass\n"})
add("syntax_error", "def test_broken(:\n    pass\n")
add("syntax_in_solution", "import solution\n\n\ndef test_never():\n    pass\n", {"solution.py": "value = = 1\n"})
add("no_tests", "number = 1\n")
PYTEST["only_solution"] = {"solution.py": "value = 1\n"}
add("ignored_files", "def test_runs():\n    pass\n", {
    "conftest.py": "raise SystemExit('must not be read')\n",
    "pytest.ini": "[pytest]\naddopts = --collect-only\n",
    "pytest.py": "raise SystemExit('must not be imported')\n",
    "sitecustomize.py": "raise SystemExit('neither')\n"})
add("shadowed_modules", """
    import colorsys
    import difflib
    import json
    import solution

    def test_whose():
        print(colorsys.__file__, difflib.__file__, json.__file__, solution.__file__)
        assert [1] == [2]
""", {"colorsys.py": "name = 1\n", "difflib.py": "name = 2\n", "json.py": "name = 3\n", "solution.py": ""})
add("folders", "def test_top():\n    pass\n", {
    "package/__init__.py": "value = 3\n",
    "package/test_inner.py": "from . import value\n\n\ndef test_value():\n    assert value == 4\n",
    "plain/test_outer.py": "import os\n\n\ndef test_place():\n    assert os.getcwd() == '/workspace'\n",
    "plain/other_test.py": "def test_name():\n    pass\n"})
add("same_names", "def test_top():\n    pass\n", {
    "one/test_twin.py": "def test_first():\n    pass\n", "two/test_twin.py": "def test_second():\n    pass\n"})
add("doctest", '''
    def double(number):
        """
        >>> double(2)
        5
        """
        return number * 2

    def test_real():
        assert double(2) == 4
''')
add("rewriting", """
    from helper import check

    def test_here():
        values = {"a": [1, 2]}
        assert values["a"][1] == len(values), f"{values}"

    def test_there():
        check(3)
""", {"helper.py": "def check(number):\n    assert number == 4\n"})
add("source", """
    import inspect
    import solution

    def test_source():
        print(inspect.getsource(solution.value))
        assert False
""", {"solution.py": "def value():\n    return 'text'\n"})
add("new_module", """
    import importlib
    import solution

    def test_writes():
        with open("made.py", "w", encoding="utf-8") as file:
            file.write("number = 5\\n")
        import made
        assert made.number == 5

    def test_reloads():
        assert importlib.reload(solution) is solution
""", {"solution.py": "number = 1\n"})
