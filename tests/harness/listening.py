# SPDX-License-Identifier: Apache-2.0
"""What stands between two of a test listens with this."""
import threading


def serve_each(listener, serve):
    """Calls `serve` with each connection, in a thread of its own, until the listener is closed or shut down. Returns at once."""
    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
