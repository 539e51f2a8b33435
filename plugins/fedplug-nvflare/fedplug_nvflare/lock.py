"""A lock for components, which NVFlare and its users pickle and copy."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["Lock"]


class Lock:
    """A lock for a ``with`` block; a copy of its owner has a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()
