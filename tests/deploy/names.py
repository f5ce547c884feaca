# SPDX-License-Identifier: Apache-2.0
"""A name server for one name, whose addresses may change at any time (RFC 1035; UDP, A records)."""
import socket
import struct
import threading

A, IN, NO_SUCH_NAME = 1, 1, 3


class Names:
    def __init__(self, name):
        self.name = name.lower()
        self.addresses = []
        self.queries = 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                query, sender = self.sock.recvfrom(512)
            except OSError:
                return
            if not query:
                return
            try:
                self.sock.sendto(self.answer(query), sender)
            except (struct.error, IndexError, OSError):
                continue

    def answer(self, query):
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind, _ = struct.unpack(">HH", query[at + 1:at + 5])
        is_ours = ".".join(labels).lower() == self.name
        addresses = self.addresses if is_ours and kind == A else []
        self.queries += is_ours and kind == A
        flags = 0x8580 | (0 if is_ours else NO_SUCH_NAME)
        head = query[:2] + struct.pack(">HHHHH", flags, 1, len(addresses), 0, 0)
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", A, IN, 0, 4) + socket.inet_aton(address)
                           for address in addresses)
        return head + query[12:at + 5] + records

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self.port))  # the end, to serve()
        self.thread.join(10)
        self.sock.close()
