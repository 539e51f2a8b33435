"""A way to a server that a test cuts: at once, or when the server is told or tells something."""

from __future__ import annotations

import contextlib
import select
import socket
import threading


class Proxy:
    """Passes on everything from its port. A context manager. Connections are served one after the other.

    Attributes:
        port: Where it listens.
        cut_before: Bytes; when the client sends them, they are not passed on and the connection is cut.
        cut_after: Bytes; when the client sends them, they are passed on, the answer is awaited, and cut.
        mute: Whether nothing is passed on, while the connection stays.
    """

    def __init__(self, server_port):
        self._server = ("127.0.0.1", server_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut_before = self.cut_after = None
        self.mute = False

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops listening."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client):
        with client, socket.create_connection(self._server) as server, contextlib.suppress(OSError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    content = ready.recv(1 << 16)
                    if not content:
                        return
                    if self.mute:
                        continue
                    if ready is server:
                        client.sendall(content)
                    elif self.cut_before and self.cut_before in content:
                        self.cut_before = None
                        return
                    else:
                        server.sendall(content)
                        if self.cut_after and self.cut_after in content:
                            self.cut_after = None
                            server.recv(1 << 16)
                            return
