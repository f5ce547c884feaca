#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares rpc/json with the JSON of Google's own protobuf library on random messages.

Usage: json_compare.py JSON_TOOL DESCRIPTOR_SET… ; prints the seed, so that a failure can be repeated.
"""
import json
import math
import os
import random
import subprocess
import sys

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError:
    print("google.protobuf for /usr/bin/python3 is not here (Debian: python3-protobuf)")
    sys.exit(77)

ROUNDS = 40
TYPES = [
    "crisol.test.v1.Everything",
    "crisol.sandbox.v1.ExecuteRequest",
    "crisol.sandbox.v1.ExecuteResponse",
    "crisol.sandbox.v1.RunResponse",
    "crisol.sandbox.v1.GetCapabilitiesResponse",
    "crisol.sandbox.v1.ListRuntimesResponse",
    "crisol.agent.v1.GenerateRequest",
    "crisol.agent.v1.GenerateResponse",
    "crisol.agent.v1.GenerateStreamResponse",
    "crisol.agent.v1.DescribeGraphResponse",
]
SNAKE, DEFAULTS = 1, 2
TEXT = 'aZ0 _"\\/\b\f\n\r\t\x01\x7f\u00e9\u20ac\u2028\U0001F600<&'


def load_pool(paths):
    pool = descriptor_pool.DescriptorPool()
    for path in paths:
        with open(path, "rb") as file:
            for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
                pool.Add(proto)
    return pool


class Maker:
    """Fills messages with random values, borders among them."""

    def __init__(self, rng):
        self.rng = rng

    def integer(self, low, high):
        near = [0, 1, -1, low, high, 2**53, 2**53 + 1, -(2**53) - 1]
        value = self.rng.choice(near + [self.rng.randint(low, high)])
        return min(max(value, low), high)

    def number(self):
        # No NaN, which is unequal to itself.
        borders = [0.1, 1e-7, 1.5, -2.25, 3e38, 1e21, math.inf, -math.inf, 123456789.0]
        return self.rng.choice(borders + [self.rng.uniform(-1e9, 1e9)])

    def text(self):
        return "".join(self.rng.choice(TEXT) for _ in range(self.rng.randint(0, 12)))

    def scalar(self, field):
        kind = field.type
        if kind in (field.TYPE_INT32, field.TYPE_SINT32, field.TYPE_SFIXED32):
            return self.integer(-(2**31), 2**31 - 1)
        if kind in (field.TYPE_INT64, field.TYPE_SINT64, field.TYPE_SFIXED64):
            return self.integer(-(2**63), 2**63 - 1)
        if kind in (field.TYPE_UINT32, field.TYPE_FIXED32):
            return self.integer(0, 2**32 - 1)
        if kind in (field.TYPE_UINT64, field.TYPE_FIXED64):
            return self.integer(0, 2**64 - 1)
        if kind in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            return self.number()
        if kind == field.TYPE_BOOL:
            return self.rng.random() < 0.5
        if kind == field.TYPE_STRING:
            return self.text()
        if kind == field.TYPE_BYTES:
            return bytes(self.rng.randrange(256) for _ in range(self.rng.randint(0, 9)))
        if kind == field.TYPE_ENUM:
            known = [value.number for value in field.enum_type.values]
            return self.rng.choice(known + [4711])
        raise AssertionError(kind)

    def fill_map(self, target, field, depth):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(self.rng.randint(0, 3)):
            if value.message_type:
                self.fill(target[self.scalar(key)], depth + 1)
            else:
                target[self.scalar(key)] = self.scalar(value)

    def fill_list(self, target, field, depth):
        for _ in range(self.rng.randint(0, 3)):
            if field.message_type:
                self.fill(target.add(), depth + 1)
            else:
                target.append(self.scalar(field))

    def fill(self, message, depth=0):
        for field in message.DESCRIPTOR.fields:
            if self.rng.random() < (0.4 if depth < 3 else 0.9):
                continue
            if field.message_type and field.message_type.GetOptions().map_entry:
                self.fill_map(getattr(message, field.name), field, depth)
            elif field.label == field.LABEL_REPEATED:
                self.fill_list(getattr(message, field.name), field, depth)
            elif field.message_type:
                getattr(message, field.name).SetInParent()
                self.fill(getattr(message, field.name), depth + 1)
            else:
                setattr(message, field.name, self.scalar(field))


class Tool:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, verb, kind, style, data):
        self.process.stdin.write(f"{verb} {kind} {style} {data.hex()}\n".encode())
        self.process.stdin.flush()
        word, _, rest = self.process.stdout.readline().rstrip(b"\n").partition(b" ")
        return word == b"ok", rest

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=90) == 0


def same_number(ours, theirs):
    """Numbers are compared as values: 1e+21 and 1000000000000000000000 are the same."""
    if type(ours) in (int, float) and type(theirs) in (int, float):
        return float(ours) == float(theirs)
    return ours == theirs


def same(ours, theirs):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return same_number(ours, theirs)


def compare(tool, message, kind, style):
    wire = message.SerializeToString()
    theirs = json_format.MessageToJson(
        message,
        including_default_value_fields=bool(style & DEFAULTS),
        preserving_proto_field_name=bool(style & SNAKE),
    )
    is_ok, ours = tool.ask("write", kind, style, wire)
    assert is_ok, ours
    assert same(json.loads(ours), json.loads(theirs)), f"\nours   {ours}\ntheirs {theirs}"
    for text in (ours, theirs.encode()):
        is_ok, wire_again = tool.ask("read", kind, 0, text)
        assert is_ok, f"{wire_again} for {text}"
        again = type(message).FromString(bytes.fromhex(wire_again.decode()))
        assert again == message, f"\nwas {message}\nis {again}\ntext {text}"


def main():
    tool = Tool(sys.argv[1])
    pool = load_pool(sys.argv[2:])
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
    print(f"SEED={seed}")
    maker = Maker(random.Random(seed))
    factory = message_factory.MessageFactory(pool)
    count = 0
    for _ in range(ROUNDS):
        for kind in TYPES:
            message = factory.GetPrototype(pool.FindMessageTypeByName(kind))()
            maker.fill(message)
            for style in range(4):
                compare(tool, message, kind, style)
                count += 1
    tool.close()
    print(f"{count} comparisons, no difference")


if __name__ == "__main__":
    main()
