# SPDX-License-Identifier: Apache-2.0
"""Reads Prometheus' text format 0.0.4 and refuses what `promtool check metrics` and the format refuse."""
import re
import urllib.request

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"^({NAME})(?:\{{((?:{LABEL},?)*)\}})? (\S+)$")


def family_of(name, types):
    """The family that a sample belongs to: its own name, or that of its histogram."""
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and types.get(name[:-len(suffix)]) == "histogram":
            return name[:-len(suffix)]
    return name


def parse(text):
    """(types by family, samples by (name, sorted labels)); an AssertionError for what is not right."""
    assert text.endswith("\n")
    types, helps, samples, seen, current = {}, set(), {}, [], None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert re.fullmatch(NAME, current) and current not in helps, f"second HELP: {line}"
            assert line.split(" ", 3)[3].strip(), f"empty help: {line}"
            helps.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and name not in types and kind in ("counter", "gauge", "histogram"), line
            types[name] = kind
        else:
            match = SAMPLE.match(line)
            assert match, f"not a sample: {line!r}"
            name, labels = match.group(1), re.findall(LABEL, match.group(2) or "")
            assert family_of(name, types) == current, f"outside of its family: {line}"
            assert len({key for key, _ in labels}) == len(labels), f"a label twice: {line}"
            key = (name, tuple(sorted(labels)))
            assert key not in samples, f"twice: {line}"
            samples[key] = float(match.group(5))
            seen.append(current)
    assert helps == set(types), "HELP and TYPE belong together"
    assert [name for i, name in enumerate(seen) if i == 0 or seen[i - 1] != name] == list(dict.fromkeys(seen)), \
        "a family in two places"
    for family, kind in types.items():
        check_family(family, kind, samples)
    return types, samples


def check_family(family, kind, samples):
    if kind == "counter":
        assert family.endswith("_total"), f"counters end with _total: {family}"
        assert all(value >= 0 for (name, _), value in samples.items() if name == family)
    elif kind == "gauge":
        assert not family.endswith("_total"), f"gauges do not end with _total: {family}"
    else:
        check_histogram(family, samples)


def check_histogram(family, samples):
    groups = {}
    for (name, labels), value in samples.items():
        if name == family + "_bucket":
            bound = dict(labels)["le"]
            groups.setdefault(tuple(label for label in labels if label[0] != "le"), []).append((float(bound), value))
    for labels, buckets in groups.items():
        bounds = sorted(buckets)
        assert bounds == buckets and bounds[-1][0] == float("inf"), f"bounds of {family} {labels}"
        assert [value for _, value in bounds] == sorted(value for _, value in bounds), f"{family} is not cumulative"
        assert samples[(family + "_count", labels)] == bounds[-1][1]
        assert samples[(family + "_sum", labels)] >= 0


def scrape(address):
    """The page of host:port, parsed."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=90) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return parse(answer.read().decode())


def value(samples, name, **labels):
    return samples[(name, tuple(sorted(labels.items())))]
