# SPDX-License-Identifier: Apache-2.0
"""A unix socket in front of another, whose connections can be cut."""
import os
import select
import socket
import threading


class Relay:
    """Passes bytes on both ways, and cuts a connection once the far end has sent `cut_after` bytes; `cuts` times."""

    def __init__(self, path, target, cut_after, cuts):
        self.target, self.cut_after, self.cuts_left, self.cuts = target, cut_after, cuts, 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(16)
        self.stop_read, self.stop_write = os.pipe()
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while self.listener in select.select([self.listener, self.stop_read], [], [])[0]:
            near, _ = self.listener.accept()
            thread = threading.Thread(target=self.serve, args=(near,))
            self.threads.append(thread)
            thread.start()

    def serve(self, near):
        sent = 0
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(self.target)
            while True:
                ready = select.select([near, far, self.stop_read], [], [])[0]
                if self.stop_read in ready:
                    return
                for source, other in ((near, far), (far, near)):
                    if source not in ready:
                        continue
                    data = source.recv(65536)
                    if not data:
                        return
                    sent += len(data) if source is far else 0
                    if self.cuts_left > 0 and sent > self.cut_after:
                        self.cuts_left -= 1
                        self.cuts += 1
                        return
                    other.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.write(self.stop_write, b"x")
        for thread in self.threads:
            thread.join()
        self.listener.close()
        os.close(self.stop_read)
        os.close(self.stop_write)
