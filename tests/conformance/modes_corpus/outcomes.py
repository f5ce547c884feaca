# SPDX-License-Identifier: Apache-2.0
"""How tests end, and what pytest tells of it."""
from .cases import add

add("plain", """
    def test_sum():
        assert sum(range(4)) == 6
""")
add("neighbour", """
    from solution import double

    def test_right():
        assert double(4) == 8

    def test_wrong():
        assert double(4) == 9
""", {"solution.py": """
    def double(number):
        return number * 2
"""})
add("expected_failures", """
    import pytest

    @pytest.mark.xfail(reason="known")
    def test_known():
        assert False

    @pytest.mark.xfail
    def test_surprise():
        pass

    @pytest.mark.xfail(raises=KeyError)
    def test_other_error():
        raise IndexError(1)

    def test_by_call():
        pytest.xfail("inside")
""")
add("skips", """
    import pytest

    @pytest.mark.skip(reason="never")
    def test_mark():
        pass

    @pytest.mark.skipif("1 < 2", reason="always")
    def test_condition():
        pass

    def test_call():
        pytest.skip("now")

    def test_missing():
        pytest.importorskip("no_such_module_here")
""")
add("ids", """
    import pytest

    class Thing:
        pass

    @pytest.mark.parametrize("left, right", [
        (1, "one"), ("ä", None), (b"\\x00", 2.5), (Thing, len), (True, {}), pytest.param(0, 0, id="named one")])
    def test_pair(left, right):
        assert left != 1

    @pytest.mark.parametrize("outer", "xy")
    class TestGrid:
        @pytest.mark.parametrize("inner", range(3))
        def test_cell(self, outer, inner):
            assert (outer, inner) != ("y", 2)
""")
add("marks", """
    import pytest

    @pytest.mark.nobody_registered_this
    def test_it():
        pass
""")
add("unittest_style", """
    import unittest

    class Stack(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            print("class is set up")

        def setUp(self):
            self.items = [1]

        def tearDown(self):
            print("torn down")

        def test_push(self):
            self.items.append(2)
            self.assertEqual(self.items, [1, 2])

        def test_lists(self):
            self.assertListEqual(self.items, [2])

        @unittest.skip("later")
        def test_skipped(self):
            pass

        @unittest.expectedFailure
        def test_expected(self):
            self.assertTrue(False)

        def test_parts(self):
            for part in range(4):
                with self.subTest(part=part):
                    self.assertNotEqual(part, 2)

    class Waits(unittest.IsolatedAsyncioTestCase):
        async def test_awaits(self):
            self.assertIsNotNone(self)
""")
add("fixtures", """
    import pytest

    @pytest.fixture(scope="session", autouse=True)
    def whole():
        print("session begins")
        yield
        print("session ends")

    @pytest.fixture(params=["red", "blue"], scope="module")
    def colour(request):
        yield request.param

    @pytest.fixture
    def broken():
        raise LookupError("set-up")

    @pytest.fixture
    def breaks_later():
        yield
        raise LookupError("tear-down")

    def test_colour(colour):
        assert colour == "red"

    def test_broken(broken):
        pass

    def test_later(breaks_later):
        pass

    def test_both(breaks_later):
        assert 0

    def test_unknown(there_is_no_such_fixture):
        pass
""")
add("raising", """
    import pytest

    def test_matches():
        with pytest.raises(ValueError, match="literal"):
            int("four")

    def test_does_not():
        with pytest.raises(ValueError):
            int("4")

    def test_chain():
        try:
            {}["key"]
        except KeyError as error:
            raise RuntimeError("because of it") from error

    def test_group():
        raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
""")
add("comparisons", """
    import pytest

    def test_text():
        assert "first\\nsecond\\n" == "first\\n2nd\\n"

    def test_long_list():
        assert list(range(60)) == list(range(1, 61))

    def test_sets():
        assert {"a", "b"} == {"b", "c"}

    def test_dictionary():
        assert {"x": 1, "y": {"z": [1, 2]}} == {"x": 1, "y": {"z": [1, 3]}}

    def test_near():
        assert 0.1 + 0.2 == pytest.approx(0.31)

    def test_any():
        assert any(number > 9 for number in (1, 2)), "none is large"
""")
add("data_class", """
    from dataclasses import dataclass
    from enum import Enum

    @dataclass
    class Point:
        x: int
        tags: list

    class Side(Enum):
        LEFT = 1

    def test_points():
        assert Point(1, ["a"]) == Point(1, ["b"])

    def test_sides():
        assert Side.LEFT == 1
""")
add("many", "\n".join(f"def test_{number}():\n    assert {number} % 37\n" for number in range(1, 90)))
add("properties", """
    def test_record(record_property, record_testsuite_property):
        record_property("colour", "green")
        record_testsuite_property("suite", "one")
""")

# With more failures than one; what it may tell of its arguments is compared, too.
add("failures", """
    import sys
    def test_passes(request):
        config = request.config
        print(sys.argv, sys.orig_argv, config.invocation_params.args, config.getoption("maxfail"))
    def test_shows(request):
        test_passes(request)
        raise AssertionError("first")
    def test_fails():
        raise AssertionError("second")
    class TestMore:
        def test_passes(self):
            pass
    """, {"test_more.py": "import missing\n"})
add("broken_setup", """
    import pytest
    @pytest.fixture
    def broken():
        yield 1
        raise RuntimeError("at the end")
    def test_twice(broken):
        assert broken == 2
    def test_after():
        pass
    """)
