# SPDX-License-Identifier: Apache-2.0
"""C programs end in a box as they do outside. scripts/torture.sh does the same with those of the GCC test suite."""
import os

import corpus

OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "c")


def test_c_programs_end_as_in_a_bare_run(services):
    texts = corpus.programs(OWN)
    # So that the comparison can fail: what the box does not have is seen.
    texts["different.c"] = '#include <unistd.h>\nint main(void) { return access("main.c", W_OK) || getuid() != 1000; }\n'
    differences, figures = corpus.compare(texts, services.sandbox)
    print("\n" + figures)
    assert len(texts) == 11
    assert [text.split(":")[0] for text in differences] == ["different.c"], differences
