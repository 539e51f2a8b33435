"""Threads that share a store take turns: each call of its methods takes effect as a whole.

A store and the states of its processes have one `Turn`, and `in_turn` decorates their methods.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from fedplug.errors import StoreError

__all__ = ["Turn", "in_turn", "refuse_copies"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Shared(Protocol):
    turn: Turn


_S = TypeVar("_S", bound=_Shared)


class Turn:
    """The lock of an open store, for the process that opened it.

    Attributes:
        lock: The lock, which a thread that has it may take again.
        where: The store, for errors.
        process: The id of the process.
    """

    def __init__(self, where: str) -> None:
        self.lock = threading.RLock()
        self.where = where
        self.process = os.getpid()

    def is_of_parent(self) -> bool:
        """Returns whether this process is a forked child of the one that opened the store."""
        return os.getpid() != self.process

    def require_own_process(self) -> None:
        """Raises in a forked child, where a thread that no longer exists may have the lock.

        Raises:
            StoreError: This process is a forked child.
        """
        if self.is_of_parent():
            raise StoreError(
                f"{self.where} was opened before a fork(), by the parent of this process; use it only there, "
                "or start processes with the 'spawn' method"
            )


def in_turn(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Decorates a method of an object that has a `Turn` as its attribute ``turn``.

    It must not be a generator: the lock is released when the method returns.
    """

    @functools.wraps(method)
    def call(self: _S, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        if os.getpid() != self.turn.process:
            self.turn.require_own_process()
        with self.turn.lock:  # a statement on the lock itself, so that an interrupt cannot leave it taken
            return method(self, *arguments, **keywords)

    return call


def refuse_copies(opened: _Shared) -> NoReturn:
    """Refuses to pickle or copy an object that has a `Turn`. Use it as ``__reduce__``.

    Raises:
        StoreError: Always.
    """
    raise StoreError(
        f"a {type(opened).__name__} cannot be pickled or copied, because it belongs to the open store "
        f"{opened.turn.where}; close that, and open it in the other process by its URL or configuration"
    )
