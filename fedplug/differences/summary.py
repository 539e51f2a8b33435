"""The contents of a difference, read without its base."""

from __future__ import annotations

from typing import NamedTuple

from fedplug.differences.arrays import read_array_message
from fedplug.differences.containers import ContainerReader
from fedplug.differences.models import read_entries

__all__ = ["Change", "describe"]


class Change(NamedTuple):
    """One array of a difference between models.

    Attributes:
        name: The name of the array.
        kind: ``"same"``, ``"changed"``, ``"whole"`` (added, or of another size or dtype) or ``"removed"``.
        dtype: The new dtype; empty if it was removed.
        shape: The new shape; empty if it was removed.
        nbytes: The size of the new array.
        sent: The size of its message.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    sent: int


def describe(messages: ContainerReader) -> list[Change]:
    """Reads what an untrusted message of a model contains; codes are not decoded.

    Raises:
        PayloadError: The message is invalid.
    """
    changes = []
    for entry in read_entries(messages.next()):
        if not entry.in_new:
            changes.append(Change(entry.name, "removed", "", (), 0, 0))
            continue
        payload = messages.next()
        message = read_array_message(payload)
        kind = "whole" if message.base is None else "same" if message.base == message.result else "changed"
        described = (str(message.dtype), message.shape, message.nbytes, len(payload))
        changes.append(Change(entry.name, kind, *described))
    messages.finish()
    return changes
