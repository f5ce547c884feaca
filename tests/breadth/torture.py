# SPDX-License-Identifier: Apache-2.0
"""Compares the C programs of a folder in boxes of a sandboxd of its own with bare runs. See scripts/torture.sh."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import services as crisol  # noqa: E402  (needs the path above)
import corpus  # noqa: E402


def main():
    folder, every = sys.argv[1], int(sys.argv[2])
    texts = corpus.programs(folder, every)
    if not texts:
        sys.exit(f"there is no C program in {folder}")
    with crisol.Services(with_agent=False) as running:
        differences, figures = corpus.compare(texts, running.sandbox)
    print("\n".join([*differences, figures]))
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
