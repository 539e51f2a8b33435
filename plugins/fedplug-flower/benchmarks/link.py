"""A TCP proxy that limits the rate in each direction and counts the bytes, like a slow network."""

from __future__ import annotations

import asyncio
import threading
import time

__all__ = ["Link"]

_CHUNK = 16 * 1024


class Link:
    """Forwards connections to a port of this machine. All connections share the rate.

    Attributes:
        address: Where clients connect instead.
        bytes: Bytes forwarded to the clients (down) and from them (up).
    """

    def __init__(self, port: int, bits_per_second: float) -> None:
        """Starts the proxy in a thread.

        Args:
            port: The port of the server.
            bits_per_second: The rate in each direction. May be infinite.
        """
        self.bytes = {"down": 0, "up": 0}
        self._port = port
        self._bytes_per_second = bits_per_second / 8
        self._free = {"down": 0.0, "up": 0.0}  # when the last chunk has passed
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True).start()
        self._started.wait()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        except ConnectionError:  # the server has ended
            writer.close()
            return
        await asyncio.gather(self._forward(reader, ours, "up"), self._forward(theirs, writer, "down"))

    async def _forward(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: str
    ) -> None:
        try:
            while chunk := await source.read(_CHUNK):
                self.bytes[direction] += len(chunk)
                begin = max(time.monotonic(), self._free[direction])
                self._free[direction] = begin + len(chunk) / self._bytes_per_second
                await asyncio.sleep(self._free[direction] - time.monotonic())
                target.write(chunk)
                await target.drain()
        except ConnectionError:  # one side has gone; the other is closed below
            pass
        target.close()
