"""What the index of a store on disk knows of processes, rounds, segments and blobs: its rows."""

from __future__ import annotations

from typing import NamedTuple

from fedplug.stores.segment import Extent

__all__ = ["SERVER", "Entry", "ProcessRow", "RoundRow", "SegmentRow", "client_owner"]

SERVER = "server"
"""The owner of the server state; owners of client states start with ``client:``, so none can collide."""


class ProcessRow(NamedTuple):
    """What is known of a process; ``signature`` and ``metadata`` are JSON texts."""

    process: str
    signature: str
    round: int | None
    metadata: str


class RoundRow(NamedTuple):
    """A round that is kept; ``metadata`` is a JSON text, ``owners`` the JSON list of those it replaced.

    The list is empty when what they had before is no longer kept.
    """

    process: str
    round: int
    metadata: str
    owners: str


class SegmentRow(NamedTuple):
    """What is known of a segment.

    Attributes:
        segment: Its number.
        live: Bytes that the blobs alive in it occupy.
        note: Bytes of it that are no blobs (`fedplug.stores.note`).
        doomed: 1 when it holds blobs of rounds that were gone back from, so that it has to go; else 0.
    """

    segment: int
    live: int
    note: int
    doomed: int


class Entry(NamedTuple):
    """Whose blob of which round lies where."""

    process: str
    owner: str
    round: int
    extent: Extent

    def __str__(self) -> str:
        whose = "server state" if self.owner == SERVER else f"client {self.client!r}"
        return f"process {self.process!r}, {whose}, round {self.round}"

    @property
    def is_server(self) -> bool:
        """Whether it is the server's state."""
        return self.owner == SERVER

    @property
    def client(self) -> str:
        """The client id; only for entries of clients."""
        return self.owner.removeprefix("client:")


def client_owner(client_id: str) -> str:
    """The owner of a client's state."""
    return "client:" + client_id
