# SPDX-License-Identifier: Apache-2.0
"""What a pooler does between a database and its clients when it pools by transaction, as pgbouncer does: each transaction has
whichever connection to the server is free, and nothing that belongs to a connection is a client's own."""
import os
import queue
import select
import socket
import struct
import tempfile
import threading

from listening import serve_each

CONNECTIONS = 3
REQUESTS_OF_TLS = (80877103, 80877104)  # SSLRequest and GSSENCRequest of the protocol
ENDS_A_REQUEST = (b"Q", b"S")  # a simple query, and a Sync: each is answered by one ReadyForQuery


def read_exactly(peer, size):
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionError("the peer has closed")
        data += piece
    return data


def read_message(peer):
    """Type, and the whole message."""
    head = read_exactly(peer, 5)
    return head[:1], head + read_exactly(peer, struct.unpack("!I", head[1:])[0] - 4)


def read_startup(client):
    while True:
        size = read_exactly(client, 4)
        body = read_exactly(client, struct.unpack("!I", size)[0] - 4)
        if struct.unpack("!I", body[:4])[0] not in REQUESTS_OF_TLS:
            return size + body
        client.sendall(b"N")


class Pooler:
    """A unix socket like the server's. All clients are of one user and one database."""

    def __init__(self, server_folder):
        self.folder = tempfile.TemporaryDirectory(prefix="crisol-pooler-")
        os.chmod(self.folder.name, 0o755)
        self.server_path = os.path.join(server_folder, ".s.PGSQL.5432")
        self.free = queue.Queue()
        self.lock = threading.Lock()
        self.opened, self.startup, self.greeting, self.switches = [], b"", b"", 0
        self.listener = socket.socket(socket.AF_UNIX)
        path = os.path.join(self.folder.name, ".s.PGSQL.5432")
        self.listener.bind(path)
        os.chmod(path, 0o777)
        self.listener.listen(64)
        serve_each(self.listener, self.serve)

    def open(self):
        """Another connection to the server, and what it says on it at first."""
        server, kind, greeting = socket.socket(socket.AF_UNIX), b"", b""
        self.opened.append(server)
        server.connect(self.server_path)
        server.sendall(self.startup)
        while kind != b"Z":
            kind, message = read_message(server)
            greeting += message
        return server, greeting

    def greet(self, client):
        """What the server says to the first client, it says to all."""
        startup = read_startup(client)
        with self.lock:
            while len(self.opened) < CONNECTIONS:
                self.startup = startup
                server, self.greeting = self.open()
                self.free.put(server)
        client.sendall(self.greeting)

    def serve(self, client):
        last = None
        with client:
            try:
                self.greet(client)
                while True:
                    kind, message = read_message(client)
                    if kind == b"X":
                        return
                    server = self.free.get()
                    self.switches += last not in (None, server)
                    last = server
                    try:
                        self.transact(client, server, kind, message)
                    except OSError:
                        # In the middle of a transaction, which would go on to hold its locks.
                        server.close()
                        server, _ = self.open()
                        raise
                    finally:
                        self.free.put(server)
            except OSError:
                pass  # a client that was killed

    @staticmethod
    def transact(client, server, kind, message):
        """Until the server is idle and has answered everything."""
        owed, is_synced, state = 0, True, b"I"
        while True:
            if message:
                server.sendall(message)
                owed += kind in ENDS_A_REQUEST
                is_synced = kind in ENDS_A_REQUEST
            if owed == 0 and is_synced and state == b"I":
                return
            message = None
            for ready in select.select([client, server], [], [])[0]:
                if ready is client:
                    kind, message = read_message(client)
                    break
                answer, body = read_message(server)
                client.sendall(body)
                if answer == b"Z":
                    owed, state = owed - 1, body[-1:]

    def close(self):
        self.listener.close()
        for server in self.opened:
            server.close()
        self.folder.cleanup()


class PooledServer:
    """A server whose databases are reached through a pooler; tests/durable/house.py takes it for a Postgres."""

    def __init__(self, server):
        self.server, self.ask = server, server.ask
        self.pooler = Pooler(server.folder)

    def create(self, name):
        self.server.create(name)
        return f"postgresql://crisol@/{name}?host={self.pooler.folder.name}"

    def close(self):
        self.pooler.close()
