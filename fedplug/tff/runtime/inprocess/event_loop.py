"""An event loop in a thread of its own, with which synchronous code runs coroutines."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from typing import TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """A running event loop, which ends with this object."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run_loop, args=[self._loop], name="fedplug-loop", daemon=True)
        thread.start()
        self._stop = weakref.finalize(self, _stop_loop, self._loop, thread)

    def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Returns the coroutine's result. Any thread except the loop's own may call this.

        An exception in the calling thread, such as Ctrl-C, cancels the coroutine and is raised at once.

        Raises:
            RuntimeError: The loop was closed.
        """
        if not self._stop.alive:
            coroutine.close()
            raise RuntimeError("this runtime was closed; choose one again with fedplug.use_runtime")
        call = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return call.result()
        except BaseException:
            call.cancel()
            raise

    def close(self) -> None:
        """Ends the loop and its thread; a second call does nothing."""
        self._stop()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join()
