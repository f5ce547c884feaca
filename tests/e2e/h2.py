# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand, for connections that no gRPC library would make (RFC 9113, RFC 7541)."""
import struct

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
ACK = END_STREAM = 1
END_HEADERS = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CANCEL = struct.pack(">I", 8)


def frame(kind, flags=0, stream=0, payload=b"", size=None):
    """One frame; with `size`, one that announces another size than it has."""
    return struct.pack(">I", len(payload) if size is None else size)[1:] + struct.pack(
        ">BBI", kind, flags, stream) + payload


def settings(*pairs):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in pairs))


OPENING = PREFACE + settings()


def length(value, first=0, bits=7):
    """An integer of HPACK with a prefix of `bits` bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return length(len(value)) + value


def field(name, value):
    """Without the table and without Huffman."""
    return b"\0" + text(name) + text(value)


def fields(path, *more, content_type="application/grpc"):
    return b"".join(field(*pair) for pair in (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"), ("te", "trailers"),
        ("content-type", content_type), *more))


def block(stream, payload, flags=0):
    """HEADERS and, where they do not fit, CONTINUATION frames."""
    parts = [payload[at:at + 16384] for at in range(0, len(payload), 16384)] or [b""]
    out = []
    for index, part in enumerate(parts):
        last = END_HEADERS if index == len(parts) - 1 else 0
        out.append(frame(CONTINUATION if index else HEADERS, last | (0 if index else flags), stream, part))
    return b"".join(out)


def request(stream, path, *more, flags=0):
    return block(stream, fields(path, *more), flags)


def message(payload=b"", flag=0, size=None):
    return struct.pack(">BI", flag, len(payload) if size is None else size) + payload


def call(stream, path, payload=b""):
    """A whole unary call."""
    return request(stream, path) + frame(DATA, END_STREAM, stream, message(payload))


def frames(data):
    """Where each frame in `data` begins whose header is whole."""
    at = 0
    while at + 9 <= len(data):
        yield at
        at += 9 + int.from_bytes(data[at:at + 3], "big")
